"""Ethernet frames that a hostile guest might send, made by hand.

Each carries a mark, "mk-NUMBER-SENDER", by which it is known wherever it turns up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

BROADCAST = "ff:ff:ff:ff:ff:ff"
UDP, TCP, ICMP, IPV6_ICMP = 17, 6, 1, 58
MARKED_PORT = 0x6D6B  # "mk", for packets that can carry no mark


class Card(NamedTuple):
    """The sender's NIC, and its gateway."""

    name: str
    mac: str
    address: str
    gateway_mac: str
    gateway: str


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    source: str,
    to: str,
    payload: bytes,
    protocol: int = UDP,
    *,
    fragment: int = 0,
    options: bytes = b"",
    ttl: int = 64,
) -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(
        ">BBHHHBBH", 0x40 | words, 0, 4 * words + len(payload), 0x4D4B, fragment, ttl, protocol, 0
    )
    head += IPv4Address(source).packed + IPv4Address(to).packed + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ipv6(source: str, to: str, payload: bytes, protocol: int = UDP) -> bytes:
    ends = IPv6Address(source).packed + IPv6Address(to).packed
    pseudo = ends + struct.pack(">IxxxB", len(payload), protocol)
    place = {UDP: 6, IPV6_ICMP: 2, TCP: 16}.get(protocol)
    if place is not None:
        value = struct.pack(">H", checksum(pseudo + payload) or 0xFFFF)
        payload = payload[:place] + value + payload[place + 2 :]
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 255) + ends + payload


def udp(port: int, payload: bytes, source: int = 5353) -> bytes:
    return struct.pack(">HHHH", source, port, 8 + len(payload), 0) + payload


def syn(source: str, to: str, port: int, payload: bytes = b"") -> bytes:
    """The first segment of a connection, with a valid checksum."""
    segment = struct.pack(">HHIIBBHHH", 5353, port, 1, 0, 0x50, 2, 1024, 0, 0) + payload
    ends = IPv4Address(source).packed + IPv4Address(to).packed
    value = checksum(ends + struct.pack(">HH", TCP, len(segment)) + segment)
    return segment[:16] + struct.pack(">H", value) + segment[18:]


def tcp(flags: int, payload: bytes) -> bytes:
    return struct.pack(">HHIIBBHHH", 5353, 80, 1, 1, 0x50, flags, 1024, 0, 0) + payload


def icmp(kind: int, code: int, rest: bytes) -> bytes:
    body = struct.pack(">BBH", kind, code, 0) + rest
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]


def ether(to: str, source: str, kind: int, payload: bytes) -> bytes:
    return (mac(to) + mac(source) + struct.pack(">H", kind) + payload).ljust(60, b"\0")


def arp(card: Card, operation: int, claimed: str, target: str, mark: bytes) -> bytes:
    body = struct.pack(">HHBBH", 1, 0x800, 6, 4, operation)
    body += mac(card.mac) + IPv4Address(claimed).packed
    body += mac(card.gateway_mac) + IPv4Address(target).packed
    return ether(BROADCAST, card.mac, 0x806, body + mark)


class Targets(NamedTuple):
    """Destinations of the frames."""

    host: str
    host_too: str
    host_broadcast: str
    host6: str
    metadata: tuple[str, ...]
    metadata6: str
    outside: str  # an address that the policy does not allow
    elsewhere: str  # an address of another vnet
    other_gateway: str
    partner: str  # an address that the sender may reach at one port; empty: none


def link_local(address: str) -> str:
    one = bytearray(mac(address))
    one[0] ^= 2
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + one[:3] + b"\xff\xfe" + one[3:]))


Maker = Callable[[bytes], list[bytes]]


def v4_attempts(card: Card, to: Targets) -> dict[str, Maker]:
    """Packets with a source that is not this NIC's, or a destination that is not allowed."""

    def routed(packet: bytes, source: str = card.mac) -> list[bytes]:
        return [ether(card.gateway_mac, source, 0x800, packet)]

    made: dict[str, Maker] = {}
    for target in (to.host, to.host_too, *to.metadata, to.elsewhere, to.other_gateway):
        made[f"UDP to {target}"] = lambda mark, t=target: routed(
            ipv4(card.address, t, udp(53, mark))
        )
    forged = (to.host_too, to.host, "127.0.0.1", "0.0.0.0", "169.254.169.254", "255.255.255.255")
    for source in (*forged, card.gateway, to.elsewhere):
        for target in (to.host, to.outside):
            made[f"UDP to {target} from {source}"] = lambda mark, s=source, t=target: routed(
                ipv4(s, t, udp(53, mark))
            )
    for target in ("255.255.255.255", "224.0.0.1", "224.0.0.251", "239.255.255.250"):
        group = b"\x01\x00\x5e" + IPv4Address(target).packed[1:]
        group = bytes([*group[:3], group[3] & 0x7F, *group[4:]])
        to_mac = BROADCAST if target.startswith("255") else group.hex(":")
        made[f"UDP to {target}"] = lambda mark, t=target, m=to_mac: [
            ether(m, card.mac, 0x800, ipv4(card.address, t, udp(53, mark)))
        ]
    made["UDP to the host's broadcast address"] = lambda mark: routed(
        ipv4(card.address, to.host_broadcast, udp(53, mark))
    )
    for target in (to.host, to.metadata[0]):
        # The port is in the first piece, the mark in the second.
        made[f"fragments to {target}"] = lambda mark, t=target: [
            *routed(ipv4(card.address, t, udp(53, bytes(16) + mark)[:24], fragment=0x2000)),
            *routed(ipv4(card.address, t, mark, fragment=3)),
        ]
        made[f"a second fragment without a first to {target}"] = lambda mark, t=target: routed(
            ipv4(card.address, t, mark, fragment=0x10)
        )
        for protocol in (4, 41, 47, 50, 132):
            made[f"protocol {protocol} to {target}"] = lambda mark, t=target, p=protocol: routed(
                ipv4(card.address, t, ipv4(to.host_too, t, udp(53, mark)), p)
            )
        for flags in (0x10, 0x12, 0x04):
            made[f"TCP with flags {flags:#x} to {target}"] = lambda mark, t=target, f=flags: routed(
                ipv4(card.address, t, tcp(f, mark), TCP)
            )
        for option in (131, 137):  # loose or strict source route through the gateway
            made[f"source route {option} to {target}"] = lambda mark, t=target, o=option: routed(
                ipv4(
                    card.address,
                    card.gateway,
                    udp(53, mark),
                    options=bytes([o, 7, 4]) + IPv4Address(t).packed + b"\0",
                )
            )
    return made


def second_header_attempts(card: Card, to: Targets) -> dict[str, Maker]:
    """Fragments of an allowed packet. The second one begins as a packet to another port does."""

    def routed(packet: bytes) -> bytes:
        return ether(card.gateway_mac, card.mac, 0x800, packet)

    def both(first: bytes, second: bytes, protocol: int) -> list[bytes]:
        ends = card.address, to.partner
        return [
            routed(ipv4(*ends, first, protocol, fragment=0x2000)),
            routed(ipv4(*ends, second, protocol, fragment=len(first) // 8)),
        ]

    def by_tcp(_: bytes) -> list[bytes]:
        second = syn(card.address, to.partner, MARKED_PORT)
        whole = syn(card.address, to.partner, 80, bytes(4) + second)
        return both(whole[:24], whole[24:], TCP)

    if not to.partner:
        return {}
    return {
        "a header in the second fragment, UDP": lambda mark: both(
            udp(80, bytes(16 + 8) + mark)[:24], udp(53, mark), UDP
        ),
        "a header in the second fragment, TCP": by_tcp,
    }


# Destination unreachable, too big, time exceeded, a bad parameter.
ICMP_ERRORS = ((3, 1), (3, 4), (11, 0), (12, 0))


def error_attempts(card: Card, to: Targets) -> dict[str, Maker]:
    """ICMP errors about a connection that exists: connection tracking calls them part of it."""

    def about(target: str, kind: int, code: int, mark: bytes) -> list[bytes]:
        answer = ipv4(to.partner, card.address, struct.pack(">HHHH", 80, 5353, 8, 0))
        error = icmp(kind, code, bytes(4) + answer + mark)
        return [
            plain(card, to.partner, card.gateway_mac, b"opening"),
            ether(card.gateway_mac, card.mac, 0x800, ipv4(card.address, target, error, ICMP)),
        ]

    if not to.partner:
        return {}
    return {
        f"ICMP {kind}/{code} to {target}": lambda mark, t=target, k=kind, c=code: about(
            t, k, c, mark
        )
        for target in (to.partner, to.outside, to.host)
        for kind, code in ICMP_ERRORS
    }


def link_attempts(card: Card, to: Targets) -> dict[str, Maker]:
    """Tags, forged MAC addresses, ARP, and messages that would make a router think again."""

    def packet(mark: bytes) -> bytes:
        return ipv4(card.address, to.host, udp(53, mark))

    made: dict[str, Maker] = {}
    for kind in (0x8100, 0x88A8, 0x9100):
        for tag in (0, 1, 5):
            made[f"to the host under a tag {kind:#x}/{tag}"] = lambda mark, k=kind, t=tag: [
                ether(card.gateway_mac, card.mac, k, struct.pack(">HH", t, 0x800) + packet(mark))
            ]
    double = struct.pack(">HHHH", 5, 0x8100, 6, 0x800)
    made["to the host under two tags"] = lambda mark: [
        ether(card.gateway_mac, card.mac, 0x88A8, double + packet(mark))
    ]
    for source in (card.gateway_mac, BROADCAST, "00:00:00:00:00:00", "01:00:5e:00:00:01"):
        made[f"to the host from MAC {source}"] = lambda mark, s=source: [
            ether(card.gateway_mac, s, 0x800, packet(mark))
        ]
    for claimed in (to.host, to.metadata[0], card.gateway):
        made[f"ARP: {claimed} is here"] = lambda mark, c=claimed: [
            arp(card, 1, c, c, mark),
            arp(card, 2, c, card.gateway, mark),
        ]
    for kind, code, rest in (
        (5, 1, IPv4Address(card.address).packed),  # redirect: reach the host through me
        (9, 0, struct.pack(">BBH", 1, 2, 1800) + IPv4Address(card.address).packed + bytes(4)),
        (13, 0, bytes(16)),
        (17, 0, bytes(8)),
    ):
        made[f"ICMP {kind}/{code} to the gateway"] = lambda mark, k=kind, c=code, r=rest: [
            ether(
                card.gateway_mac,
                card.mac,
                0x800,
                ipv4(to.host, card.gateway, icmp(k, c, r + mark), ICMP),
            )
        ]
    # Spanning tree, LLDP, PPPoE, a length instead of a type, nobody's own.
    for group, kind in (
        ("01:80:c2:00:00:00", 38),
        ("01:80:c2:00:00:0e", 0x88CC),
        (BROADCAST, 0x8863),
        (BROADCAST, 46),
        (card.gateway_mac, 0x9000),
    ):
        made[f"type {kind:#x} to {group}"] = lambda mark, g=group, k=kind: [
            ether(g, card.mac, k, b"\x42\x42\x03" + mark)
        ]
    return made


def v6_attempts(card: Card, to: Targets) -> dict[str, Maker]:
    own, gateway = link_local(card.mac), link_local(card.gateway_mac)
    made: dict[str, Maker] = {}
    for source in (own, "fd00:ec2::1", to.host6):
        for target in (to.host6, to.metadata6, gateway, "::1", f"::ffff:{to.host}"):
            made[f"IPv6 UDP to {target} from {source}"] = lambda mark, s=source, t=target: [
                ether(card.gateway_mac, card.mac, 0x86DD, ipv6(s, t, udp(53, mark)))
            ]
    for target, group in (("ff02::1", "33:33:00:00:00:01"), ("ff02::2", "33:33:00:00:00:02")):
        made[f"IPv6 UDP to {target}"] = lambda mark, t=target, g=group: [
            ether(g, card.mac, 0x86DD, ipv6(own, t, udp(53, mark)))
        ]
    # A router with a prefix, a neighbour that is the metadata service, a redirect.
    prefix = struct.pack(">BBBBIII", 3, 4, 64, 0xC0, 9999, 9999, 0)
    prefix += IPv6Address("2001:db8:666::").packed
    advert = struct.pack(">BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
    neighbour = struct.pack(">BBHI", 136, 0, 0, 0xE0000000) + IPv6Address(to.metadata6).packed
    redirect = struct.pack(">BBHI", 137, 0, 0, 0) + IPv6Address(own).packed
    redirect += IPv6Address(to.metadata6).packed
    for name, body in (("router", advert), ("neighbour", neighbour), ("redirect", redirect)):
        for target, group in (("ff02::1", "33:33:00:00:00:01"), (gateway, card.gateway_mac)):
            made[f"IPv6 {name} advertisement to {target}"] = (
                lambda mark, b=body, t=target, g=group: [
                    ether(g, card.mac, 0x86DD, ipv6(own, t, b + mark, IPV6_ICMP))
                ]
            )
    return made


def attempts(card: Card, to: Targets) -> dict[str, list[bytes]]:
    """The frames of each attempt, by what it is; the mark tells its number."""
    makers = {
        **v4_attempts(card, to),
        **second_header_attempts(card, to),
        **error_attempts(card, to),
        **link_attempts(card, to),
        **v6_attempts(card, to),
    }
    return {
        name: make(f"mk-{number}-{card.name}.".encode())
        for number, (name, make) in enumerate(makers.items())
    }


def plain(card: Card, to: str, to_mac: str, mark: bytes) -> bytes:
    """Frames that every guest may send."""
    return ether(to_mac, card.mac, 0x800, ipv4(card.address, to, udp(80, mark)))
