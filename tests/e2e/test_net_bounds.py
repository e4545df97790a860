"""Each bound of what guests can make the host's kernel keep, and the honest use next to it.

The network is a real one; programs take the places of its VMs' NICs.
"""

from __future__ import annotations

import ipaddress
import json
import struct
import time
from collections.abc import Iterator

import frames as raw
import pytest
from nic import GATEWAY, MAC, Nic
from world import World

from tools import until

pytestmark = pytest.mark.needs_root("it makes networks")

NET = "192.168.0.0/16"  # room for more guests of guests than any bound
OTHER = "52:54:00:00:00:03"
SPEC = {
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "egress": {"allow": {"domains": ["mirror.example"]}},
                "subnets": [{"cidr": NET, "gateway": GATEWAY, "snat": True}],
            }
        ]
    },
    "vms": [
        {"name": "one", "source": "tiny", "nics": [{"vnet": "lan", "mac": MAC}]},
        {"name": "two", "source": "tiny", "nics": [{"vnet": "lan", "mac": OTHER}]},
    ],
}
ECHO, ECHO_REPLY, UNREACHABLE = 8, 0, 3
NO_HEADER = bytes(10)  # of virtio


@pytest.fixture(scope="module")
def nic() -> Iterator[Nic]:
    world = World()
    try:
        one = Nic(world, SPEC, taps=2)
        try:
            yield one
        finally:
            one.close()
    finally:
        world.close()


def address(number: int) -> str:
    return str(ipaddress.IPv4Address(NET.split("/")[0]) + 0x2000 + number)


def mac(number: int) -> str:
    return f"02:00:00:02:{number >> 8:02x}:{number & 255:02x}"


def card(nic: Nic, number: int) -> raw.Card:
    """A guest of a guest, with an address of its own."""
    return raw.Card("inner", mac(number), address(number), nic.card.gateway_mac, GATEWAY)


def who_has_gate(one: raw.Card) -> bytes:
    return NO_HEADER + raw.arp(one, 1, one.address, GATEWAY, b"")


def ping(one: raw.Card, number: int = 1) -> bytes:
    echo = raw.icmp(ECHO, 0, struct.pack(">HH", 77, number & 0xFFFF))
    return NO_HEADER + raw.ether(
        one.gateway_mac, one.mac, 0x800, raw.ipv4(one.address, GATEWAY, echo, raw.ICMP)
    )


def replies(frames: list[bytes], to: str | None = None, kind: int = ECHO_REPLY) -> int:
    wanted = raw.mac(to) if to else None
    return sum(
        one[12:14] == b"\x08\0"
        and one[23] == raw.ICMP
        and one[34] == kind
        and wanted in (None, one[:6])
        for one in frames
    )


def test_guests_of_a_guest_have_addresses_of_their_own(nic: Nic) -> None:
    """A hypervisor, a container host or a router: each address behind one NIC is served."""
    inner = [card(nic, n) for n in range(40)]
    nic.send([who_has_gate(one) for one in inner])
    nic.send([ping(one) for one in inner])
    until(lambda: all(replies(nic.got(), one.mac) for one in inner), "each gets its answer")
    # One of the other VM reaches them, and nobody else gets that.
    word = b"to-the-inner-one"
    nic.send([NO_HEADER + raw.ether(inner[7].mac, OTHER, 0x88B5, word)], tap=1)
    until(lambda: any(word in one for one in nic.got()), "it has come")


def test_an_address_moves_to_another_nic(nic: Nic) -> None:
    """A bond fails over, a cluster's address moves, a VM of a VM is migrated; and back."""
    moving = card(nic, 900)
    for tap in (0, 1, 0, 1):
        before = [replies(nic.got(n), moving.mac) for n in (0, 1)]
        nic.send([who_has_gate(moving), ping(moving)], tap=tap)
        until(lambda t=tap, b=before: replies(nic.got(t), moving.mac) > b[t], "the answer is there")
        assert replies(nic.got(1 - tap), moving.mac) == before[1 - tap], "and only there"
        assert nic.known_macs()[moving.mac] == f"t{tap}"


def test_few_neighbours_are_remembered(nic: Nic) -> None:
    """Those who ask by ARP, and those who are answered without having asked, are counted apart."""

    def known() -> int:
        return len(json.loads(nic.run("ip", "-j", "neigh", "show")))

    # All from one MAC address, or the bound of these would be what is seen.
    many = [card(nic, n)._replace(mac=MAC) for n in range(1000, 1800)]
    nic.send([who_has_gate(one) for one in many[:400]])
    nic.send([ping(one) for one in many[400:]])
    until(lambda: known() > 40, "some are")
    assert known() <= 2 * (64 + 4 * 2)
    # What has its place keeps it.
    before = replies(nic.got(), mac(0))
    nic.send([ping(card(nic, 0))])
    until(lambda: replies(nic.got(), mac(0)) > before, "an old one is served")


def test_pings_are_few_a_second(nic: Nic) -> None:
    one = card(nic, 1)
    before, began = replies(nic.got(), one.mac), time.monotonic()
    nic.send([ping(one, n) for n in range(20000)])
    seconds = time.monotonic() - began
    answered = replies(nic.got(), one.mac) - before
    assert 1 <= answered <= 50 + 200 * (seconds + 1)


def test_refusals_are_few_a_second(nic: Nic) -> None:
    """What is refused gets an error as an answer; the host's kernel does not write without end."""
    one = card(nic, 2)
    refused = raw.ipv4(one.address, "203.0.113.77", raw.udp(9, b""))
    before = replies(nic.got(), one.mac, UNREACHABLE)
    began = time.monotonic()
    nic.send([NO_HEADER + raw.ether(one.gateway_mac, one.mac, 0x800, refused)] * 30000)
    seconds = time.monotonic() - began
    answered = replies(nic.got(), one.mac, UNREACHABLE) - before
    assert 100 < answered <= 1000 + 1000 * (seconds + 1)


def elements(nic: Nic, name: str) -> int:
    listed = json.loads(nic.run("nft", "-j", "list", "set", "inet", "moat", name))
    return len(listed["nftables"][1]["set"].get("elem", []))


def test_what_is_refused_is_listed_up_to_a_number(nic: Nic) -> None:
    one = card(nic, 3)

    def refused(number: int, protocol: int) -> bytes:
        to = str(ipaddress.IPv4Address("203.0.0.0") + number)
        body = raw.udp(9, b"") if protocol == raw.UDP else b"12345678"
        packet = raw.ipv4(one.address, to, body, protocol)
        return NO_HEADER + raw.ether(one.gateway_mac, one.mac, 0x800, packet)

    nic.send([refused(n, raw.UDP) for n in range(6000)])
    nic.send([refused(n, 99) for n in range(2000)])
    until(lambda: elements(nic, "refused_more"), "there are more")
    assert elements(nic, "refused") == 4096
    assert elements(nic, "refused_other") == 1024


def test_no_multicast_group_is_kept(nic: Nic) -> None:
    one = card(nic, 4)
    joins = []
    for n in range(200):
        group = str(ipaddress.IPv4Address("239.1.0.0") + n)
        report = struct.pack(">BBH", 0x16, 0, 0) + ipaddress.IPv4Address(group).packed
        report = report[:2] + struct.pack(">H", raw.checksum(report)) + report[4:]
        packet = raw.ipv4(one.address, group, report, 2, options=b"\x94\x04\0\0", ttl=1)
        to = "01:00:5e:01:" + f"{n >> 8:02x}:{n & 255:02x}"
        joins.append(NO_HEADER + raw.ether(to, one.mac, 0x800, packet))
    nic.send(joins)
    nic.send([ping(one)])  # after those
    assert "239.1.0" not in nic.run("bridge", "mdb", "show")


def test_queues_and_files_have_ends(nic: Nic) -> None:
    """What is set and cannot be filled within a test."""
    for tap in ("t0", "t1"):
        assert json.loads(nic.run("ip", "-j", "link", "show", tap))[0]["txqlen"] == 1000
    expected = {"icmp_ratemask": "0", "ipfrag_max_dist": "0", "tcp_max_tw_buckets": "1024"}
    for name, value in expected.items():
        assert nic.run("cat", f"/proc/sys/net/ipv4/{name}").strip() == value
