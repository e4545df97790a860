"""Framing: the messages that were encoded are decoded, and nothing else is."""

from __future__ import annotations

import struct

import pytest

from inspect_moat._wire import (
    BLOB_MAX,
    JSON_MAX,
    FrameDecoder,
    FrameTooLargeError,
    ProtocolError,
    encode_frame,
)


def joined(message: dict[str, object], blob: bytes = b"") -> bytes:
    return b"".join(bytes(part) for part in encode_frame(message, blob))


def test_layout_is_that_of_the_protocol() -> None:
    assert joined({"a": "é"}, b"xyz") == b"\x0a\0\0\0\x03\0\0\0" + '{"a":"é"}'.encode() + b"xyz"


def test_round_trip_byte_by_byte() -> None:
    stream = joined({"type": "data", "id": 1}, b"\0\xff" * 9) + joined({"type": "eof", "id": 1})
    decoder = FrameDecoder()
    frames = [frame for i in range(len(stream)) for frame in decoder.feed(stream[i : i + 1])]
    assert frames == [({"type": "data", "id": 1}, b"\0\xff" * 9), ({"type": "eof", "id": 1}, b"")]


def test_many_frames_at_once() -> None:
    stream = b"".join(joined({"id": i}) for i in range(100))
    assert [message["id"] for message, _ in FrameDecoder().feed(stream)] == list(range(100))


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<II", 1, 0),
        struct.pack("<II", JSON_MAX + 1, 0),
        struct.pack("<II", 2, BLOB_MAX + 1),
    ],
)
def test_refuses_sizes_outside_the_limits(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(header)


@pytest.mark.parametrize("text", [b"[]", b"42", b'"a"', b"{", b"\xff\xfe"])
def test_refuses_what_is_not_an_object(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        FrameDecoder().feed(struct.pack("<II", len(text), 0) + text)


def test_does_not_send_what_does_not_fit() -> None:
    with pytest.raises(FrameTooLargeError):
        encode_frame({"argv": "x" * JSON_MAX})
    with pytest.raises(FrameTooLargeError):
        encode_frame({}, b"x" * (BLOB_MAX + 1))


@pytest.mark.parametrize("value", ["\ud83d", float("nan"), "\0", "a\0", "\\\0"])
def test_does_not_send_what_is_not_json(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_frame({"value": value})


@pytest.mark.parametrize("value", [10**30, 2**63, -(2**63) - 1])
def test_does_not_send_integers_that_no_daemon_reads(value: int) -> None:
    """The connection, and with it all its sandboxes, would end."""
    with pytest.raises(ValueError, match="more than 64 bits"):
        encode_frame({"args": {"actions": [{"do": "click", "x": value}]}})


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1e300, ',"x":' + "9" * 40])
def test_large_numbers_and_their_digits_are_sent(value: object) -> None:
    ((message, _),) = FrameDecoder().feed(joined({"args": [value]}))
    assert message == {"args": [value]}


@pytest.mark.parametrize("text", [r"\u0000", r"printf '\\u0000'", "\\"])
def test_an_escape_that_is_only_text_is_sent(text: str) -> None:
    ((message, _),) = FrameDecoder().feed(joined({"argv": [text]}))
    assert message["argv"] == [text]
