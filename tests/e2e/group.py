"""A control group whose memory tests take away. As root."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tools import until

ROOT = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 50


class Group:
    """Version 1 or 2, whichever has the memory controller here."""

    def __init__(self) -> None:
        first = (ROOT / "memory").is_dir()
        self.dir = (ROOT / "memory" if first else ROOT) / f"moat-test-{os.getpid()}"
        if not first:
            (ROOT / "cgroup.subtree_control").write_text("+memory")
        self.dir.mkdir()
        self.max = self.dir / ("memory.limit_in_bytes" if first else "memory.max")
        self.current = self.dir / ("memory.usage_in_bytes" if first else "memory.current")
        self.events = self.dir / ("memory.oom_control" if first else "memory.events")
        self.prefix = "total_" if first else ""
        # No swap, or memory would not run out.
        with contextlib.suppress(OSError):
            (self.dir / ("memory.swappiness" if first else "memory.swap.max")).write_text("0")

    def add(self, pid: int) -> None:
        """Puts a process into the group, with all that it starts from now on."""
        (self.dir / "cgroup.procs").write_text(str(pid))

    def leave(self, room_mb: float) -> None:
        """Allows that much more memory than is used, not counting page cache."""
        stat = dict(line.split() for line in (self.dir / "memory.stat").read_text().splitlines())
        files = sum(int(stat[f"{self.prefix}{kind}_file"]) for kind in ("active", "inactive"))
        used = int(self.current.read_text()) - files
        self.max.write_text(str(used + int(room_mb * (1 << 20))))

    def free(self) -> None:
        self.max.write_text(str(NO_LIMIT))

    def kills(self) -> int:
        """How often the kernel has killed a process of the group."""
        lines = dict(line.split() for line in self.events.read_text().splitlines())
        return int(lines["oom_kill"])

    def close(self) -> None:
        self.free()
        until(lambda: not (self.dir / "cgroup.procs").read_text(), "all of it has ended", 120)
        self.dir.rmdir()
