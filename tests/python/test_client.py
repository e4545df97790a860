"""The client against a daemon that misbehaves as needed, under asyncio and trio."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from fake_daemon import WINDOW, Peer, fake_daemon
from inspect_moat._client import OPEN_REQUESTS_MAX
from inspect_moat._connect import connect
from inspect_moat._errors import MoatError, MoatNotInstalledError
from inspect_moat._wire import Message

pytestmark = pytest.mark.anyio


async def echo(peer: Peer, message: Message, blob: bytes) -> None:
    if message["type"] == "request":
        await peer.send({"type": "data", "id": message["id"], "stream": "stdout"}, blob)
        await peer.result(message["id"], args=message["args"], input=message.get("input"))


async def silent(peer: Peer, message: Message, blob: bytes) -> None:
    if message["type"] == "cancel":
        await peer.error(message["id"], "cancelled", "as you wish")


async def test_request_and_reply(runtime_dir: Path) -> None:
    async with fake_daemon(runtime_dir, echo):
        connection = await connect()
        reply = await connection.request("exec", {"a": 1}, input=b"hello")
    assert reply.result == {"args": {"a": 1}, "input": "blob"}
    assert reply.stdout == b"hello"


async def test_no_input_is_not_empty_input(runtime_dir: Path) -> None:
    async with fake_daemon(runtime_dir, echo):
        connection = await connect()
        assert (await connection.request("x", {})).result["input"] is None
        assert (await connection.request("x", {}, input=b"")).result["input"] == "blob"


async def test_one_connection_for_all_tasks(runtime_dir: Path) -> None:
    results: list[int] = []
    async with fake_daemon(runtime_dir, echo) as daemon:

        async def one(number: int) -> None:
            connection = await connect()
            results.append((await connection.request("x", {"n": number})).result["args"]["n"])

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, number)
        assert daemon.connections == 1
    assert sorted(results) == list(range(50))


async def test_error_with_all_its_parts(runtime_dir: Path) -> None:
    async def refuse(peer: Peer, message: Message, blob: bytes) -> None:
        await peer.error(message["id"], "not_found", "no such file", errno=2)

    async with fake_daemon(runtime_dir, refuse):
        with pytest.raises(MoatError) as caught:
            await (await connect()).request("read", {})
    assert (caught.value.kind, caught.value.message, caught.value.errno) == (
        "not_found",
        "no such file",
        2,
    )


async def test_progress_is_handed_on(runtime_dir: Path) -> None:
    async def progress(peer: Peer, message: Message, blob: bytes) -> None:
        await peer.send({"type": "progress", "id": message["id"], "text": "booting", "done": 1})
        await peer.result(message["id"])

    seen: list[Message] = []
    async with fake_daemon(runtime_dir, progress):
        await (await connect()).request("up", {}, progress=seen.append)
    assert [message["text"] for message in seen] == ["booting"]


class Sink:
    """Takes streamed input and credits it back; fails if more than the window is under way."""

    def __init__(self, end_after: int | None = None) -> None:
        self.received = bytearray()
        self.credited = 0
        self.end_after = end_after
        self.largest_debt = 0

    async def __call__(self, peer: Peer, message: Message, blob: bytes) -> None:
        id = message["id"]
        if message["type"] == "data":
            self.received += blob
            self.largest_debt = max(self.largest_debt, len(self.received) - self.credited)
            if self.end_after is not None and len(self.received) >= self.end_after:
                await peer.error(id, "permission", "read-only file system", errno=30)
                return
            self.credited += len(blob)
            await peer.send({"type": "credit", "id": id, "bytes": len(blob)})
        elif message["type"] == "eof":
            await peer.result(id, size=len(self.received))


async def test_large_input_is_streamed_within_the_window(runtime_dir: Path) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    sink = Sink()
    async with fake_daemon(runtime_dir, sink):
        reply = await (await connect()).request("write", {}, input=data)
    assert reply.result["size"] == len(data)
    assert bytes(sink.received) == data
    assert sink.largest_debt <= WINDOW


async def test_an_answer_in_the_middle_ends_the_input(runtime_dir: Path) -> None:
    sink = Sink(end_after=4 * WINDOW)
    async with fake_daemon(runtime_dir, sink):
        with pytest.raises(MoatError, match="read-only"), anyio.fail_after(10):
            await (await connect()).request("write", {}, input=bytes(8 * 1024 * 1024))
    assert len(sink.received) < 8 * 1024 * 1024


async def test_a_cancelled_task_cancels_the_request(runtime_dir: Path) -> None:
    async with fake_daemon(runtime_dir, silent) as daemon:
        connection = await connect()
        with anyio.move_on_after(0.1) as scope:
            await connection.request("exec", {})
        assert scope.cancelled_caught
        cancel = await daemon.wait_for("cancel")
        assert cancel["id"] == daemon.seen[0]["id"]


async def test_cancelled_requests_make_room_for_others(runtime_dir: Path) -> None:
    async def selective(peer: Peer, message: Message, blob: bytes) -> None:
        if message["type"] == "cancel":
            await peer.error(message["id"], "cancelled", "as you wish")
        elif message["op"] == "quick":
            await peer.result(message["id"])

    async with fake_daemon(runtime_dir, selective):
        connection = await connect()
        async with anyio.create_task_group() as tasks:
            for _ in range(OPEN_REQUESTS_MAX):
                tasks.start_soon(connection.request, "slow", {})
            await anyio.sleep(0.1)
            with anyio.move_on_after(0.1) as scope:
                await connection.request("quick", {})
            assert scope.cancelled_caught, "there should have been no room"
            tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            await connection.request("quick", {})


async def test_a_daemon_that_dies_fails_all_requests(runtime_dir: Path) -> None:
    async def die(peer: Peer, message: Message, blob: bytes) -> None:
        if message["op"] == "die":
            await peer.stream.aclose()

    async with fake_daemon(runtime_dir, die):
        connection = await connect()
        kinds: list[str] = []

        async def one(op: str) -> None:
            try:
                await connection.request(op, {})
            except MoatError as ex:
                kinds.append(ex.kind)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(one, "wait")
                tasks.start_soon(one, "die")
        assert kinds == ["unavailable"] * 6
        assert connection.closed
        with pytest.raises(MoatError, match="closed the connection"):
            await connection.request("exec", {})


async def test_a_new_connection_after_a_lost_one(runtime_dir: Path) -> None:
    async def die_once(peer: Peer, message: Message, blob: bytes) -> None:
        if message["op"] == "die":
            await peer.stream.aclose()
        else:
            await peer.result(message["id"])

    async with fake_daemon(runtime_dir, die_once) as daemon:
        first = await connect()
        with pytest.raises(MoatError):
            await first.request("die", {})
        second = await connect()
        await second.request("live", {})
        assert second is not first
        assert daemon.connections == 2


async def test_garbage_ends_the_connection(runtime_dir: Path) -> None:
    async def garbage(peer: Peer, message: Message, blob: bytes) -> None:
        await peer.stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with fake_daemon(runtime_dir, garbage):
        with pytest.raises(MoatError) as caught, anyio.fail_after(10):
            await (await connect()).request("exec", {})
    assert caught.value.kind == "unavailable"


async def test_a_message_that_cannot_be_sent_harms_nobody(runtime_dir: Path) -> None:
    async with fake_daemon(runtime_dir, echo):
        connection = await connect()
        for value in ("\ud800", "x" * (5 * 1024 * 1024)):
            with pytest.raises(ValueError, match=r"."):
                await connection.request("exec", {"argv": [value]})
        assert (await connection.request("exec", {})).result["args"] == {}


async def test_a_daemon_that_never_answers(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_moat._client.TIMEOUT_GRACE", 0.1)
    async with fake_daemon(runtime_dir, silent) as daemon:
        with pytest.raises(MoatError) as caught:
            await (await connect()).request("exec", {}, timeout=0.1)
        await daemon.wait_for("cancel")
    assert caught.value.kind == "timeout"


async def test_another_protocol_version_names_the_daemon(runtime_dir: Path) -> None:
    async with fake_daemon(runtime_dir, echo) as daemon:
        daemon.protocol = 2
        with pytest.raises(MoatError, match=rf"pid {os.getpid()} speaks protocol 2"):
            await connect()


async def test_no_binary_says_how_to_get_one(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOAT_BIN", raising=False)
    monkeypatch.setenv("PATH", str(runtime_dir))
    monkeypatch.setattr("inspect_moat._daemon.__file__", str(runtime_dir / "x.py"))
    with pytest.raises(MoatNotInstalledError, match="set MOAT_BIN"):
        await connect()


async def test_a_daemon_that_cannot_start_says_why(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = runtime_dir / "moat"
    binary.write_text('#!/bin/sh\necho "moat: no space left: $*" >&2\nexit 3\n')
    binary.chmod(0o755)
    monkeypatch.setenv("MOAT_BIN", str(binary))
    with pytest.raises(MoatNotInstalledError, match=r"\(3\): moat: no space left: serve --backgr"):
        await connect()


async def test_the_socket_of_somebody_else_is_not_used(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the kernel's answer about the peer: pid, uid, gid
    monkeypatch.setattr("inspect_moat._connect.peer_credentials", lambda _: (1, 12345, 1))
    async with fake_daemon(runtime_dir, echo) as daemon:
        with pytest.raises(MoatError, match="belongs to the user"):
            await connect()
        assert daemon.seen == []
