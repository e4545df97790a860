"""A home on a disk of a few megabytes, which tests fill. As root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from home import Home

from tools import until


class SmallDisk(Home):
    """A home whose state, or another directory, is on a small disk."""

    def __init__(self, size_mb: int, what: str = "state") -> None:
        super().__init__()
        self.disk: Path = self.dir / what
        self.disk.mkdir(mode=0o700)
        options = f"size={size_mb}m,mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "moat-test", self.disk], check=True)

    def fill(self) -> None:
        with open(self.disk / "filler", "wb", buffering=0) as file:
            for piece in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(piece))
                except OSError:
                    continue

    def unfill(self) -> None:
        (self.disk / "filler").unlink()

    def resize(self, size_kb: int) -> None:
        options = f"remount,size={size_kb}k"
        subprocess.run(["mount", "-o", options, self.disk], check=True)

    def used_kb(self) -> int:
        fs = os.statvfs(self.disk)
        return (fs.f_blocks - fs.f_bfree) * fs.f_frsize // 1024

    def close(self) -> None:
        try:
            self.run("serve", "--stop", "--force")
            until(lambda: not self.processes(), "the daemon ends")
        finally:
            subprocess.run(["umount", "--lazy", self.disk], check=True)
        super().close()
