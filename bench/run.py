"""bench/run.py NAME,NAME...: see README.md."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from start import bench_clones, bench_start
from vm import BenchVm, Home, report, timed

from compose import bench_compose

SIZE = 50 * 1024 * 1024
SANDBOXES = 8


def bench_exec() -> None:
    vm = BenchVm()
    try:
        floor_program = Path(vm.home.binary).parents[2] / "tests" / "floor"
        vm.write("/tmp/floor", floor_program.read_bytes())
        vm.exec("/bin/chmod", "755", "/tmp/floor")
        ours, baseline, floor = [], [], []
        for _ in range(10):  # caches fill
            vm.exec("/bin/true")
            vm.agent.exec("/bin/true")
        # In blocks, not in turns: work that one leaves behind would slow the other.
        for _ in range(30):
            ours += [timed(lambda: vm.exec("/bin/true")) for _ in range(20)]
            baseline += [timed(lambda: vm.agent.exec("/bin/true")) for _ in range(20)]
            floor += [float(line) for line in vm.exec("/tmp/floor", "20").split()]
        least = statistics.median(floor)
        report("exec_floor", floor, baseline, "ms")
        report("exec_true", ours, baseline, "ms")
        report("exec_overhead", [t - least for t in ours], [t - least for t in baseline], "ms")
    finally:
        vm.close()


def bench_files() -> None:
    vm = BenchVm()
    content = os.urandom(SIZE)
    try:
        ours, baseline = [], []
        for _ in range(3):
            ours.append(timed(lambda: vm.write("/tmp/ours", content)))
            baseline.append(timed(lambda: vm.agent.write("/tmp/plain", content)))
        report("file_in_50mib", ours, baseline, "ms")
        ours, baseline = [], []
        got: dict[str, bytes] = {}
        for _ in range(3):
            ours.append(timed(lambda: got.update(ours=vm.read("/tmp/ours"))))
            baseline.append(timed(lambda: got.update(plain=vm.agent.read("/tmp/plain"))))
            assert got.pop("ours") == got.pop("plain") == content
        report("file_out_50mib", ours, baseline, "ms")
    finally:
        vm.close()


def resident_kb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return next(float(line.split()[1]) for line in status if line.startswith("VmRSS"))


def bench_memory() -> None:
    home = Home()
    spec = {"vms": [{"source": "tiny", "ram_mb": 160, "vcpus": 1}]}
    try:
        home.ok("image", "build", "tiny", timeout=1800)
        home.up(spec)  # so that costs of the first sandbox alone are not counted
        daemon = home.daemon_pid()
        before = resident_kb(daemon)
        for _ in range(SANDBOXES):
            home.up(spec)
        each = (resident_kb(daemon) - before) / SANDBOXES
        qemus = [resident_kb(pid) for pid in home.qemu_pids()]
        report("daemon_kb_per_sandbox", [max(each, 0.001)], qemus, "KB")
    finally:
        home.close()
    bench_clones()


def bench_inspect() -> None:
    from inspect_floor import run

    run()


def bench_images() -> None:
    import images

    images.run()


def bench_services() -> None:
    import services

    services.run()


def bench_net() -> None:
    from net import run

    run()


def bench_screen() -> None:
    from screen import run

    run()


def bench_vagrant() -> None:
    from vagrant import run

    run()


def bench_proxmox() -> None:
    import proxmox_create
    import proxmox_exec
    import proxmox_life

    proxmox_exec.run()
    proxmox_create.run()
    proxmox_life.run()


BENCHES: dict[str, Callable[[], None]] = {
    "exec": bench_exec,
    "files": bench_files,
    "memory": bench_memory,
    "start": bench_start,
    "compose": bench_compose,
    "images": bench_images,
    "inspect": bench_inspect,
    "net": bench_net,
    "screen": bench_screen,
    "proxmox": bench_proxmox,
    "services": bench_services,
    "vagrant": bench_vagrant,
}


def main() -> int:
    # The one with Vagrant needs root and packages of its own: it runs only if it is named.
    usual = ",".join(name for name in BENCHES if name != "vagrant")
    names = (sys.argv[1] if len(sys.argv) > 1 else usual).split(",")
    if unknown := [name for name in names if name not in BENCHES]:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    # Each makes its own images, but packages are fetched once.
    os.environ.setdefault(
        "MOAT_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "bench-cache")
    )
    for name in names:
        BENCHES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
