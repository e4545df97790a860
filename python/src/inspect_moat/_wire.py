"""Frames of the moat protocol: bytes in, messages out. Pure: no socket, no clock."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

PROTOCOL_VERSION = 1
JSON_MIN = 2
JSON_MAX = 4 * 1024 * 1024
BLOB_MAX = 1024 * 1024

_HEADER = struct.Struct("<II")
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_LONG_NUMBER = re.compile(r"[:,\[]-?[0-9]{19}")
_INTEGER_MAX = 2**63 - 1

Message = dict[str, Any]


class ProtocolError(Exception):
    """The other side does not speak the protocol: the connection cannot be used any more."""


class FrameTooLargeError(ValueError):
    """A message of ours does not fit into a frame; nothing was sent."""


def encode_frame(message: Message, blob: bytes | memoryview = b"") -> list[bytes | memoryview]:
    """Return the pieces of one frame, to be written one after the other."""
    # allow_nan: NaN is not JSON, and the daemon would close the connection because of it
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # The daemon takes no NUL in a string, and a frame that it cannot read ends the connection.
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise ValueError("text with a NUL character")
    # Neither does it take an integer of more than 64 bits, such as a model may think of.
    if _LONG_NUMBER.search(text) and not _fits(message):
        raise ValueError("a number with more than 64 bits")
    try:
        head = text.encode("utf-8")
    except UnicodeEncodeError as ex:
        raise ValueError(f"text that is not valid Unicode: {ex.reason}") from None
    if len(head) > JSON_MAX:
        raise FrameTooLargeError(f"a message of {len(head)} bytes (the limit is {JSON_MAX})")
    if len(blob) > BLOB_MAX:
        raise FrameTooLargeError(f"a blob of {len(blob)} bytes (the limit is {BLOB_MAX})")
    prefix = _HEADER.pack(len(head), len(blob)) + head
    return [prefix, blob] if len(blob) else [prefix]


def _fits(value: Any) -> bool:
    """Whether the daemon can hold all integers in it."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_fits, value))
    return not isinstance(value, int) or -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX


class FrameDecoder:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Message, bytes]]:
        """Add bytes; return the frames that are complete now.

        Raises:
            ProtocolError: on sizes outside the limits and on JSON that is not an object.
        """
        self._buffer += data
        frames: list[tuple[Message, bytes]] = []
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            json_len, blob_len = _HEADER.unpack_from(self._buffer, start)
            if not JSON_MIN <= json_len <= JSON_MAX or blob_len > BLOB_MAX:
                raise ProtocolError(f"a frame of {json_len} + {blob_len} bytes")
            json_start = start + _HEADER.size
            blob_start = json_start + json_len
            end = blob_start + blob_len
            if len(self._buffer) < end:
                break
            message = _decode_message(bytes(self._buffer[json_start:blob_start]))
            frames.append((message, bytes(self._buffer[blob_start:end])))
            start = end
        del self._buffer[:start]
        return frames


def _decode_message(data: bytes) -> Message:
    try:
        message = json.loads(data)
    except ValueError as ex:
        raise ProtocolError(f"a frame that is not JSON: {ex}") from None
    if not isinstance(message, dict):
        raise ProtocolError("a frame that is not a JSON object")
    return message
