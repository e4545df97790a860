"""Pictures of a desktop, and how long a click takes until the picture has settled."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from vm import Home, Wire, report, timed

from desktop_image import build_desktop, desktop_spec  # isort: skip
from tools import until  # isort: skip

ROUNDS = 30
REFERENCE_WAIT_MS = 2000.0  # what Inspect's own program waits after an action


class Monitor:
    """A second monitor of the VM's QEMU: the baseline."""

    def __init__(self, qemu: int) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.root = f"/proc/{qemu}/root"  # its /tmp is its own
        self.sock.connect(f"{self.root}/tmp/qmp")
        self.lines = self.sock.makefile("rb")
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, command: str, **arguments: Any) -> None:
        request = {"execute": command, "arguments": arguments}
        self.sock.sendall(json.dumps(request).encode() + b"\n")
        while "return" not in (answer := json.loads(self.lines.readline())):
            if "error" in answer:
                raise RuntimeError(answer["error"])

    def shot(self) -> bytes:
        self.call("screendump", filename="/tmp/shot.png", format="png")
        return Path(f"{self.root}/tmp/shot.png").read_bytes()


class Desktop:
    def __init__(self) -> None:
        self.home = Home()
        spec = desktop_spec(build_desktop(self.home))
        spec["vms"][0]["native"] = {
            "args": [
                *("-chardev", "socket,id=bench,path=/tmp/qmp,server=on,wait=off"),
                *("-mon", "chardev=bench,mode=control"),
            ]
        }
        self.sandbox = self.home.ok("up", self.home.spec(spec), timeout=1200)
        (qemu,) = self.home.qemu_pids(self.sandbox)
        self.monitor = Monitor(qemu)
        self.wire = Wire(self.home)
        until(lambda: self.shot(settle=5.0)["settled"] and self.reached(), "it is there", 300)

    def reached(self) -> bool:
        check = ("exec", self.sandbox, "test", "-s", "/run/target.log")
        return self.home.run(*check).returncode == 0

    def call(self, op: str, **args: Any) -> dict[str, Any]:
        answer = self.wire.final(self.wire.request(op, {"sandbox": self.sandbox, **args}))
        assert answer["type"] == "result", answer
        result: dict[str, Any] = answer["result"]
        return result

    def shot(self, **args: Any) -> dict[str, Any]:
        return self.call("screenshot", **args)

    def click(self, at: int) -> None:
        """As the provider does it for the computer tool."""
        self.call("input", actions=[{"do": "click", "x": at, "y": at}], of=[1366, 768])
        assert self.shot(size=[1366, 768], settle=3.0)["settled"]


def run() -> None:
    desk = Desktop()
    try:
        desk.shot()
        desk.monitor.shot()
        ours, small, bare = [], [], []
        for _ in range(ROUNDS):
            ours.append(timed(desk.shot))
            bare.append(timed(desk.monitor.shot))
            small.append(timed(lambda: desk.shot(size=[1366, 768])))
        report("screenshot", ours, bare, "ms")
        report("screenshot_scaled", small, bare, "ms")
        clicks = [timed(lambda at=at: desk.click(at)) for at in range(100, 100 + ROUNDS)]
        report("click_settled", clicks, [REFERENCE_WAIT_MS], "ms")
    finally:
        desk.home.close()
