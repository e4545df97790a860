"""What a NIC can do that obeys no driver: this program holds the tap in place of a VM.

The network is a real one, without VMs: nothing here depends on what is in a guest.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import frames as raw
import pytest
from ranges import marks, parent_of
from world import LITERAL, World

from tools import until

pytestmark = pytest.mark.needs_root("it makes networks")

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
# Sends each line, a virtio header and a frame in hexadecimal, by the first NIC's tap. Says when it
# has done so; the bridge forgets what it has learned from a tap that nobody holds.
NIC = r"""
import fcntl, os, struct, sys
nic = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(nic, 0x400454CA, struct.pack("16sH22x", b"t0", 0x5002))
for line in sys.stdin:
    if line.strip(): os.write(nic, bytes.fromhex(line))
    else: print("sent", flush=True)
"""


def header(kind: int = 0, size: int = 0, start: int = 0, offset: int = 0) -> bytes:
    """A virtio header: pieces of a size, and where a checksum begins and is put from there."""
    return struct.pack("<BBHHHH", start > 0, kind, 42, size, start, offset)


class Nic:
    """A network, and the NIC of its only VM."""

    def __init__(self, world: World) -> None:
        self.world = world
        build = Path(os.environ["MOAT_BIN"]).resolve().parents[2]
        spec = world.dir / "nic.json"
        spec.write_text(json.dumps(SPEC))
        probe = [str(build / "tests" / "net-probe"), str(build / "src" / "cli" / "moat-helper")]
        self.network = subprocess.Popen(
            [*world.host.enter(), *probe, str(spec), "hold"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.network.stdout
        assert self.network.stdout.readline() == b"ready\n"
        inside = until(self.find_inside, "dnsmasq runs")
        self.enter = ["nsenter", "-t", str(inside), "--net"]
        self.holder = subprocess.Popen(
            [*self.enter, sys.executable, "-c", NIC],
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

    def send(self, sent: list[bytes]) -> None:
        assert self.holder.stdin
        assert self.holder.stdout
        self.holder.stdin.write("\n".join(one.hex() for one in sent) + "\n\n")
        self.holder.stdin.flush()
        assert self.holder.stdout.readline() == "sent\n"

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


@pytest.fixture(scope="module")
def nic() -> Iterator[Nic]:
    world = World()
    try:
        world.listen()
        one = Nic(world)
        try:
            yield one
        finally:
            one.close()
    finally:
        world.close()


def test_packets_leave_as_they_were_judged(nic: Nic) -> None:
    """A NIC can have the kernel cut packets and write checksums: never after the rules."""
    inner = raw.udp(22, b"mk-cut-nic.")
    whole = raw.udp(80, b"mk-longer-nic.".ljust(1464, b".") + raw.udp(raw.MARKED_PORT, b""))
    longer = raw.ipv4(nic.card.address, LITERAL, whole, options=bytes([1] * 4))
    longer = raw.ether(nic.card.gateway_mac, MAC, 0x800, longer)
    nic.send(
        [
            # Into fragments (3), the second of which begins as a packet to another port does.
            header(3, 24) + nic.packet(inner, bytes(16)),
            header(3, 24, 34, 6) + nic.packet(inner, bytes(16)),
            # A checksum over the destination's port, and over the last half of its address.
            header(start=36) + nic.packet(b"mk-port-nic."),
            header(start=32) + nic.packet(b"mk-address-nic."),
            # Longer than the MTU, with a header where the kernel would cut it on the way to pasta.
            bytes(10) + nic.packet(b"mk-long-nic.", bytes(3000)),
            bytes(10) + longer,
            # A checksum, as every driver asks for.
            header(start=34, offset=6) + nic.unfinished(b"mk-fine-nic."),
        ]
    )
    fine = {b"mk-fine-nic", b"mk-longer-nic"}
    until(lambda: fine <= marks(nic.world.heard()), "what may get out is heard outside")
    heard = [frame for frame in nic.world.heard() if frame[23] == raw.UDP]
    assert {(frame[30:34], frame[36:38]) for frame in heard} == {
        (IPv4Address(LITERAL).packed, struct.pack(">H", 80))
    }
    assert marks(heard) == fine


def test_no_guest_chooses_the_source_port_at_the_host(nic: Nic) -> None:
    sources = {53: b"mk-privileged-nic", 1024: b"mk-low-nic", 65535: b"mk-high-nic"}
    nic.send([bytes(10) + nic.packet(mark + b".", source=port) for port, mark in sources.items()])
    until(lambda: set(sources.values()) <= marks(nic.world.heard()), "they are heard outside")
    heard = [frame for frame in nic.world.heard() if frame[23] == raw.UDP]
    for mark in sources.values():
        (port,) = {struct.unpack(">H", one[34:36])[0] for one in heard if mark in one}
        assert 32768 <= port <= 60999


def test_a_nic_is_few_mac_addresses(nic: Nic) -> None:
    """A bridge learns them in memory of the host's kernel. A router or a VM of VMs has several."""
    several = [f"02:00:00:01:00:{n:02x}" for n in range(20)]
    many = [f"02:00:00:01:01:{n:02x}" for n in range(200)]
    others = [f"02:00:00:01:02:{n:02x}" for n in range(200)]
    # 01:80:c2:00:00:0e is for the switch itself: such frames take another way through it.
    everyone, switch = raw.BROADCAST, "01:80:c2:00:00:0e"
    sent = [(everyone, one) for one in several + many] + [(switch, one) for one in others]
    nic.send([bytes(10) + raw.ether(to, one, 0x88B5, b"") for to, one in sent])
    known = nic.known_macs()
    assert set(several) <= set(known)
    assert len(known) <= 64 + 2, "its own and the gate's"
    # Its own is never crowded out.
    nic.send([bytes(10) + nic.packet(b"mk-own-nic.")])
    until(lambda: b"mk-own-nic" in marks(nic.world.heard()), "it is heard outside")


def test_no_nic_is_the_gate(nic: Nic) -> None:
    """A frame that says it is from the gateway does not change where frames for it go."""
    nic.send([bytes(10) + raw.arp(nic.card, 1, nic.card.address, GATEWAY, b"")])
    until(lambda: nic.card.gateway_mac in nic.known_macs(), "the gate has answered")
    nic.send([bytes(10) + raw.ether(raw.BROADCAST, nic.card.gateway_mac, 0x88B5, b"")])
    known = nic.known_macs()
    assert known[MAC] == "t0"
    assert known[nic.card.gateway_mac] != "t0"


def test_a_nic_is_few_connections(nic: Nic) -> None:
    """The kernel keeps each for a time. What is for the gate leaves nothing."""
    before = nic.connections()
    nic.send(
        [bytes(10) + nic.packet(b"", to=GATEWAY, port=53, source=1024 + n) for n in range(5000)]
    )
    assert nic.connections() < before + 1000
    # 4096 at once and 256 a second; the kernel forgets such ones after 30 seconds.
    nic.send([bytes(10) + nic.packet(b"", source=1024 + n) for n in range(30000)])
    assert 3000 < nic.connections() < 4096 + 30 * 256 + 1000
