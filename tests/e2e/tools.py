"""Helpers of several end-to-end tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from home import Home, Wire

STRANGER = 12345  # a uid and gid that nobody has


def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """Polls until the function returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
    return answer


def wire(home: Home, **more: Any) -> Wire:
    """A connection with a timeout to the daemon, which is started if necessary."""
    home.ok("ls")
    made = Wire(home, **more)
    made.sock.settimeout(120)
    return made


def as_stranger(home: Home, *argv: str, user: int = STRANGER) -> subprocess.CompletedProcess[str]:
    ids = ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
    return subprocess.run(
        ["setpriv", *ids, *argv],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def copy_data(source: Path, target: Path, *kinds: str) -> None:
    """Copies images or templates by hard links."""

    def link(old: str, new: str) -> None:
        """Copies lock files instead of linking them: locks belong to inodes."""
        if os.path.basename(old) == "lock":
            Path(new).touch()
        else:
            os.link(old, new)

    for kind in kinds:
        shutil.copytree(source / kind, target / kind, copy_function=link, symlinks=True)


@contextlib.contextmanager
def own_data() -> Iterator[Path]:
    """A data directory for one test, with links to the shared images."""
    shared = Path(os.environ["MOAT_DATA_DIR"])
    own = Path(tempfile.mkdtemp(prefix="mtd-", dir=shared.parent))  # for hard links
    try:
        copy_data(shared, own, "images")
        yield own
    finally:
        shutil.rmtree(own)


def status_kb(pid: int, field: str) -> int:
    """A figure of a process such as VmRSS or VmHWM."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


def listed(home: Home) -> list[dict[str, Any]]:
    return json.loads(home.ok("ls", "--json"))["sandboxes"]


def in_guest(home: Home, sandbox: str, script: str, *options: str, **more: Any) -> str:
    """Runs a script as root in a VM and returns its output."""
    return home.ok("exec", "-u", "root", *options, sandbox, "--", "sh", "-c", script, **more)


class Counter:
    """A program in a VM that counts, as long as it lives."""

    SCRIPT = (
        "echo 0 >/tmp/n; "
        "(i=0; while :; do i=$((i+1)); echo $i >/tmp/.n; mv /tmp/.n /tmp/n; sleep 0.1; done) &"
    )

    def __init__(self, home: Home, sandbox: str) -> None:
        self.home, self.sandbox = home, sandbox
        home.ok("exec", sandbox, "--", "sh", "-c", self.SCRIPT)
        self.goes_on()

    def read(self) -> int:
        return int(self.home.ok("exec", self.sandbox, "--", "cat", "/tmp/n"))

    def goes_on(self) -> None:
        had = self.read()
        until(lambda: self.read() > had, "it goes on counting", 300)


def log_of(home: Home) -> str:
    return (home.dir / "state" / "daemon.log").read_text()


def daemons(home: Home) -> list[int]:
    return [p for p, line in home.processes().items() if " serve " in line]


def namespace(pid: int, kind: str) -> str:
    return os.readlink(Path("/proc") / str(pid) / "ns" / kind)
