"""VMs made of container images: how long a sandbox of them takes, and what each takes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from start import TINY, measure, pss_mb
from vm import Home, containers, report

# What a service in a container costs, in busybox: the figures are moat's, not those of a program.
SLEEPS = {"source": "bench-busybox", "ram_mb": 512, "vcpus": 1, "service": {}}
LAB = {
    "alias": "lab",
    "subnets": [
        {
            "cidr": "10.9.0.0/24",
            "gateway": "10.9.0.1",
            "snat": False,
            "dhcp_ranges": [{"start": "10.9.0.10", "end": "10.9.0.99"}],
        }
    ],
}


def services(n: int) -> dict[str, Any]:
    names = [chr(ord("a") + i) for i in range(n)]
    vms = [{**SLEEPS, "name": name, "nics": [{"vnet": "lab"}]} for name in names]
    return {"vms": vms, "networks": {"vnets": [LAB]}}


def run() -> None:
    """Sandboxes of one and of three services against one VM of `tiny`, and what each VM takes."""
    home = Home()
    try:
        home.ok("ls")
        os.environ["MOAT_DATA_DIR"] = json.loads(home.ok("info", "--json"))["paths"]["data"]
        for name in ("tiny", "container"):
            home.ok("image", "build", name, timeout=1800)
        with tempfile.TemporaryDirectory() as tree:
            containers.busybox(Path(tree))
            containers.store("bench-busybox", Path(tree), {"cmd": ["/bin/sleep", "1000000"]})
        tiny = {**services(1), "vms": [{**TINY["vms"][0], "nics": [{"vnet": "lab"}]}]}
        for spec in (tiny, services(1), services(3)):
            home.ok("rm", home.up(spec))  # makes the templates, and loads them
        alone = measure(home, tiny, 5)
        for n in (1, 3):
            report(f"start_{n}_services", measure(home, services(n), 5), alone, "ms")
        sandbox = home.up(services(3))
        memory = [pss_mb(pid) for pid in home.qemu_pids(sandbox)]
        inside = "/proc/meminfo", "MemTotal:|MemFree:|^Cached:"
        said = home.ok("exec", sandbox, "--", "grep", "-E", inside[1], inside[0]).split()
        used = (int(said[1]) - int(said[4])) / 1024
        report("service_vm_mb", memory, [used], "MB", cached=int(said[7]) / 1024)
        home.ok("rm", sandbox)
        home.ok("image", "rm", "bench-busybox")
    finally:
        home.close()
