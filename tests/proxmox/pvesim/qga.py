"""A client of the real guest agent, and of QEMU's monitor: JSON lines on a Unix socket."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from typing import Any

from .agent import Agent, AgentError, AgentSilent, NoProgram

LINE_MAX = 64 << 20


class Lines:
    """One JSON object a line, one command at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.lock = asyncio.Lock()

    async def connect(self) -> None:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_unix_connection(self.path, limit=LINE_MAX)

    def disconnect(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def send(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data)
        await self.writer.drain()

    async def line(self) -> dict[str, Any]:
        assert self.reader is not None
        data = await self.reader.readline()
        if not data:
            raise ConnectionError("closed")
        value = json.loads(data.lstrip(b"\xff"))
        return value if isinstance(value, dict) else {}


class Qmp(Lines):
    """QEMU's monitor."""

    async def start(self) -> None:
        await self.connect()
        await self.line()
        await self.command("qmp_capabilities")

    async def command(self, name: str, **arguments: Any) -> Any:
        async with self.lock:
            given = {key.replace("_", "-"): value for key, value in arguments.items()}
            request = {"execute": name, "arguments": given}
            await self.send(json.dumps(request).encode() + b"\n")
            while True:
                answer = await self.line()
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise AgentError(answer["error"]["desc"])


class QgaAgent(Agent):
    """The agent in a guest. It answers one thing at a time, and it can fall silent."""

    def __init__(self, path: str, first_wait: float) -> None:
        self.lines = Lines(path)
        self.first_wait = first_wait
        self.later_wait = 15.0
        self.answered = False
        self.in_step = False

    async def ping(self) -> None:
        await self.call("guest-ping")

    async def call(self, name: str, **arguments: Any) -> Any:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        text = json.dumps({"execute": name, "arguments": given} if given else {"execute": name})
        return await self.raw(text.encode())

    async def raw(self, request: bytes) -> Any:
        async with self.lines.lock:
            wait = self.later_wait if self.answered else self.first_wait
            try:
                answer = await asyncio.wait_for(self.exchange(request), wait)
            except (TimeoutError, asyncio.TimeoutError, ConnectionError, OSError, ValueError):
                # Whatever still comes is not the answer to the next question.
                self.in_step = False
                self.lines.disconnect()
                raise AgentSilent(waited=True) from None
            self.answered = True
        if "error" in answer:
            raise AgentError(str(answer["error"].get("desc", "unknown")))
        return answer["return"]

    async def exchange(self, request: bytes) -> dict[str, Any]:
        await self.lines.connect()
        if not self.in_step:
            number = int.from_bytes(os.urandom(4), "big")
            sync = {"execute": "guest-sync-delimited", "arguments": {"id": number}}
            await self.lines.send(b"\xff" + json.dumps(sync).encode() + b"\n")
            while True:
                try:
                    if (await self.lines.line()).get("return") == number:
                        break
                except ValueError:
                    continue
            self.in_step = True
        await self.lines.send(request + b"\n")
        return await self.lines.line()

    async def exec(self, argv: list[bytes], data: bytes | None) -> int:
        # Bytes are passed on as they came, as the genuine server does; the agent may refuse them.
        words = [quoted(word) for word in argv]
        parts = [b'"path":' + words[0], b'"arg":[' + b",".join(words[1:]) + b"]"]
        if data is not None:
            parts.append(b'"input-data":"' + base64.b64encode(data) + b'"')
        parts.append(b'"capture-output":true')
        request = b'{"execute":"guest-exec","arguments":{' + b",".join(parts) + b"}}"
        try:
            return int((await self.raw(request))["pid"])
        except AgentError as why:
            if "execute child process" in str(why) or "execve" in str(why):
                raise NoProgram from None
            raise

    async def status(self, pid: int) -> dict[str, Any]:
        answer = await self.call("guest-exec-status", pid=pid)
        result: dict[str, Any] = {"exited": bool(answer["exited"])}
        for name in ("exitcode", "signal"):
            if name in answer:
                result[name] = answer[name]
        result["out"] = base64.b64decode(answer.get("out-data", ""))
        result["err"] = base64.b64decode(answer.get("err-data", ""))
        result["out_cut"] = bool(answer.get("out-truncated"))
        result["err_cut"] = bool(answer.get("err-truncated"))
        return result

    async def open(self, path: bytes, mode: str) -> int:
        request = b'{"execute":"guest-file-open","arguments":{"path":' + quoted(path)
        return int(await self.raw(request + b',"mode":"' + mode.encode() + b'"}}'))

    async def write(self, path: bytes, data: bytes) -> None:
        handle = await self.open(path, "wb")
        try:
            text = base64.b64encode(data).decode()
            await self.call("guest-file-write", handle=handle, buf_b64=text)
        finally:
            await self.call("guest-file-close", handle=handle)

    async def read(self, path: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        handle = await self.open(path, "r")
        try:
            if offset:
                await self.call("guest-file-seek", handle=handle, offset=offset, whence=0)
            data, ended = b"", False
            while len(data) < count and not ended:
                left = count - len(data)
                answer = await self.call("guest-file-read", handle=handle, count=left)
                data += base64.b64decode(answer["buf-b64"])
                ended = bool(answer["eof"])
        finally:
            await self.call("guest-file-close", handle=handle)
        return data, ended

    async def command(self, name: str) -> Any:
        return await self.call(name)

    def close(self) -> None:
        self.lines.disconnect()


def quoted(word: bytes) -> bytes:
    """A JSON string of bytes that may not be UTF-8."""
    out = bytearray(b'"')
    for byte in word:
        if byte in (0x22, 0x5C):
            out += b"\\" + bytes([byte])
        elif byte < 0x20 or byte == 0x7F:
            out += b"\\u%04x" % byte
        else:
            out.append(byte)
    return bytes(out + b'"')
