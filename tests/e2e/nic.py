"""A network without VMs, whose NICs are programs: they obey no driver."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import frames as raw
from ranges import parent_of
from world import LITERAL, World

from tools import until

MAC = "52:54:00:00:00:02"
GATEWAY = "192.168.20.1"
SPEC = {
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "egress": {"allow": {"cidrs": ["203.0.113.128/28"], "ports": [80]}},
                "subnets": [{"cidr": "192.168.20.0/24", "gateway": GATEWAY, "snat": True}],
            }
        ]
    },
    "vms": [{"source": "tiny", "nics": [{"vnet": "lan", "mac": MAC}]}],
}
# Holds the taps that are named. Sends each line, the number of one, a virtio header and a frame in
# hexadecimal, and says at an empty line when it has done so: the bridge forgets what it has learned
# from a tap that nobody holds. "got" and a number prints the frames that have come by that tap.
NIC = r"""
import fcntl, json, os, struct, sys, threading
taps, got = [], []
def listen(tap, frames):
    while True: frames.append(os.read(tap, 70000)[10:].hex())
for name in sys.argv[1:]:
    taps.append(os.open("/dev/net/tun", os.O_RDWR)); got.append([])
    fcntl.ioctl(taps[-1], 0x400454CA, struct.pack("16sH22x", name.encode(), 0x5002))
    threading.Thread(target=listen, args=(taps[-1], got[-1]), daemon=True).start()
for line in sys.stdin:
    words = line.split()
    if not words: print("sent", flush=True)
    elif words[0] == "got": print(json.dumps(got[int(words[1])]), flush=True)
    else: os.write(taps[int(words[0])], bytes.fromhex(words[1]))
"""


def header(kind: int = 0, size: int = 0, start: int = 0, offset: int = 0) -> bytes:
    """A virtio header: pieces of a size, and where a checksum begins and is put from there."""
    return struct.pack("<BBHHHH", start > 0, kind, 42, size, start, offset)


class Nic:
    """A network, and the NICs of its VMs; the first one is what most tests use."""

    def __init__(self, world: World, spec: dict[str, Any] = SPEC, taps: int = 1) -> None:
        self.world = world
        build = Path(os.environ["MOAT_BIN"]).resolve().parents[2]
        path = world.dir / "nic.json"
        path.write_text(json.dumps(spec))
        probe = [str(build / "tests" / "net-probe"), str(build / "src" / "cli" / "moat-helper")]
        self.network = subprocess.Popen(
            [*world.host.enter(), *probe, str(path), "hold"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.network.stdout
        assert self.network.stdout.readline() == b"ready\n"
        inside = until(self.find_inside, "dnsmasq runs")
        self.enter = ["nsenter", "-t", str(inside), "--net"]
        self.holder = subprocess.Popen(
            [*self.enter, sys.executable, "-c", NIC, *(f"t{n}" for n in range(taps))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        route = json.loads(self.run("ip", "-j", "route", "get", "192.168.20.9"))[0]["dev"]
        link = json.loads(self.run("ip", "-j", "link", "show", route))[0]
        self.card = raw.Card("nic", MAC, "192.168.20.9", link["address"], GATEWAY)
        until(self.is_plugged_in, "the bridge takes frames")

    def is_plugged_in(self) -> bool:
        self.send([bytes(10) + raw.arp(self.card, 1, self.card.address, GATEWAY, b"")])
        return MAC in self.known_macs()

    def find_inside(self) -> int | None:
        """dnsmasq, which is in the sandbox's network namespace."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            pid, above = int(entry.name), int(entry.name)
            while above > 1 and above != self.network.pid:
                above = parent_of(above)
            try:
                if above == self.network.pid and (entry / "comm").read_text() == "dnsmasq\n":
                    return pid
            except OSError:  # it has ended
                continue
        return None

    def run(self, *command: str) -> str:
        return subprocess.run(
            [*self.enter, *command], check=True, text=True, stdout=subprocess.PIPE
        ).stdout

    def send(self, sent: list[bytes], tap: int = 0) -> None:
        assert self.holder.stdin
        assert self.holder.stdout
        self.holder.stdin.write("".join(f"{tap} {one.hex()}\n" for one in sent) + "\n")
        self.holder.stdin.flush()
        assert self.holder.stdout.readline() == "sent\n"

    def got(self, tap: int = 0) -> list[bytes]:
        """All frames that have come by a tap."""
        assert self.holder.stdin
        assert self.holder.stdout
        self.holder.stdin.write(f"got {tap}\n")
        self.holder.stdin.flush()
        return [bytes.fromhex(one) for one in json.loads(self.holder.stdout.readline())]

    def packet(
        self,
        mark: bytes,
        before: bytes = b"",
        to: str = LITERAL,
        port: int = 80,
        source: int = 5353,
    ) -> bytes:
        whole = raw.ipv4(self.card.address, to, raw.udp(port, before + mark, source))
        return raw.ether(self.card.gateway_mac, MAC, 0x800, whole)

    def unfinished(self, mark: bytes) -> bytes:
        """With a checksum of what drivers leave to others: the addresses, protocol and length."""
        frame = self.packet(mark)
        ends = frame[26:34] + struct.pack(">HH", raw.UDP, len(mark) + 8)
        return frame[:40] + struct.pack(">H", 0xFFFF - raw.checksum(ends)) + frame[42:]

    def known_macs(self) -> dict[str, str]:
        """MAC addresses that the bridge knows from frames, and the port of each."""
        said = self.run("bridge", "fdb", "show", "br", "br0").splitlines()
        return {line.split()[0]: line.split()[2] for line in said if "permanent" not in line}

    def connections(self) -> int:
        """How many the kernel keeps for the sandbox."""
        return int(self.run("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()
        assert self.network.stdin
        self.network.stdin.close()
        self.network.wait()
