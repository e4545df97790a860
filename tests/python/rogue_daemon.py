"""A daemon that does what the real one never does, so that the client can be seen to bear it.

It breaks the protocol, hangs up in the middle of an answer, answers late or not at all. All else is
tested with the real one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from inspect_moat._wire import FrameDecoder, Message, encode_frame

PATIENCE = 60.0

Frame = tuple[Message, bytes]


class Peer:
    """The daemon's side of one connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self._sending = anyio.Lock()

    async def send(self, message: Message, blob: bytes = b"") -> None:
        await self.send_bytes(b"".join(bytes(part) for part in encode_frame(message, blob)))

    async def send_bytes(self, data: bytes) -> None:
        async with self._sending:
            await self.stream.send(data)

    async def receive(self) -> Frame:
        while not self._frames:
            self._frames = self._decoder.feed(await self.stream.receive())
        return self._frames.pop(0)

    async def result(self, id: int, **result: Any) -> None:
        await self.send({"type": "result", "id": id, "result": result})

    async def error(self, id: int, kind: str, message: str, **more: Any) -> None:
        error = {"kind": kind, "message": message, **more}
        await self.send({"type": "error", "id": id, "error": error})


Handler = Callable[[Peer, Message], Coroutine[Any, Any, None]]


class RogueDaemon:
    """Remembers all frames; `handle` decides about the answers to requests."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.seen: list[Message] = []
        self.protocol = 1
        self.hang_ups = 0  # connections that are still to be closed before the greeting
        self.ended = threading.Event()  # a connection was closed; also seen from other threads
        self._changed = anyio.Event()

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        peer = Peer(stream)
        if self.hang_ups > 0:
            self.hang_ups -= 1
            await stream.aclose()
            return
        async with stream, anyio.create_task_group() as tasks:
            with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._greet(peer)
                while True:
                    message, _ = await peer.receive()
                    self.seen.append(message)
                    self._changed.set()
                    self._changed = anyio.Event()
                    if message["type"] == "request":
                        tasks.start_soon(self.handle, peer, message)
            tasks.cancel_scope.cancel()
        self.ended.set()

    async def _greet(self, peer: Peer) -> None:
        hello, _ = await peer.receive()
        assert hello["type"] == "hello"
        answer = {"type": "hello", "protocol": self.protocol, "version": "rogue"}
        await peer.send({**answer, "pid": os.getpid(), "window": 65536})

    def requests(self, op: str) -> list[Message]:
        return [message for message in self.seen if message.get("op") == op]

    async def wait_for(self, kind: str) -> Message:
        with anyio.fail_after(PATIENCE):
            while True:
                changed = self._changed
                found = [message for message in self.seen if message["type"] == kind]
                if found:
                    return found[0]
                await changed.wait()


@asynccontextmanager
async def rogue_daemon(directory: Path, handle: Handler) -> AsyncIterator[RogueDaemon]:
    """Serve on the socket of the runtime directory `directory` for the duration of the block."""
    daemon = RogueDaemon(handle)
    listener = await anyio.create_unix_listener(directory / "moat.sock")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, daemon.serve)
        try:
            yield daemon
        finally:
            tasks.cancel_scope.cancel()
    await listener.aclose()
