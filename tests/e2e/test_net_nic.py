"""What a NIC can do that obeys no driver: this program holds the tap in place of a VM.

The network is a real one, without VMs: nothing here depends on what is in a guest.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import frames as raw
import pytest
from nic import GATEWAY, MAC, SPEC, Nic, header
from ranges import marks
from world import LITERAL, World

from tools import until

pytestmark = pytest.mark.needs_root("it makes networks")


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


def test_a_helper_that_only_root_may_run(tmp_path: Path) -> None:
    """As after a build under umask 077: what faces guests is not root, and has to run it."""
    build = Path(os.environ["MOAT_BIN"]).resolve().parents[2]
    helper = shutil.copy(build / "src" / "cli" / "moat-helper", tmp_path)
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC))
    probe = [str(build / "tests" / "net-probe"), helper, str(spec)]
    for mode, words in ((0o700, "chmod a+rx"), (0o755, "")):
        Path(helper).chmod(mode)
        done = subprocess.run(probe, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode == 0) == (words == ""), done.stderr
        assert words in done.stderr
