"""Looks into disks of images from outside, with the tools of e2fsprogs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from home import Home

SECTOR = 512


def tool(*args: str | Path) -> str:
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(
        [str(a) for a in args], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, f"{args}: {done.stderr}"
    return done.stdout


class Disk:
    """The disk of an image as a raw file, and its root file system."""

    def __init__(self, home: Home, image: str, scratch: Path) -> None:
        images = Path(home.env["MOAT_DATA_DIR"]) / "images"
        digest = (images / "names" / image).read_text().strip()
        self.raw = scratch / f"{image}.raw"
        disk = images / f"sha256-{digest}" / "disk.qcow2"
        tool("qemu-img", "convert", "-O", "raw", disk, self.raw)
        self.partitions: list[dict[str, Any]] = json.loads(tool("sfdisk", "--json", self.raw))[
            "partitiontable"
        ]["partitions"]
        self.root = max(self.partitions, key=lambda part: part["size"])
        self.file_system = f"{self.raw}?offset={self.root['start'] * SECTOR}"

    def read(self, path: str) -> str:
        return tool("debugfs", "-R", f"cat {path}", self.file_system)

    def stat(self, path: str) -> str:
        return tool("debugfs", "-R", f"stat {path}", self.file_system)

    def super(self) -> dict[str, str]:
        lines = tool("dumpe2fs", "-h", self.file_system).splitlines()
        return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}

    def check(self) -> None:
        tool("e2fsck", "-f", "-n", self.file_system)
