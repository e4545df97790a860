"""A plain HTTP client for the tests of the server: it shows what is on the wire."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import time
from typing import Any
from urllib.parse import quote, urlencode

from server import PveServer

API = "/api2/json"
WAIT_SECONDS = 300
NO_AGENT = "QEMU guest agent is not running"


class Reply:
    """One answer."""

    def __init__(
        self, status: int, reason: str, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    @property
    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    @property
    def data(self) -> Any:
        assert self.status == 200, f"{self.status} {self.reason}: {self.body[:300]!r}"
        return self.json["data"]

    @property
    def errors(self) -> dict[str, str]:
        return dict(self.json.get("errors") or {})


class Connection:
    """One connection; requests are sent as they are given."""

    def __init__(self, server: PveServer) -> None:
        plain = socket.create_connection((server.host, server.port), timeout=WAIT_SECONDS)
        context = ssl.create_default_context(cafile=server.certificate)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, verb: str, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
        lines = [f"{verb} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or verb in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return self.reply()

    def reply(self) -> Reply:
        line = self.file.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            raise ConnectionError("closed without an answer")
        _, status, reason = line.split(" ", 2)
        headers = []
        while True:
            line = self.file.readline().decode("latin-1").rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(": ")
            headers.append((name, value))
        length = next((int(value) for name, value in headers if name == "Content-Length"), 0)
        return Reply(int(status), reason, headers, self.file.read(length))

    def closed(self) -> bool:
        """Whether the server hangs up; waits for it."""
        try:
            return self.file.read(1) == b""
        except OSError:
            return True

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Client:
    """Calls with a ticket, or with a token, each on its own connection unless one is given."""

    def __init__(
        self, server: PveServer, user: str = "", password: str = "", token: str = ""
    ) -> None:
        self.server = server
        self.headers: dict[str, str] = {}
        if token:
            self.headers["Authorization"] = f"PVEAPIToken={token}"
            return
        given = {"username": user or server.user, "password": password or server.password}
        data = self.call("POST", "/access/ticket", given).data
        self.headers["Cookie"] = f"PVEAuthCookie={quote(data['ticket'], safe='')}"
        self.headers["CSRFPreventionToken"] = data["CSRFPreventionToken"]

    def call(
        self,
        verb: str,
        path: str,
        params: dict[str, Any] | None = None,
        *,
        form: bool = False,
        on: Connection | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        target = API + path
        sent = dict(self.headers if headers is None else headers)
        body = b""
        if params and verb in ("POST", "PUT"):
            if form:
                body = urlencode(params, doseq=True).encode()
                sent["Content-Type"] = "application/x-www-form-urlencoded"
            else:
                body = json.dumps(params).encode()
                sent["Content-Type"] = "application/json"
        elif params:
            target += "?" + urlencode(params, doseq=True)
        connection = on or Connection(self.server)
        try:
            return connection.request(verb, target, sent, body)
        finally:
            if on is None:
                connection.close()

    def get(self, path: str, **params: Any) -> Any:
        return self.call("GET", path, params).data

    def wait(self, upid: str) -> str:
        """The exit status of a task."""
        deadline = time.monotonic() + WAIT_SECONDS
        node = upid.split(":")[1]
        while time.monotonic() < deadline:
            status = self.get(f"/nodes/{node}/tasks/{quote(upid, safe='')}/status")
            if status["status"] == "stopped":
                return str(status["exitstatus"])
            time.sleep(0.02)
        raise TimeoutError(upid)

    def task(self, verb: str, path: str, params: dict[str, Any] | None = None) -> str:
        """Starts a task and waits for its end."""
        return self.wait(self.call(verb, path, params).data)

    def upload(
        self, name: str, data: bytes, fields: list[tuple[str, str]], storage: str = "local"
    ) -> Reply:
        mark = "xxmarkxx"
        parts = [
            f'--{mark}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
            for key, value in fields
            if key != "filename"
        ]
        file = (
            f'--{mark}\r\nContent-Disposition: form-data; name="filename"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        place = next((i for i, (key, _) in enumerate(fields) if key == "filename"), len(parts))
        head = "".join(parts[:place]).encode() + file.encode() + data + b"\r\n"
        body = head + "".join(parts[place:]).encode() + f"--{mark}--\r\n".encode()
        headers = {**self.headers, "Content-Type": f"multipart/form-data; boundary={mark}"}
        connection = Connection(self.server)
        try:
            path = f"{API}/nodes/{self.server.node}/storage/{storage}/upload"
            return connection.request("POST", path, headers, body)
        finally:
            connection.close()

    # --- guests ---

    def run(self, vmid: int, *argv: str, **more: Any) -> dict[str, Any]:
        """A command through the agent, polled to its end."""
        base = f"/nodes/{self.server.node}/qemu/{vmid}/agent"
        given = {
            "command": list(argv),
            **{key.replace("_", "-"): value for key, value in more.items()},
        }
        deadline = time.monotonic() + WAIT_SECONDS
        # The first time, the server waits for an answer of the agent as briefly as the genuine one.
        while (reply := self.call("POST", f"{base}/exec", given)).reason == NO_AGENT:
            assert time.monotonic() < deadline, "no agent"
            time.sleep(0.2)
        pid = reply.data["pid"]
        while time.monotonic() < deadline:
            status = self.get(f"{base}/exec-status", pid=pid)
            if status["exited"]:
                return dict(status)
            time.sleep(0.05)
        raise TimeoutError(str(argv))


class WebSocket:
    """A client's end of a terminal."""

    def __init__(self, client: Client, vmid: int, serial: str = "serial1") -> None:
        node = client.server.node
        base = f"/nodes/{node}/qemu/{vmid}"
        self.given = client.call("POST", f"{base}/termproxy", {"serial": serial}).data
        self.connection = Connection(client.server)
        ticket = quote(self.given["ticket"], safe="")
        path = f"{API}{base}/vncwebsocket?port={self.given['port']}&vncticket={ticket}"
        self.reply = self.upgrade(path, client.headers)
        self.data = b""

    def upgrade(self, path: str, headers: dict[str, str]) -> Reply:
        more = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": "binary",
        }
        return self.connection.request("GET", path, {**headers, **more})

    def login(self) -> bytes:
        self.send(f"{self.given['user']}:{self.given['ticket']}\n".encode())
        return self.receive()

    def send(self, data: bytes, first: int = 0x82) -> None:
        mask = os.urandom(4)
        size = len(data)
        head = bytes([first]) + (
            bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack("!H", size)
        )
        body = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.connection.send(head + mask + body)

    def type(self, data: bytes) -> None:
        self.send(b"0:%d:" % len(data) + data)

    def receive(self) -> bytes:
        head = self.connection.file.read(2)
        if len(head) < 2:
            raise ConnectionError("the websocket ended")
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", self.connection.file.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.connection.file.read(8))
        return bytes(self.connection.file.read(size))

    def until(self, mark: bytes) -> bytes:
        while mark not in self.data:
            self.data += self.receive()
        before, self.data = self.data.split(mark, 1)
        return before

    def close(self) -> None:
        self.connection.close()
