"""A daemon that only says that it has many sandboxes, for the page that lists them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from types import TracebackType
from typing import Any

from home import Home

EVIL = "<img src=x onerror=window.struck=1>"


def sandbox(number: int) -> dict[str, Any]:
    """One of three tasks; a few have names that no guest should be able to choose."""
    task = ("ctf/web", "swe/bugs", EVIL)[number % 3]
    vm = {
        "name": "default",
        "state": "running",
        "sandbox": True,
        "default": True,
        "image": "tiny",
        "user": "user",
        "ram_mb": 192,
        "vcpus": 1,
        "pid": 0,
        "accelerator": "tcg",
        "way": "runner",
    }
    return {
        "id": f"{number:010x}",
        "name": "left\u202eright" if number == 3 else "",
        "driver": "qemu",
        "state": "running",
        "created": 1_790_000_000,
        "detached": False,
        "owner_pid": 4242,
        "labels": {"task": task, "sample": f"sample-{number}", "epoch": "1"},
        "vms": [vm],
    }


class ManySandboxes:
    def __init__(self, home: Home, count: int) -> None:
        self.sandboxes = [sandbox(number) for number in range(count)]
        self.watches: list[tuple[socket.socket, int]] = []
        self.path = home.dir / "run" / "moat.sock"
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen()

    def __enter__(self) -> ManySandboxes:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.listener.close()
        os.unlink(self.path)
        for client, _ in self.watches:
            client.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _send(self, client: socket.socket, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        client.sendall(struct.pack("<II", len(text), 0) + text)

    def _event(self, client: socket.socket, number: int, event: dict[str, Any]) -> None:
        self._send(client, {"type": "event", "id": number, "event": event})

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client.makefile("rb") as stream:
            while len(head := stream.read(8)) == 8:
                text, blob = struct.unpack("<II", head)
                message = json.loads(stream.read(text))
                stream.read(blob)
                self._take(client, message)

    def _take(self, client: socket.socket, message: dict[str, Any]) -> None:
        if message["type"] == "hello":
            hello = {"type": "hello", "protocol": 1, "version": "test", "pid": os.getpid()}
            self._send(client, {**hello, "window": 1 << 20})
        elif message["type"] == "request" and message["op"] == "watch":
            for one in self.sandboxes:
                self._event(client, message["id"], {"what": "sandbox", "sandbox": one})
            self._event(client, message["id"], {"what": "listed"})
            self.watches.append((client, message["id"]))
        elif message["type"] == "request":
            self._send(client, {"type": "result", "id": message["id"], "result": {}})

    def change(self, number: int) -> str:
        """One of them dies."""
        changed = json.loads(json.dumps(self.sandboxes[number]))
        changed["vms"][0]["state"] = "dead"
        for client, request in self.watches:
            self._event(client, request, {"what": "sandbox", "sandbox": changed})
        return str(changed["id"])
