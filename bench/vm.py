"""What the benchmarks share: a VM with a second guest agent, and how figures are printed."""

from __future__ import annotations

import base64
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "e2e"))

import containers
from home import Home, Wire

__all__ = ["Home", "Wire", "containers"]

AGENT_PORT = "org.qemu.guest_agent.bench"


def report(name: str, ours: list[float], baseline: list[float], unit: str, **more: float) -> None:
    mine, theirs = statistics.median(ours), statistics.median(baseline)
    figures = {
        "name": name,
        "ours": round(mine, 3),
        "baseline": round(theirs, 3),
        "unit": unit,
        "ratio": round(theirs / mine, 2) if mine else None,
        "n": len(ours),
        **more,
    }
    print(json.dumps(figures), flush=True)


def timed(function: Callable[[], Any]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1000


class PlainAgent:
    """The QEMU guest agent with nothing around it: the baseline."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.lines = self.sock.makefile("rb")
        self.call("guest-sync", id=os.getpid())

    def call(self, command: str, **arguments: Any) -> Any:
        request = {
            "execute": command,
            "arguments": {k.replace("_", "-"): v for k, v in arguments.items()},
        }
        self.sock.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.lines.readline().lstrip(b"\xff"))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["return"]

    def exec(self, *argv: str) -> int:
        pid = self.call("guest-exec", path=argv[0], arg=list(argv[1:]), capture_output=True)["pid"]
        while not (status := self.call("guest-exec-status", pid=pid))["exited"]:
            pass
        return int(status["exitcode"])

    def write(self, path: str, content: bytes, piece: int = 65536) -> None:
        handle = self.call("guest-file-open", path=path, mode="w")
        for at in range(0, len(content), piece):
            data = base64.b64encode(content[at : at + piece]).decode()
            self.call("guest-file-write", handle=handle, buf_b64=data)
        self.call("guest-file-close", handle=handle)

    def read(self, path: str, piece: int = 65536) -> bytes:
        handle = self.call("guest-file-open", path=path, mode="r")
        got = bytearray()
        while True:
            answer = self.call("guest-file-read", handle=handle, count=piece)
            got += base64.b64decode(answer["buf-b64"])
            if answer["eof"]:
                break
        self.call("guest-file-close", handle=handle)
        return bytes(got)


class BenchVm:
    """A tiny VM that answers both to moat and to a guest agent of the benchmark's own."""

    def __init__(self) -> None:
        self.home = Home()
        self.home.ok("image", "build", "tiny", timeout=1800)
        native = [
            "-chardev",
            "socket,id=bench,path=/tmp/agent,server=on,wait=off",
            "-device",
            f"virtserialport,bus=ports.0,chardev=bench,name={AGENT_PORT}",
        ]
        vm = {"source": "tiny", "ram_mb": 512, "vcpus": 1, "native": {"args": native}}
        self.sandbox = self.home.up({"vms": [vm]})
        self.home.ok("exec", "-u", "root", self.sandbox, "--", "sh", "-c", START_AGENT)
        (qemu,) = self.home.qemu_pids(self.sandbox)
        self.agent = PlainAgent(f"/proc/{qemu}/root/tmp/agent")  # its /tmp is its own
        self.wire = Wire(self.home)
        self.settle()

    def settle(self) -> None:
        """Waits until the guest has found its devices: until then it is busy."""
        idle = 0.0
        while idle < 0.8:
            before = self.ticks()
            time.sleep(1)
            spent = [now - then for now, then in zip(self.ticks(), before, strict=True)]
            idle = spent[3] / sum(spent)

    def ticks(self) -> list[int]:
        """Ticks that the guest's processor was in use: user, nice, system, idle..."""
        return [int(word) for word in self.read("/proc/stat").split(maxsplit=9)[1:9]]

    def exec(self, *argv: str) -> bytes:
        """Runs as root, like the agent does. Returns what the command wrote."""
        request = self.wire.request(
            "exec", {"sandbox": self.sandbox, "argv": list(argv), "user": "root", "capture": True}
        )
        answers = list(self.wire.answers(request))
        final = answers[-1][0]
        assert final["type"] == "result", final
        assert final["result"]["exit_code"] == 0, final
        return b"".join(blob for _, blob in answers)

    def write(self, path: str, content: bytes) -> None:
        request = self.wire.request(
            "write", {"sandbox": self.sandbox, "path": path}, input="stream"
        )
        piece, at, room = 256 * 1024, 0, int(self.wire.hello["window"])
        while at < len(content):
            while room < piece:
                message, _ = self.wire.receive()
                assert message["type"] == "credit", message
                room += message["bytes"]
            self.wire.send({"type": "data", "id": request}, content[at : at + piece])
            at += piece
            room -= piece
        self.wire.send({"type": "eof", "id": request})
        assert self.wire.final(request)["type"] == "result"

    def read(self, path: str) -> bytes:
        request = self.wire.request("read", {"sandbox": self.sandbox, "path": path})
        return b"".join(blob for _, blob in self.wire.answers(request))

    def close(self) -> None:
        self.home.close()


START_AGENT = f"""
for name in /sys/class/virtio-ports/*/name; do
    [ "$(cat $name)" = {AGENT_PORT} ] || continue
    port=/dev/$(basename "$(dirname $name)")
    qemu-ga -d -m virtio-serial -p $port -f /tmp/bench-agent.pid -t /tmp </dev/null >/dev/null 2>&1
    exit 0
done
exit 1
"""
