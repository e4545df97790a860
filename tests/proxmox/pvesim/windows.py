"""A guest agent as it is in Windows, with a pretended Windows behind it.

There is no POSIX shell, no Linux program, no user but SYSTEM. A command becomes one command line,
quoted as the agent's library does it, and each program takes that apart by its own rules.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from .agent import Agent, AgentError, AgentSilent
from .wincmd import Cmd, Unknown
from .windisk import Disk, Node, WinError

SYSTEM32 = "C:\\Windows\\System32"
ENDINGS = (".com", ".exe", ".bat", ".cmd")
# Programs are files that begin like this; what follows is the name of one below.
MAGIC = b"MZ "
CRASH = 0xC0000005


def quote(word: str) -> str:
    """A word of an argv as a part of a command line."""
    out, slashes = "", 0
    for c in word:
        if c == "\\":
            slashes += 1
            continue
        out += "\\" * (2 * slashes + 1 if c == '"' else slashes) + c
        slashes = 0
    if word and not any(c in word for c in " \t"):
        return out + "\\" * slashes
    return f'"{out}{chr(92) * (2 * slashes)}"'


def unquote(line: str) -> list[str]:
    """A command line as a program in C sees it."""
    words: list[str] = []
    i = 0
    while i < len(line):
        if line[i] in " \t":
            i += 1
            continue
        word, quoted = "", False
        while i < len(line) and (quoted or line[i] not in " \t"):
            slashes = 0
            while line[i : i + 1] == "\\":
                slashes, i = slashes + 1, i + 1
            if line[i : i + 1] == '"':
                word += "\\" * (slashes // 2)
                if slashes % 2:
                    word += '"'
                else:
                    quoted = not quoted
                i += 1
            else:
                word += "\\" * slashes
                if i < len(line) and (quoted or line[i] not in " \t"):
                    word += line[i]
                    i += 1
        words.append(word)
    return words


def after_switch(rest: str, guest: WindowsAgent) -> str:
    """What cmd runs of all that follows /c: it takes off one pair of quotes around everything.

    Unless they are the only ones, and what is in them is the name of a program with a space in it.
    """
    rest = rest.lstrip(" ")
    if not rest.startswith('"'):
        return rest
    inside = rest[1:].split('"')[0]
    simple = rest.count('"') == 2 and " " in inside and not any(c in inside for c in "&<>()@^|")
    if simple and guest.find_program(inside, SYSTEM32) is not None:
        return rest
    head, _, tail = rest[1:].rpartition('"')
    return head + tail


class Process:
    def __init__(self, guest: WindowsAgent, stdin: bytes) -> None:
        self.guest = guest
        self.stdin = stdin
        self.cwd = SYSTEM32
        self.env = {
            "SYSTEMROOT": "C:\\Windows",
            "PATH": f"{SYSTEM32};C:\\Windows",
            "USERNAME": f"{guest.hostname}$",
        }
        self.out = bytearray()
        self.err = bytearray()


class WindowsAgent(Agent):
    """The agent's commands; what it refuses, it refuses in its own words."""

    def __init__(self, hostname: str) -> None:
        self.hostname = hostname
        self.disk = Disk()
        for name in ("cmd", "taskkill", "whoami", "hostname", "ping", "findstr"):
            self.install(f"{SYSTEM32}\\{name}.exe", name)
        self.install(f"{SYSTEM32}\\chcp.com", "chcp")
        self.install("C:\\Tools\\My App\\probe.exe", "probe")
        self.disk.mkdir("C:\\Windows\\Temp")
        self.disk.mkdir("C:\\Users\\Public")
        self.disk.mkdir("C:\\System Volume Information")
        hidden = "C:\\System Volume Information"
        self.disk.files[hidden.lower()] = Node("System Volume Information", None, denied=True)
        self.processes: dict[int, Process] = {}
        self.running: dict[int, asyncio.Task[int]] = {}
        self.next_pid = 4000
        self.silent = False

    # For the machine's snapshots.
    @property
    def files(self) -> dict[str, Node]:
        return self.disk.files

    @files.setter
    def files(self, files: dict[str, Node]) -> None:
        self.disk.files = files

    def install(self, path: str, program: str) -> None:
        folder = path.rpartition("\\")[0]
        if not self.disk.is_dir(folder):
            self.disk.mkdir(folder)
        self.disk.write(path, MAGIC + program.encode())

    def awake(self) -> None:
        if self.silent:
            raise AgentSilent

    async def ping(self) -> None:
        self.awake()

    def text(self, word: bytes) -> str:
        try:
            return word.decode()
        except UnicodeDecodeError:
            raise AgentError("JSON parse error, invalid UTF-8 sequence in string") from None

    def find_program(self, name: str, cwd: str) -> str | None:
        folders = [cwd] if "\\" in name or "/" in name else [cwd, SYSTEM32, "C:\\Windows"]
        for folder in folders:
            for ending in ("", *ENDINGS):
                try:
                    full = self.disk.full(name + ending, folder)
                except WinError:
                    continue
                node = self.disk.get(full)
                if full.lower().endswith(ENDINGS) and node is not None and node.data is not None:
                    return full
        return None

    async def exec(self, argv: list[bytes], data: bytes | None) -> int:
        self.awake()
        words = [self.text(word) for word in argv]
        path = self.find_program(words[0], SYSTEM32)
        if path is None:
            why = "Failed to execute child process (No such file or directory)"
            raise AgentError(f"Guest agent command failed, error was '{why}'")
        process = Process(self, data or b"")
        self.next_pid += 4
        self.processes[self.next_pid] = process
        line = " ".join(quote(word) for word in words)
        self.running[self.next_pid] = asyncio.create_task(self.guarded(path, line, process))
        return self.next_pid

    async def guarded(self, path: str, line: str, process: Process) -> int:
        try:
            return await self.start(path, line, process)
        except Unknown as why:
            process.err += f"this pretended cmd does not know: {why}\r\n".encode()
            return 255

    async def start(self, path: str, line: str, process: Process) -> int:
        """Runs a program of the disk to its end."""
        if path.lower().endswith((".bat", ".cmd")):
            return await Cmd(process, path).file()
        data = self.disk.read(path)
        if not data.startswith(MAGIC):
            raise WinError("This program cannot be run in DOS mode.")
        return await PROGRAMS[data[len(MAGIC) :].decode()](process, line)

    async def status(self, pid: int) -> dict[str, Any]:
        self.awake()
        task = self.running.get(pid)
        if task is None:
            raise AgentError("Invalid parameter 'pid'")
        for _ in range(3):
            if not task.done():
                await asyncio.sleep(0)
        if not task.done():
            return {"exited": False}
        del self.running[pid]
        process = self.processes.pop(pid)
        code = 1 if task.cancelled() else task.result()
        name = "signal" if code >= 0xC0000000 else "exitcode"
        return {"exited": True, name: code, "out": bytes(process.out), "err": bytes(process.err)}

    def open_error(self, path: str, why: WinError) -> AgentError:
        return AgentError(f"failed to open file '{path}': {why}")

    async def write(self, path: bytes, data: bytes) -> None:
        self.awake()
        name = self.text(path)
        try:
            self.disk.write(self.disk.full(name), data)
        except WinError as why:
            raise self.open_error(name, why) from None

    async def read(self, path: bytes, offset: int, count: int) -> tuple[bytes, bool]:
        self.awake()
        name = self.text(path)
        try:
            data = self.disk.read(self.disk.full(name))
        except WinError as why:
            raise self.open_error(name, why) from None
        piece = data[offset : offset + count]
        # Only a read that gives nothing says that the file has ended.
        return piece, not piece

    async def command(self, name: str) -> Any:
        self.awake()
        if name == "guest-get-host-name":
            return {"host-name": self.hostname}
        if name == "guest-get-osinfo":
            return {
                "id": "mswindows",
                "name": "Microsoft Windows",
                "pretty-name": "Windows 10 Pro",
                "version": "Microsoft Windows 10",
                "version-id": "10",
                "variant": "client",
                "machine": "x86_64",
                "kernel-release": "19045",
                "kernel-version": "10.0",
            }
        if name == "guest-info":
            return {"version": "108.0.2", "supported_commands": []}
        return await super().command(name)


# Programs. Each gets its command line, and writes bytes.


async def run_cmd(process: Process, line: str) -> int:
    head, switch, rest = line.partition(" /c ")
    words = head.split()
    if not switch or any(word.lower() not in ("/d", "/q", "/s") for word in words[1:]):
        raise Unknown(line)
    text = after_switch(rest, process.guest)
    cmd = Cmd(process)
    path = process.guest.find_program(text.strip('"'), process.cwd)
    if path is not None and path.lower().endswith((".bat", ".cmd")):
        return await Cmd(process, path).file()
    return await cmd.line(text)


async def run_taskkill(process: Process, line: str) -> int:
    words = [word.upper() for word in unquote(line)[1:]]
    pid = int(words[words.index("/PID") + 1])
    task = process.guest.running.get(pid)
    if task is None:
        process.err += f'ERROR: The process "{pid}" not found.\r\n'.encode()
        return 128
    if "/F" not in words or "/T" not in words:
        process.err += b"ERROR: The process could not be terminated.\r\n"
        return 1
    task.cancel()
    process.out += f"SUCCESS: The process with PID {pid} has been terminated.\r\n".encode()
    return 0


async def run_whoami(process: Process, line: str) -> int:
    process.out += b"nt authority\\system\r\n"
    return 0


async def run_hostname(process: Process, line: str) -> int:
    process.out += process.guest.hostname.encode() + b"\r\n"
    return 0


async def run_ping(process: Process, line: str) -> int:
    """The usual way to wait in Windows: ping -n 10 127.0.0.1"""
    words = unquote(line)
    process.out += b"\r\nPinging 127.0.0.1 with 32 bytes of data:\r\n"
    await asyncio.sleep(int(words[words.index("-n") + 1]) - 1)
    return 0


async def run_findstr(process: Process, line: str) -> int:
    """findstr "^": all lines of its input."""
    if unquote(line)[1:] != ["^"]:
        raise Unknown(line)
    process.out += process.stdin
    return 0 if process.stdin else 1


async def run_probe(process: Process, line: str) -> int:
    """Says what it was given, and ends as it is told to."""
    words = unquote(line)[1:]
    options = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    if "--out" in options:
        process.out += b"x" * int(options["--out"]) + options.get("--last", "").encode()
        process.err += b"y" * int(options.get("--errors", "0"))
        return 0
    if "--hex" in options:
        process.out += bytes.fromhex(options["--hex"])
        return 0
    process.err += options.get("--err", "").encode()
    told = {
        "argv": words,
        "cwd": process.cwd,
        "env": process.env,
        "stdin": base64.b64encode(process.stdin).decode(),
    }
    process.out += json.dumps(told).encode() + b"\r\n"
    return CRASH if "--crash" in words else int(options.get("--exit", "0")) & 0xFFFFFFFF


PROGRAMS: dict[str, Callable[[Process, str], Awaitable[int]]] = {
    "cmd": run_cmd,
    "taskkill": run_taskkill,
    "whoami": run_whoami,
    "hostname": run_hostname,
    "ping": run_ping,
    "findstr": run_findstr,
    "probe": run_probe,
}
