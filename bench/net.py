"""The cost of a network, and what goes through it, against QEMU's own user-mode networking.

Everything is in network namespaces of the benchmark's own: a host, and an outside.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vm import PlainAgent, report, timed
from world import MIRROR, World, WorldHome

SMALL = {"source": "tiny", "ram_mb": 256, "vcpus": 1}
MAKES = 10
TRANSFERS = 3
SECONDS = 4
MIB = 1024 * 1024
# Sends zeros to each client that connects.
SENDER = """
import socket
listener = socket.create_server(("0.0.0.0", 9000))
print("ready", flush=True)
while True:
    peer, _ = listener.accept()
    try:
        while True:
            peer.sendall(bytes(1 << 18))
    except OSError:
        peer.close()
"""
RANGE: dict[str, Any] = {
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "egress": "open",
                "subnets": [
                    {
                        "cidr": "192.168.20.0/24",
                        "gateway": "192.168.20.1",
                        "snat": True,
                        "dhcp_ranges": [{"start": "192.168.20.100", "end": "192.168.20.110"}],
                    }
                ],
            }
        ]
    },
    "vms": [
        {**SMALL, "name": "a"},
        {
            **SMALL,
            "name": "b",
            "nics": [{"vnet": "lan", "mac": "52:54:00:00:00:02", "ipv4": "192.168.20.2"}],
        },
    ],
}


def receive(address: str) -> str:
    """A script that prints how many bytes came, and how many seconds that took."""
    return (
        # Its input stays open: busybox stops sending when its input ends.
        f"s=$(cut -d' ' -f1 /proc/uptime);"
        f"n=$(sleep {SECONDS} | timeout {SECONDS} nc {address} 9000 | wc -c);"
        " echo $n $s $(cut -d' ' -f1 /proc/uptime)"
    )


def milliseconds_per_mib(said: str) -> float:
    count, began, ended = said.split()
    return (float(ended) - float(began)) * 1000 / max(int(count) / MIB, 1e-6)


class PlainVm:
    """The same image in a QEMU with a user-mode NIC, on the world's host."""

    def __init__(self, home: WorldHome) -> None:
        files = Path(json.loads(home.ok("image", "inspect", "tiny", "--json"))["dir"])
        self.dir = Path(tempfile.mkdtemp(prefix="mb-", dir="/tmp"))
        path = self.dir / "agent"
        command = f"""qemu-system-x86_64 -nodefaults -no-user-config -display none -M q35 -m 256
            -kernel {files}/vmlinux -initrd {files}/initrd -device virtio-serial-pci
            -append quiet -chardev socket,id=a,path={path},server=on,wait=off
            -device virtserialport,chardev=a,name=org.qemu.guest_agent.0
            -netdev user,id=n -device virtio-net-pci,netdev=n,romfile=""".split()
        self.process = subprocess.Popen([*home.world.host.enter(), *command])
        while not path.exists():
            time.sleep(0.05)
        self.agent = PlainAgent(str(path))
        self.run("until ip addr show eth0 | grep -q 'inet '; do sleep 0.2; done")

    def run(self, script: str) -> str:
        arguments = {"path": "/bin/sh", "arg": ["-c", script], "capture_output": True}
        pid = self.agent.call("guest-exec", **arguments)["pid"]
        while not (status := self.agent.call("guest-exec-status", pid=pid))["exited"]:
            time.sleep(0.05)
        return base64.b64decode(status.get("out-data", "")).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def start_user_mode() -> None:
    """A QEMU with user-mode networking for two, up to its first word."""
    command = ["qemu-system-x86_64", "-S", "-nodefaults", "-display", "none", "-qmp", "stdio"]
    for name in "ab":
        command += ["-netdev", f"user,id={name}", "-device", f"virtio-net-pci,netdev={name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as qemu:
        assert qemu.stdout
        qemu.stdout.readline()
        qemu.kill()


def bench_making(home: WorldHome) -> None:
    programs = Path(home.binary).parent
    probe, helper = programs.parents[1] / "tests" / "net-probe", programs / "moat-helper"
    spec = home.spec(RANGE)
    made, removed, plain = [], [], []
    for _ in range(MAKES):
        command = [*home.world.host.enter(), str(probe), str(helper), spec]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        both = done.stdout.split()
        made.append(float(both[0]))
        removed.append(float(both[1]))
        plain.append(timed(start_user_mode))
    report("net_make", made, plain, "ms")
    report("net_remove", removed, plain, "ms")


def bench_traffic(home: WorldHome) -> None:
    between, outside, plain = [], [], []
    sandbox = home.ok("up", home.spec(RANGE), timeout=900)
    user_mode = PlainVm(home)
    try:
        serve = "while true; do nc -l -p 9000 </dev/zero; done"
        home.sh(sandbox, "b", f"setsid sh -c '{serve}' >/dev/null 2>&1 &")
        for _ in range(TRANSFERS):
            between.append(milliseconds_per_mib(home.sh(sandbox, "a", receive("192.168.20.2"))))
            outside.append(milliseconds_per_mib(home.sh(sandbox, "a", receive(MIRROR))))
            plain.append(milliseconds_per_mib(user_mode.run(receive(MIRROR))))
    finally:
        user_mode.close()
    report("net_vm_to_vm", between, plain, "ms/MiB")
    report("net_outside_to_vm", outside, plain, "ms/MiB")


def run() -> None:
    world = World()
    home = WorldHome(world, 0, Path())
    command = [*world.outside.enter(), sys.executable, "-c", SENDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdout
        assert sender.stdout.readline() == "ready\n"
        try:
            home.ok("image", "build", "tiny", timeout=1800)
            bench_making(home)
            bench_traffic(home)
        finally:
            sender.kill()
            home.close()
            world.close()
