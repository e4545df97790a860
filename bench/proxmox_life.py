"""The life of a sandbox on a Proxmox server with the genuine one's costs: ours, and the calls that
the existing Python plugin makes for it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "proxmox"))

from client import WAIT_SECONDS, Client
from lives import TAG, named
from server import PveServer
from vm import report, timed

from driver import PveHome, instance
from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)

RUNS = 3
NODE = "/nodes/pve"
LARGE = 24 << 20
TEMPLATE = {
    "name": "tiny-template",
    "tags": f"inspect;{TAG}",
    "agent": "1",
    "memory": "256",
    "serial0": "socket",
    "scsi0": "local-lvm:base-100-disk-0,size=1G",
}
SPEC: dict[str, Any] = {
    "driver": "proxmox",
    "vms": [
        {
            "source": {"existing_vm_template_tag": TAG},
            "ram_mb": 256,
            "vcpus": 1,
            "nics": [{"vnet": "default"}],
        }
    ],
}


class Replay:
    """The existing plugin's calls, in its order. It looks often, so it waits hardly too long."""

    def __init__(self, server: PveServer) -> None:
        self.client = Client(server)
        self.vm = ""

    def until(self, condition: Callable[[], bool]) -> None:
        deadline, pause = time.monotonic() + WAIT_SECONDS, 0.1
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(pause)
            pause *= 1.3

    def call(self, verb: str, path: str, given: dict[str, Any] | None = None) -> Any:
        reply = self.client.call(verb, path, given)
        assert reply.status == 200, (verb, path, reply.reason)
        return reply.data

    def act(self, verb: str, path: str, given: dict[str, Any] | None = None) -> None:
        """It waits until no new task is open in the cluster's list."""

        def open_tasks() -> set[str]:
            rows = self.client.get("/cluster/tasks")
            return {row["upid"] for row in rows if not row.get("endtime")}

        before = open_tasks()
        self.call(verb, path, given)
        self.until(lambda: not open_tasks() - before)

    def create(self) -> None:
        zone = {"type": "simple", "zone": "tas123z", "ipam": "pve", "dhcp": "dnsmasq"}
        self.call("POST", "/cluster/sdn/zones", zone)
        self.call("POST", "/cluster/sdn/vnets", {"vnet": "tas123v0", "zone": "tas123z"})
        subnet = {
            "subnet": "192.168.77.0/24",
            "type": "subnet",
            "vnet": "tas123v0",
            "gateway": "192.168.77.1",
            "snat": True,
            "dhcp-range": ["start-address=192.168.77.50,end-address=192.168.77.100"],
        }
        self.call("POST", "/cluster/sdn/vnets/tas123v0/subnets", subnet)
        self.act("PUT", "/cluster/sdn")
        number = self.client.get("/cluster/nextid")
        self.act("POST", f"{NODE}/qemu/100/clone", {"newid": number, "full": 0, "name": None})
        self.vm = f"{NODE}/qemu/{number}"
        self.act("POST", f"{self.vm}/config", {"tags": "lab,inspect"})
        net = {"net0": "virtio,bridge=tas123v0"}
        self.act("POST", f"{self.vm}/config", {"agent": "enabled=1", "memory": 256, **net})
        self.act("POST", f"{self.vm}/status/start")
        self.client.get(f"{self.vm}/status/current")
        ping = f"{self.vm}/agent/ping"
        self.until(lambda: self.client.call("POST", ping).status == 200)

    def exec(self, command: str) -> None:
        agent = f"{self.vm}/agent"
        files = [f"/tmp/replay.{name}" for name in ("out", "err", "code")]
        script = f"rm -f {' '.join(files)}\n{command} >{files[0]} 2>{files[1]}\n"
        script += f'echo -n "$?" >{files[2]}\nsync\n'
        self.call("POST", f"{agent}/file-write", {"file": "/tmp/replay.sh", "content": script})
        pid = self.call("POST", f"{agent}/exec", {"command": ["sh", "/tmp/replay.sh"]})["pid"]
        self.until(lambda: self.client.get(f"{agent}/exec-status", pid=pid)["exited"])
        for file in files:
            self.call("POST", f"{agent}/ping")
            self.client.get(f"{agent}/file-read", file=file)
        self.call("POST", f"{agent}/exec", {"command": ["sh", "-c", "rm -f /tmp/replay.*"]})

    def remove(self) -> None:
        self.call("POST", f"{self.vm}/status/stop")
        current = f"{self.vm}/status/current"
        self.until(lambda: self.client.get(current)["status"] == "stopped")
        self.call("DELETE", self.vm)
        self.until(lambda: self.client.call("GET", current).status == 500)
        vnet = "/cluster/sdn/vnets/tas123v0"
        (subnet,) = self.client.get(f"{vnet}/subnets")
        for path in (f"{vnet}/subnets/{subnet['subnet']}", vnet, "/cluster/sdn/zones/tas123z"):
            self.call("DELETE", path)
        self.act("PUT", "/cluster/sdn")


class Ours:
    def __init__(self, server: PveServer) -> None:
        self.server = server
        self.home = PveHome(instance(server))
        self.spec = self.home.spec(SPEC)
        self.box = ""
        self.home.ok("rm", self.home.ok("up", self.spec))  # logged in, caches filled

    def create(self) -> None:
        self.box = self.home.ok("up", self.spec)

    def exec(self, *argv: str) -> None:
        self.home.ok("exec", self.box, "--", *argv)

    def read(self) -> None:
        self.home.ok("cp", f"{self.box}:/root/large", str(self.home.dir / "large"), timeout=600)

    def remove(self) -> None:
        self.home.ok("rm", self.box)


def life(made: Replay | Ours, took: dict[str, list[float]]) -> None:
    for name, step in (
        ("create", made.create),
        ("first_exec", lambda: made.exec("/bin/true")),
        ("remove", made.remove),
    ):
        took.setdefault(name, []).append(timed(step))


def reading(ours: Ours) -> dict[str, list[float]]:
    """Files of 24 MiB out of a guest; milliseconds."""
    took: dict[str, list[float]] = {}
    ours.create()
    for name, source in (
        ("random", "cat /dev/urandom"),
        ("text", "yes 'a line of a log, as there are many'"),
    ):
        make = f"{source} | head -c {LARGE}"
        ours.exec("/bin/sh", "-c", f"{make} >/root/large")
        took[name] = [timed(ours.read) for _ in range(2)]
    ours.remove()
    return took


async def sample_ends(server: PveServer, home: Path) -> list[float]:
    """What a sample of an eval waits for when it ends; milliseconds."""
    vm = {"vm_source_config": {"existing_vm_template_tag": TAG}, "ram_mb": 256, "vcpus": 1}
    config = ProxmoxSandboxEnvironmentConfig.model_validate({"vms_config": [vm]})
    provider, took = ProxmoxSandboxEnvironment, []
    with named(server, home):
        for _ in range(RUNS):
            made = await provider.sample_init("task", config, {})
            began = time.perf_counter()
            await provider.sample_cleanup("task", config, made, False)
            took.append((time.perf_counter() - began) * 1000)
        await provider.task_cleanup("task", config, True)
    return took


def run() -> None:
    os.environ.setdefault("MOAT_DATA_DIR", str(Path(__file__).parents[1] / "build/test-data"))
    with PveServer(vms="container", genuine_costs=True) as server:
        server.control("add_vm", vmid=100, template=True, config=TEMPLATE)
        replay, ours = Replay(server), Ours(server)
        mine: dict[str, list[float]] = {}
        theirs: dict[str, list[float]] = {}
        try:
            for _ in range(RUNS):
                life(replay, theirs)
                life(ours, mine)
            read = reading(ours)
            ends = asyncio.run(sample_ends(server, ours.home.dir / "sample"))
        finally:
            ours.home.close()
    for name, runs in mine.items():
        report(f"proxmox_{'life' if name == 'create' else name}", runs, theirs[name], "ms")
    report("proxmox_sample_end", ends, theirs["remove"], "ms")
    for name, runs in read.items():
        # 0.4 s a MiB, read one after the other: what the server needs if nothing is saved.
        report(f"proxmox_read_24mib_{name}", runs, [0.4 * LARGE / (1 << 20) * 1000], "ms")


if __name__ == "__main__":
    run()
