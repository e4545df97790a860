"""A daemon that speaks the protocol and does what a test tells it to."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from inspect_moat._wire import FrameDecoder, Message, encode_frame

WINDOW = 64 * 1024

Frame = tuple[Message, bytes]


class Peer:
    """The daemon's side of one connection."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self.decoder = FrameDecoder()
        self.frames: list[Frame] = []
        self.sending = anyio.Lock()

    async def send(self, message: Message, blob: bytes = b"") -> None:
        async with self.sending:
            await self.stream.send(b"".join(bytes(part) for part in encode_frame(message, blob)))

    async def receive(self) -> Frame:
        while not self.frames:
            self.frames = self.decoder.feed(await self.stream.receive())
        return self.frames.pop(0)

    async def result(self, id: int, **result: Any) -> None:
        await self.send({"type": "result", "id": id, "result": result})

    async def error(self, id: int, kind: str, message: str, **more: Any) -> None:
        error = {"kind": kind, "message": message, **more}
        await self.send({"type": "error", "id": id, "error": error})


Handler = Callable[[Peer, Message, bytes], Coroutine[Any, Any, None]]


class FakeDaemon:
    """Remembers all frames; `handle` decides about the answers."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.seen: list[Message] = []
        self.changed = anyio.Event()
        self.connections = 0
        self.protocol = 1

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        peer = Peer(stream)
        async with stream, anyio.create_task_group() as tasks:
            with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._greet(peer)
                while True:
                    message, blob = await peer.receive()
                    self.seen.append(message)
                    self.changed.set()
                    self.changed = anyio.Event()
                    if message["type"] == "request":
                        tasks.start_soon(self.handle, peer, message, blob)
                    else:  # input must stay in order
                        await self.handle(peer, message, blob)
            tasks.cancel_scope.cancel()

    async def _greet(self, peer: Peer) -> None:
        hello, _ = await peer.receive()
        assert hello["type"] == "hello"
        answer = {"type": "hello", "protocol": self.protocol, "version": "fake"}
        await peer.send({**answer, "pid": os.getpid(), "window": WINDOW})

    async def wait_for(self, kind: str) -> Message:
        with anyio.fail_after(10):
            while True:
                changed = self.changed
                found = [message for message in self.seen if message["type"] == kind]
                if found:
                    return found[0]
                await changed.wait()


@asynccontextmanager
async def fake_daemon(directory: Path, handle: Handler) -> AsyncIterator[FakeDaemon]:
    """Serve on the socket of the runtime directory `directory` for the duration of the block."""
    daemon = FakeDaemon(handle)
    listener = await anyio.create_unix_listener(directory / "moat.sock")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, daemon.serve)
        try:
            yield daemon
        finally:
            tasks.cancel_scope.cancel()
    await listener.aclose()
