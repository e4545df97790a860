"""Guest agents: the interface, and one that only pretends, for servers without real VMs."""

from __future__ import annotations

import asyncio
import os
from typing import Any


class AgentError(Exception):
    """What the agent itself refused, in its own words."""


class AgentSilent(Exception):
    """Nobody answered; `waited` says that the time for it is over already."""

    def __init__(self, waited: bool = False) -> None:
        super().__init__()
        self.waited = waited


class NoProgram(Exception):
    """The program of an exec cannot be started."""


class Agent:
    """What an agent can do. Bytes in, bytes out: texts are the API's affair."""

    async def ping(self) -> None:
        raise NotImplementedError

    async def exec(self, argv: list[bytes], data: bytes | None) -> int:
        raise NotImplementedError

    async def status(self, pid: int) -> dict[str, Any]:
        """exited, and once it has: exitcode or signal, out, err, and whether they were cut."""
        raise NotImplementedError

    async def write(self, path: bytes, data: bytes) -> None:
        raise NotImplementedError

    async def read(self, path: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        """The bytes and whether the file ended there."""
        raise NotImplementedError

    async def command(self, name: str) -> Any:
        """Another command without arguments, by the agent's own name for it."""
        raise AgentError(f"The command {name} has not been found")


class FakeAgent(Agent):
    """Files in memory and a few commands; enough for calls to be counted."""

    def __init__(self, hostname: str) -> None:
        self.files: dict[bytes, bytes] = {b"/etc/hostname": hostname.encode() + b"\n"}
        self.hostname = hostname
        self.running: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self.next_pid = 300
        self.silent = False

    def awake(self) -> None:
        if self.silent:
            raise AgentSilent

    async def ping(self) -> None:
        self.awake()

    async def exec(self, argv: list[bytes], data: bytes | None) -> int:
        self.awake()
        name = os.path.basename(argv[0]).decode("latin-1")
        if name not in COMMANDS and argv[0] not in self.files:
            raise NoProgram
        self.next_pid += 1
        self.running[self.next_pid] = asyncio.create_task(self.run(name, argv[1:], data or b""))
        return self.next_pid

    async def run(self, name: str, args: list[bytes], data: bytes) -> dict[str, Any]:
        code, out, err = 0, b"", b""
        if name == "false":
            code = 1
        elif name == "echo":
            out = b" ".join(args) + b"\n"
        elif name == "hostname":
            out = self.hostname.encode() + b"\n"
        elif name == "cloud-init":
            out = b"status: done\n"
        elif name == "sleep":
            await asyncio.sleep(float(args[0]))
        elif name == "yes":
            out = b"y\n" * (int(args[0]) // 2)
        elif name == "rm":
            for path in args:
                self.files.pop(path, None)
        elif name == "cat":
            for path in args or [b"-"]:
                if path == b"-":
                    out += data
                elif path in self.files:
                    out += self.files[path]
                else:
                    code, err = 1, b"cat: " + path + b": No such file or directory\n"
        elif name == "kill":
            return {"exited": True, "signal": 9, "out": b"", "err": b""}
        return {"exited": True, "exitcode": code, "out": out, "err": err}

    async def status(self, pid: int) -> dict[str, Any]:
        self.awake()
        task = self.running.get(pid)
        if task is None:
            raise AgentError("Invalid parameter 'pid'")
        if not task.done():
            await asyncio.sleep(0)
        if not task.done():
            return {"exited": False}
        del self.running[pid]
        return task.result()

    async def write(self, path: bytes, data: bytes) -> None:
        self.awake()
        self.files[path] = data

    async def read(self, path: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        self.awake()
        if path not in self.files:
            shown = path.decode("latin-1")
            raise AgentError(
                f"failed to open file '{shown}' (mode: 'r'): No such file or directory"
            )
        data = self.files[path][offset : offset + count]
        return data, len(data) < count

    async def command(self, name: str) -> Any:
        self.awake()
        if name == "guest-get-host-name":
            return {"host-name": self.hostname}
        if name == "guest-network-get-interfaces":
            return [
                {
                    "name": "lo",
                    "ip-addresses": [
                        {"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}
                    ],
                }
            ]
        if name == "guest-get-osinfo":
            return {"id": "moat-tiny", "name": "fake", "kernel-release": "0"}
        if name == "guest-info":
            return {"version": "10.1.0", "supported_commands": []}
        return await super().command(name)


COMMANDS = {
    "cloud-init",
    "true",
    "false",
    "echo",
    "cat",
    "hostname",
    "sleep",
    "rm",
    "sh",
    "kill",
    "yes",
    "chmod",
    "mkdir",
    "cmd",
}
