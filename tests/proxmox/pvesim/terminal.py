"""Terminals: a serial port of a VM behind a websocket, as the console of the web page uses it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
import secrets
import struct
from typing import Any

from .app import App, Call, route
from .errors import ApiError, fail, unauthorized
from .http import Answer
from .tasks import Task

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PAYLOAD_MAX = 128 << 10
PORTS = range(5900, 6000)
CONNECT_SECONDS = 10.0
TICKET_SECONDS = 40.0
# Ends the program that stands between the terminal and the port.
ESCAPE = 0x0F


class SerialPort:
    """A port of a VM: it has one user at a time, and what nobody reads is lost."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def open(self) -> None:
        """Ready once QEMU listens."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    def close(self) -> None:
        """Nothing is kept open."""


class Echo:
    """The port of a VM that does not exist: what is typed comes back."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()

    def write(self, data: bytes) -> None:
        self.reader.feed_data(data)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.reader.feed_eof()


class Terminal:
    """One terminal that waits for its websocket, then lives as long as that does."""

    def __init__(self, vmid: int, serial: str, user: str, ticket: str) -> None:
        self.vmid = vmid
        self.serial = serial
        self.user = user
        self.ticket = ticket
        self.taken = asyncio.Event()
        self.over = asyncio.Event()


@route("POST /nodes/{node}/qemu/{vmid}/termproxy", "/vms/{vmid}", "VM.Console")
async def termproxy(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    serial = call.get("serial") or next(
        (f"serial{number}" for number in range(4) if f"serial{number}" in vm.config), ""
    )
    if not serial or vm.config.get(serial) != "socket":
        raise fail(
            "unable to find a serial interface" if not serial else f"interface '{serial}' not found"
        )
    app = call.app
    port = next((number for number in PORTS if number not in app.terminals), None)
    if port is None:
        raise fail("unable to find free port (5900-5999)")
    path = f"/vms/{vm.vmid}"
    ticket = app.auth.ticket(call.user, "PVEVNC", path)
    terminal = Terminal(vm.vmid, serial, call.user, ticket)
    app.terminals[port] = terminal

    async def work(task: Task) -> None:
        try:
            await asyncio.wait_for(terminal.taken.wait(), CONNECT_SECONDS * max(app.scale, 0.5))
            await terminal.over.wait()
        except (TimeoutError, asyncio.TimeoutError):
            raise ApiError(500, "connection timed out") from None
        finally:
            app.terminals.pop(port, None)

    upid = call.task("vncproxy", vm.vmid, work, early=True)
    return {"user": call.user, "ticket": ticket, "port": port, "upid": upid}


@route("GET /nodes/{node}/qemu/{vmid}/vncwebsocket", "/vms/{vmid}", "VM.Console")
async def vncwebsocket(call: Call) -> Any:
    app = call.app
    user = app.auth.check_ticket(
        call["vncticket"], "PVEVNC", f"/vms/{call['vmid']}", TICKET_SECONDS
    )
    if user != call.user:
        raise unauthorized("permission denied - invalid PVEVNC ticket", 3 * app.scale)
    terminal = app.terminals.get(call["port"])
    headers = call.request.headers
    if headers.get("upgrade", "").lower() != "websocket":
        return {"port": str(call["port"])}
    protocols = re.split(r"[,\s]+", headers.get("sec-websocket-protocol", ""))
    if headers.get("sec-websocket-version") != "13" or "binary" not in protocols:
        raise ApiError(500, "unable to upgrade to websocket protocol")
    if terminal is None or terminal.taken.is_set() or terminal.vmid != call["vmid"]:
        raise ApiError(596, "Connection refused")
    terminal.taken.set()
    key = headers.get("sec-websocket-key", "")
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    writer = call.request.writer
    assert writer is not None
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: upgrade",
        f"Sec-WebSocket-Accept: {accept}",
        "Sec-WebSocket-Protocol: binary",
    ]
    try:
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        await writer.drain()
        await Session(app, call.request.reader, writer, terminal).run()
    finally:
        terminal.over.set()
    answer = Answer(101, b"")
    answer.hijacked = True
    return answer


class Session:
    """A websocket on one side, the port on the other."""

    def __init__(self, app: App, reader: Any, writer: Any, terminal: Terminal) -> None:
        self.app = app
        self.reader = reader
        self.writer = writer
        self.terminal = terminal
        self.input = b""
        self.port_writer: Any = None

    async def run(self) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, OSError):
            if not await self.login():
                return
            reader = await self.open_port()
            if reader is None:
                return
            pump = asyncio.create_task(self.to_client(reader))
            try:
                await self.to_port()
            finally:
                pump.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await pump
                self.port_writer.close()

    async def login(self) -> bool:
        """The first line is user:ticket; nothing but OK comes back, or nothing at all."""
        while b"\n" not in self.input:
            data = await self.message()
            if data is None or len(self.input) > 4096:
                return False
            self.input += data
        line, self.input = self.input.split(b"\n", 1)
        wanted = f"{self.terminal.user}:{self.terminal.ticket}"
        if not secrets.compare_digest(line, wanted.encode()):
            return False
        await self.send(b"OK")
        return True

    async def open_port(self) -> Any:
        vm = self.app.state.vms.get(self.terminal.vmid)
        if vm is None or not vm.running:
            await self.send(f"VM {self.terminal.vmid} not running\r\n".encode())
            return None
        banner = f"starting serial terminal on interface {self.terminal.serial}"
        await self.send(f"{banner} (press Ctrl+O to exit)\r\n".encode())
        port = vm.machine.serial(int(self.terminal.serial.removeprefix("serial")))
        if isinstance(port, SerialPort):
            reader, self.port_writer = await port.connect()
            return reader
        self.port_writer = Echo()
        return self.port_writer.reader

    async def to_client(self, reader: Any) -> None:
        while data := await reader.read(PAYLOAD_MAX):
            await self.send(data)
        self.writer.close()

    async def to_port(self) -> None:
        while True:
            while (used := await self.command()) > 0:
                self.input = self.input[used:]
            if used < 0:
                return
            data = await self.message()
            if data is None:
                return
            self.input += data

    async def command(self) -> int:
        """Does the first command of the input: its length, 0 for incomplete, -1 for the end."""
        text = self.input
        if not text:
            return 0
        if text[:1] == b"2":
            return 1
        if text[:1] == b"1":
            match = re.match(rb"1:(\d+):(\d+):", text)
            return match.end() if match else (0 if len(text) < 32 else -1)
        match = re.match(rb"0:(\d+):", text)
        if not match:
            return 0 if re.fullmatch(rb"0(:\d*)?", text) else -1
        end = match.end() + int(match.group(1))
        if len(text) < end:
            return 0
        data = text[match.end() : end]
        if ESCAPE in data:
            self.port_writer.write(data.split(bytes([ESCAPE]))[0])
            return -1
        self.port_writer.write(data)
        await self.port_writer.drain()
        return end

    # --- frames ---

    async def send(self, data: bytes, opcode: int = 2) -> None:
        size = len(data)
        if size <= 125:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size <= 0xFFFF:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        self.writer.write(head + data)
        await self.writer.drain()

    async def message(self) -> bytes | None:
        """The next data frame; None for the end. What the genuine server dies of ends it too."""
        while True:
            first, second = await self.reader.readexactly(2)
            opcode, size = first & 0x0F, second & 0x7F
            if not first & 0x80 or first & 0x70 or not second & 0x80:
                return None
            if size == 126:
                (size,) = struct.unpack("!H", await self.reader.readexactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
            if size > PAYLOAD_MAX:
                return None
            mask = await self.reader.readexactly(4)
            data = await self.reader.readexactly(size)
            data = unmask(data, mask)
            if opcode in (1, 2):
                return data
            if opcode == 9:
                await self.send(data, 10)
            elif opcode != 10:
                return None


def unmask(data: bytes, mask: bytes) -> bytes:
    if mask == b"\0\0\0\0":
        return data
    long = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(long, "big")).to_bytes(len(data), "big")
