"""A websocket to the console, spoken by hand, so that it can be wrong in any way."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from typing import Any

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


class Refused(Exception):
    """The handshake was answered with another status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


def ask(port: int, head: str, timeout: float = 60) -> tuple[int, str]:
    """Sends a head of a request; the status and all of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout) as sock:
        sock.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return int(answer.split()[1]), answer.decode(errors="replace")


def get(port: int, path: str = "/", host: str = "", more: str = "") -> tuple[int, str]:
    return ask(port, f"GET {path} HTTP/1.1\nHost: {host or f'127.0.0.1:{port}'}{more}")


class WebSocket:
    def __init__(self, port: int, host: str = "", origin: str | None = "") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 60)
        self.left = b""
        fields = {
            "Host": host or f"127.0.0.1:{port}",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        }
        if origin is not None:
            fields["Origin"] = origin or f"http://127.0.0.1:{port}"
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.sock.sendall(f"GET /socket HTTP/1.1\r\n{lines}\r\n".encode())
        while b"\r\n\r\n" not in self.left:
            piece = self.sock.recv(65536)
            assert piece, "no answer"
            self.left += piece
        head, self.left = self.left.split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        if status != 101:
            self.sock.close()
            raise Refused(status)

    def send(self, opcode: int, payload: bytes, *, masked: bool = True, last: bool = True) -> None:
        first = opcode | (0x80 if last else 0)
        size = len(payload)
        flag = 0x80 if masked else 0
        if size < 126:
            head = struct.pack(">BB", first, flag | size)
        elif size < 65536:
            head = struct.pack(">BBH", first, flag | 126, size)
        else:
            head = struct.pack(">BBQ", first, flag | 127, size)
        mask = os.urandom(4) if masked else b""
        if masked:
            times = size // 4 + 1
            covered = int.from_bytes(payload, "big") ^ int.from_bytes((mask * times)[:size], "big")
            payload = covered.to_bytes(size, "big")
        self.sock.sendall(head + mask + payload)

    def say(self, **message: Any) -> None:
        self.send(TEXT, json.dumps(message).encode())

    def frame(self, message: dict[str, Any], blob: bytes = b"") -> None:
        text = json.dumps(message).encode()
        self.send(BINARY, struct.pack("<II", len(text), len(blob)) + text + blob)

    def _exactly(self, count: int) -> bytes:
        while len(self.left) < count:
            piece = self.sock.recv(65536)
            if not piece:
                raise EOFError
            self.left += piece
        got, self.left = self.left[:count], self.left[count:]
        return got

    def receive(self) -> tuple[int, bytes]:
        first, size = self._exactly(2)
        assert first & 0x80
        assert not size & 0x80
        if size == 126:
            size = struct.unpack(">H", self._exactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._exactly(8))[0]
        return first & 15, self._exactly(size)

    def closed(self) -> int:
        """The code that it is closed with; others messages are passed over."""
        while True:
            opcode, payload = self.receive()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")

    def answer(self) -> dict[str, Any]:
        """The head of the next frame."""
        opcode, payload = self.receive()
        assert opcode == BINARY, (opcode, payload)
        size = struct.unpack("<I", payload[:4])[0]
        return dict(json.loads(payload[8 : 8 + size]))

    def enter(self, token: str, *, act: bool = False) -> dict[str, Any]:
        """Says the token and hello; the daemon's hello."""
        self.say(token=token)
        opcode, payload = self.receive()
        assert opcode == TEXT, (opcode, payload)
        assert json.loads(payload)["ready"]
        self.say(act=act)
        self.frame({"type": "hello", "protocol": 1, "client": "test", "person": "test"})
        return self.answer()

    def request(self, op: str, **args: Any) -> dict[str, Any]:
        self.frame({"type": "request", "id": 1, "op": op, "args": args})
        while (answer := self.answer())["type"] not in ("result", "error"):
            pass
        return answer

    def close(self) -> None:
        self.sock.close()
