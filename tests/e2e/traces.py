"""Everything that a moat could leave on this machine, counted."""

from __future__ import annotations

import os
from pathlib import Path

from home import Home

from tools import daemons, namespace

PROC = Path("/proc")
TEMPLATES_AT_ONCE = 2  # of which a daemon may keep the memory


def threads_of(pid: int) -> list[str]:
    try:
        return [f"{pid}/task/{task}" for task in os.listdir(PROC / str(pid) / "task")]
    except OSError:
        return []


def link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def files_of(pid: int) -> list[str]:
    """What the open files of a process are."""
    try:
        return [link(PROC / str(pid) / "fd" / fd) for fd in os.listdir(PROC / str(pid) / "fd")]
    except OSError:
        return []


def lines_of(path: Path) -> set[str]:
    try:
        return set(path.read_text().splitlines())
    except OSError:
        return set()


def children_of(parent: int) -> list[int]:
    """Zombies included, whose environment cannot be read any more."""
    found: list[int] = []
    for thread in threads_of(parent):
        try:
            found += map(int, (PROC / thread / "children").read_text().split())
        except OSError:
            continue
    return found


class Traces:
    """Says what is there now and was not there when this object was made."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.data = Path(home.env["MOAT_DATA_DIR"])
        self.own_network = namespace(os.getpid(), "net")
        self.before = set(self.places())

    def places(self) -> list[str]:
        """Of the whole machine, where others may be at work: only what can be moat's."""
        taps = [f"tap {p.parent.name}" for p in Path("/sys/class/net").glob("*/tun_flags")]
        groups = [
            f"control group {path}"
            for path, _, _ in os.walk("/sys/fs/cgroup")
            if "moat" in os.path.basename(path) and "moat-test" not in path
        ]
        mounts = [
            f"mount {line}"
            for line in lines_of(PROC / "self/mountinfo")
            if str(self.home.dir) in line or str(self.data) in line or " nsfs " in line
        ]
        return taps + groups + mounts + self.stored()

    def namespaces(self, pids: list[int]) -> list[str]:
        """Network namespaces that a thread is in, or that a file keeps alive."""
        inside = [link(PROC / thread / "ns/net") for pid in pids for thread in threads_of(pid)]
        held = [name for pid in pids for name in files_of(pid) if name.startswith("net:")]
        return sorted({name for name in inside + held if name} - {self.own_network})

    def memory_files(self, pids: list[int]) -> list[str]:
        held = [name for pid in pids for name in files_of(pid) if name.startswith("/memfd:")]
        templates = [name for name in held if "moat-ram" in name]
        return [name for name in held if name not in templates] + templates[TEMPLATES_AT_ONCE:]

    def files(self, daemons_alive: list[int]) -> list[str]:
        """Of a daemon that has nothing to do: of processes and sandboxes that are gone."""
        gone = ("anon_inode:[pidfd]", "pipe:", str(self.home.dir / "state" / "sandboxes"))
        return [name for pid in daemons_alive for name in files_of(pid) if name.startswith(gone)]

    def stored(self) -> list[str]:
        """Images and templates, also those that are not finished."""
        return [
            f"stored {kind}/{p.name}"
            for kind in ("images", "templates")
            for p in self.data.glob(f"{kind}/*")
            if p.name not in ("busy", "log", "names")
        ]

    def left(self) -> list[str]:
        serving = daemons(self.home)
        processes = self.home.processes()
        strange = [f"process {p}: {a[:120]}" for p, a in processes.items() if p not in serving]
        strange += [f"child {c} of the daemon" for p in serving for c in children_of(p)]
        strange += [f"network namespace {n}" for n in self.namespaces(list(processes))]
        strange += [f"memory {name}" for name in self.memory_files(list(processes))]
        strange += [f"file {name}" for name in self.files(serving)]
        strange += [place for place in self.places() if place not in self.before]
        return strange + self.home.left_over()

    def kinds(self) -> set[str]:
        """The first words of what is there."""
        return {one.split()[0] for one in self.left()}
