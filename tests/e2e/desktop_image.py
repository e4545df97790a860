"""A VM with an X server and a window over the whole screen that writes down what reaches it."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

from home import Home

FILES = Path(__file__).parent / "desktop"
PACKAGES = "xserver-xorg-core,xserver-xorg-input-libinput,xkb-data,x11-xkb-utils"
LOG = "/run/target.log"
SQUARE = 80  # of the pattern in the window


def build_desktop(home: Home) -> str:
    """The image's name. It is built once for all tests, and anew when its files have changed."""
    made_of = b"".join(path.read_bytes() for path in sorted(FILES.iterdir()))
    name = "target-" + hashlib.sha256(PACKAGES.encode() + made_of).hexdigest()[:8]
    if name not in home.ok("image", "ls", "--names").split():
        home.ok("image", "build", "debian12", timeout=1800)
        home.ok(
            *["image", "build", "debian12", "--name", name, "--packages", PACKAGES],
            *["--copy", f"{FILES}/target.py:/opt/target.py", "--run", f"{FILES}/setup.sh"],
            timeout=1800,
        )
    return name


def desktop_spec(image: str) -> dict[str, Any]:
    vm = {"name": "desk", "source": image, "ram_mb": 512, "vcpus": 1, "vga": "std"}
    return {"vms": [vm], "networks": "none"}


def read_png(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and the pixels, of a PNG as moat writes it."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    assert (depth, colour) == (8, 2)
    at, packed = 8, b""
    while at < len(png):
        length = struct.unpack(">I", png[at : at + 4])[0]
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw, size = zlib.decompress(packed), 3 * width
    above, rows = bytes(size), []
    for row in range(height):
        start = row * (size + 1)
        assert raw[start] == 2  # as a difference from the row above
        line = raw[start + 1 : start + 1 + size]
        above = (
            bytes((a + b) & 255 for a, b in zip(above, line, strict=True)) if any(line) else above
        )
        rows.append(above)
    return width, height, b"".join(rows)


class Desk:
    """That VM, in a sandbox of its own."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.image = build_desktop(home)
        self.sandbox = home.ok("up", home.spec(desktop_spec(self.image)), timeout=1200)

    def log(self) -> list[list[Any]]:
        """What has reached the window."""
        lines = self.home.ok("exec", self.sandbox, "cat", LOG).splitlines()
        return [json.loads(line) for line in lines]

    def input(self, *words: str, **more: Any) -> str:
        options = [word for word in words if word.startswith("--")]
        rest = [word for word in words if not word.startswith("--")]
        return self.home.ok("input", *options, self.sandbox, *rest, **more)

    def shot(self, *options: str) -> tuple[int, int, bytes]:
        path = self.home.dir / "shot.png"
        self.home.ok("screenshot", *options, self.sandbox, str(path))
        return read_png(path.read_bytes())
