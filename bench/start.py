"""Starting VMs: warm against cold, and against bare QEMU that restores the same template."""

from __future__ import annotations

import array
import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from vm import Home, report, timed

# Without a network card: bare QEMU has nothing to plug it into.
TINY = {"vms": [{"source": "tiny", "ram_mb": 192, "vcpus": 1, "nics": []}]}
DEBIAN = {"vms": [{"source": "debian12", "ram_mb": 512, "vcpus": 1}]}
DEBIAN_ALONE = {"vms": [{"source": "debian12", "ram_mb": 512, "vcpus": 1, "nics": []}]}
CLONES = (1, 8, 32)
# As in src/driver/qemu/vm/args.h.
QMP, AGENT, RUNNER, CONSOLE, OVERLAY, BASE, RAM, LAYER = 10, 11, 12, 13, 14, 15, 21, 22
OUT_OF_THE_WAY = 900


def cold(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "vms": [{**vm, "warm": False} for vm in spec["vms"]]}


def open_disks(template: Path) -> dict[int, int]:
    """The disks of a VM of this template: the image's, the template's, and one of its own."""
    layer = template / "disk.qcow2"
    if not layer.exists():
        return {}
    about = subprocess.check_output(["qemu-img", "info", "--output=json", str(layer)])
    image = json.loads((template / "manifest.json").read_text())["about"]["image"]
    base = template.parents[1] / "images" / f"sha256-{image}" / "disk.qcow2"
    with tempfile.TemporaryDirectory() as here:
        own, size = f"{here}/overlay", str(json.loads(about)["virtual-size"])
        subprocess.check_call(["qemu-img", "create", "-q", "-f", "qcow2", own, size])
        return {
            BASE: os.open(base, os.O_RDONLY),
            LAYER: os.open(layer, os.O_RDONLY),
            OVERLAY: os.open(own, os.O_RDWR),
        }


class Bare:
    """A QEMU with the arguments of one of moat's, started from its template by hand."""

    def __init__(self, like: int, template: Path, ram: int, disks: dict[int, int]) -> None:
        args = Path(f"/proc/{like}/cmdline").read_text().split("\0")[:-1]
        pairs = {n: socket.socketpair() for n in (QMP, AGENT, RUNNER, CONSOLE)}
        files = {n: pair[1].fileno() for n, pair in pairs.items()}
        for n in range(14, 30):
            path = f"/proc/{like}/fd/{n}"
            if n != RAM and f"/fd/{n}" in " ".join(args) and os.path.exists(path):
                files[n] = os.open(path, os.O_RDONLY)
        files.update(disks)
        files[RAM] = ram
        high = {n: os.dup(fd) for n, fd in files.items()}

        def arrange() -> None:
            # out of the way of each other, and of what 32 of us have open
            moved = {n: os.dup2(fd, OUT_OF_THE_WAY + n) for n, fd in high.items()}
            for n, fd in moved.items():
                os.dup2(fd, n)

        self.process = subprocess.Popen(
            args, preexec_fn=arrange, close_fds=False, stdout=subprocess.DEVNULL
        )
        for fd in high.values():
            os.close(fd)
        for n, fd in files.items():
            if n not in pairs and n != RAM:
                os.close(fd)
        for _, theirs in pairs.values():
            theirs.close()  # so that this end tells when QEMU has ended
        self.qmp, self.agent = pairs[QMP][0], pairs[AGENT][0]
        self.pairs = pairs
        self.lines = self.qmp.makefile("rb")
        self.restore(template)

    def call(self, command: str, fd: int = -1, **arguments: Any) -> Any:
        text = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        more = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        self.qmp.sendmsg([text], more)
        while True:
            answer = json.loads(self.lines.readline())
            if "return" in answer or "error" in answer:
                return answer.get("return")

    def restore(self, template: Path) -> None:
        self.call("qmp_capabilities")
        ignore = {"capability": "x-ignore-shared", "state": True}
        self.call("migrate-set-capabilities", capabilities=[ignore])
        with (template / "state").open("rb") as state:
            self.call("getfd", fd=state.fileno(), fdname="state")
        self.call("migrate-incoming", uri="fd:state")
        while self.call("query-status")["status"] == "inmigrate":
            time.sleep(0.002)
        self.call("cont")

    def exec(self) -> None:
        lines = self.agent.makefile("rb")

        def ask(command: str, **arguments: Any) -> Any:
            request = {"execute": command, "arguments": arguments}
            self.agent.sendall(json.dumps(request).encode() + b"\n")
            return json.loads(lines.readline())["return"]

        pid = ask("guest-exec", path="/bin/echo", arg=["x"], **{"capture-output": True})["pid"]
        while not ask("guest-exec-status", pid=pid)["exited"]:
            time.sleep(0.002)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for ours, _ in self.pairs.values():
            ours.close()


def load(template: Path) -> int:
    """The template's memory in a memory file, as moat has it."""
    fd = os.memfd_create("bench", 0)
    data = (template / "ram").read_bytes()
    os.truncate(fd, len(data))
    for at in range(0, len(data), 4096):
        page = data[at : at + 4096]
        if page.count(0) != len(page):
            os.pwrite(fd, page, at)
    return fd


def template_of(home: Home, spec: dict[str, Any]) -> Path:
    listed = json.loads(home.ok("image", "templates", "--json"))["templates"]
    (vm,) = spec["vms"]
    mine = (vm["source"], vm["ram_mb"], len(vm.get("nics", [0])))
    key = next(t["key"] for t in listed if (t["name"], t["ram_mb"], t["nics"]) == mine)
    data = json.loads(home.ok("info", "--json"))["paths"]["data"]
    return Path(data) / "templates" / key


def up_and_exec(home: Home, spec: str, sandboxes: list[str]) -> None:
    sandboxes.append(home.ok("up", spec))
    assert home.ok("exec", sandboxes[-1], "--", "echo", "x") == "x"


def measure(home: Home, spec: dict[str, Any], n: int) -> list[float]:
    figures: list[float] = []
    path = home.spec(spec)
    for _ in range(n):
        sandboxes: list[str] = []
        figures.append(timed(lambda: up_and_exec(home, path, sandboxes)))  # noqa: B023
        home.ok("rm", *sandboxes)
    return figures


def bare_start(like: int, template: Path, ram: int) -> float:
    disks = open_disks(template)
    start = time.perf_counter()
    one = Bare(like, template, ram, disks)
    one.exec()
    took = (time.perf_counter() - start) * 1000
    one.close()
    return took


def against_bare(home: Home, name: str, spec: dict[str, Any]) -> None:
    home.ok("image", "warm", home.spec(spec), timeout=900)
    template = template_of(home, spec)
    ram = load(template)
    sandbox = home.up(spec)
    (like,) = home.qemu_pids(sandbox)
    bare = [bare_start(like, template, ram) for _ in range(5)]
    home.ok("rm", sandbox)
    os.close(ram)
    report(f"start_{name}_against_bare", measure(home, spec, 5), bare, "ms")


def bench_start() -> None:
    home = Home()
    try:
        for name, spec in (("tiny", TINY), ("debian12", DEBIAN)):
            home.ok("image", "build", name, timeout=1800)
            home.ok("image", "warm", home.spec(spec), timeout=900)
            home.ok("rm", home.up(spec))  # loads it
            report(f"start_{name}", measure(home, spec, 5), measure(home, cold(spec), 2), "ms")
        against_bare(home, "debian12", DEBIAN_ALONE)
        against_bare(home, "tiny", TINY)
        sandbox = home.up(TINY)
        for verb, run in (
            ("snapshot", lambda: home.ok("snapshot", sandbox, "s")),
            ("restore", lambda: home.ok("restore", sandbox, "s")),
            ("fork", lambda: home.ok("rm", home.ok("fork", sandbox))),
        ):
            figures = [timed(run) for _ in range(3)]
            report(f"{verb}_tiny", figures, measure(home, cold(TINY), 1), "ms")
    finally:
        home.close()


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def bench_clones() -> None:
    """Memory of each of n VMs from one template, against as many bare QEMUs."""
    home = Home()
    try:
        home.ok("image", "build", "tiny", timeout=1800)
        spec = home.spec(TINY)
        home.ok("image", "warm", spec, timeout=900)
        template = template_of(home, TINY)
        ram = load(template)
        for n in CLONES:
            sandboxes: list[str] = []
            for _ in range(n):
                up_and_exec(home, spec, sandboxes)
            pids = home.qemu_pids()
            ours = [pss_mb(pid) for pid in pids]
            bare: list[Bare] = []
            try:
                for _ in range(n):
                    bare.append(Bare(pids[0], template, ram, {}))
                    bare[-1].exec()
                theirs = [pss_mb(one.process.pid) for one in bare]
            finally:
                for one in bare:
                    one.close()
            report(f"clone_mb_of_{n}", ours, theirs, "MB")
            home.ok("rm", *sandboxes)
    finally:
        home.close()
