"""A moat for one test, and checks for everything that it could leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TINY = {"vms": [{"source": "tiny", "ram_mb": 192, "vcpus": 1}]}
# A VM that boots, for tests that act while it starts.
COLD = {"vms": [{"source": "tiny", "ram_mb": 192, "vcpus": 1, "warm": False}]}


class Home:
    """One MOAT_HOME. Images come from $MOAT_DATA_DIR, which all tests share."""

    def __init__(self, config: str = "") -> None:
        self.binary = os.environ["MOAT_BIN"]
        self.dir = Path(tempfile.mkdtemp(prefix="mt-", dir="/tmp"))
        self.env = {**os.environ, "MOAT_HOME": str(self.dir)}
        (self.dir / "config.yaml").write_text(config or "idle_exit: 0\n")

    def copy_programs(self, to: Path) -> None:
        """Uses a copy of moat's programs, without moat-guest."""
        to.mkdir(parents=True, exist_ok=True)
        for name in ("moat", "moat-daemon", "moat-helper"):
            shutil.copy(Path(self.binary).parent / name, to)
        self.binary = str(to / "moat")

    def run(
        self, *args: str, timeout: float = 180, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [self.binary, *args],
            env=self.env,
            capture_output=True,
            text=more.pop("text", True),
            timeout=timeout,
            check=False,
            **more,
        )

    def start(self, *args: str, **more: Any) -> subprocess.Popen[bytes]:
        more.setdefault("stdout", subprocess.DEVNULL)
        more.setdefault("stderr", subprocess.DEVNULL)
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([self.binary, *args], env=self.env, **more)

    def ok(self, *args: str, **more: Any) -> str:
        done = self.run(*args, **more)
        assert done.returncode == 0, f"moat {' '.join(args)}: {done.returncode}: {done.stderr}"
        return done.stdout.strip()

    def fails(self, *args: str, **more: Any) -> str:
        done = self.run(*args, **more)
        assert done.returncode != 0, f"moat {' '.join(args)} succeeded: {done.stdout}"
        return done.stderr.strip()

    def spec(self, spec: dict[str, Any]) -> str:
        path = self.dir / f"spec-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(spec))
        return str(path)

    def up(self, spec: dict[str, Any] | None = None, *more: str) -> str:
        return self.ok("up", self.spec(spec or TINY), *more)

    def daemon_pid(self) -> int:
        return int(json.loads(self.ok("info", "--json"))["pid"])

    def processes(self) -> dict[int, str]:
        """Every process that one of our daemons started, the daemons included."""
        mark = f"MOAT_HOME={self.dir}\0".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if mark in (entry / "environ").read_bytes() + b"\0":
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def qemu_pids(self, sandbox: str = "") -> list[int]:
        name = f"-name moat-{sandbox}"
        return [
            pid
            for pid, line in self.processes().items()
            if name in line and line.startswith("qemu-system")
        ]

    def left_over(self) -> list[str]:
        """What an ended sandbox must not leave: processes, directories, journal entries."""
        left = [f"process {p}: {a[:200]}" for p, a in self.processes().items() if "qemu" in a]
        sandboxes = self.dir / "state" / "sandboxes"
        if sandboxes.exists():
            left += [f"directory {p}" for p in sandboxes.iterdir()]
        runtime = self.dir / "run"
        known = {"moat.sock", "daemon.lock"}
        if runtime.exists():
            left += [f"file {p}" for p in runtime.iterdir() if p.name not in known]
        journal = self.dir / "state" / "journal.db"
        if journal.exists():
            with sqlite3.connect(journal) as db:
                for table in ("thing", "sandbox"):
                    left += [f"row {row}" for row in db.execute(f"SELECT * FROM {table}")]
        return left

    def assert_nothing_left(self, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while left := self.left_over():
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.05)

    def kill_daemon(self) -> None:
        for pid, line in self.processes().items():
            if " serve " in line + " " and "guard" not in line:
                kill(pid)

    def close(self) -> None:
        self.run("serve", "--stop", "--force")
        deadline = time.monotonic() + 30
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in left:
            kill(pid)
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not left, f"still running after the end: {left}"


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Wire:
    """The client protocol, spoken by hand, for clients that misbehave."""

    def __init__(self, home: Home, protocol: int = 1, *, urgent: bool = False, **more: str) -> None:
        if not urgent:
            home.ok("ls")  # starts the daemon
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(home.dir / "run" / "moat.sock"))
        hello = {"type": "hello", "protocol": protocol, "client": "test", **more}
        self.send({**hello, "urgent": True} if urgent else hello)
        self.hello = self.receive()[0]
        self.next_id = 0

    def send(self, message: dict[str, Any], blob: bytes = b"") -> None:
        text = json.dumps(message).encode()
        self.sock.sendall(struct.pack("<II", len(text), len(blob)) + text + blob)

    def request(self, op: str, args: dict[str, Any], blob: bytes = b"", **more: Any) -> int:
        self.next_id += 1
        self.send({"type": "request", "id": self.next_id, "op": op, "args": args, **more}, blob)
        return self.next_id

    def receive(self) -> tuple[dict[str, Any], bytes]:
        head, body = struct.unpack("<II", self._exactly(8))
        return json.loads(self._exactly(head)), self._exactly(body)

    def answers(self, wanted: int) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Frames of one request, up to and with the final one."""
        while True:
            message, blob = self.receive()
            if message.get("id") != wanted:
                continue
            yield message, blob
            if message["type"] in ("result", "error"):
                return

    def final(self, wanted: int) -> dict[str, Any]:
        return list(self.answers(wanted))[-1][0]

    def _exactly(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            piece = self.sock.recv(count - len(got))
            if not piece:
                raise EOFError
            got += piece
        return bytes(got)
