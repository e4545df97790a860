"""The networks between real VMs: Ethernet frames in multicast datagrams on the loopback device.

QEMU puts them there by itself. What the genuine server's bridge and dnsmasq do is done here: each
vnet's gateway answers ARP, pings and DHCP, from the addresses that the IPAM has for a card.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import App

GROUP = "230.0.0.1"
LOOPBACK = "127.0.0.1"
FIRST_PORT = 20000
PORTS = 20000
COOKIE = b"\x63\x82\x53\x63"
LEASE_SECONDS = 3600
DISCOVER, OFFER, REQUEST, ACK, NAK, INFORM = 1, 2, 3, 5, 6, 8


class Wires:
    """One port of the group for each bridge."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.wires: dict[str, Wire] = {}

    def port(self, bridge: str) -> int:
        if bridge not in self.wires:
            self.wires[bridge] = Wire(self.app, bridge)
        return self.wires[bridge].port

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()


class Wire:
    """One bridge."""

    def __init__(self, app: App, bridge: str) -> None:
        self.app = app
        self.bridge = bridge
        self.mac = b"\x02" + os.urandom(5)
        self.socket, self.port = open_group()
        asyncio.get_running_loop().add_reader(self.socket, self.readable)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.socket)
        self.socket.close()

    def readable(self) -> None:
        try:
            frame = self.socket.recv(65536)
        except OSError:
            return
        if len(frame) < 14 or frame[6:12] == self.mac:
            return
        kind = frame[12:14]
        try:
            if kind == b"\x08\x06":
                self.arp(frame)
            elif kind == b"\x08\x00":
                self.ipv4(frame)
        except (IndexError, struct.error, ValueError):
            # A guest may send whatever it likes.
            return

    def send(self, target: bytes, kind: bytes, payload: bytes) -> None:
        frame = target + self.mac + kind + payload
        self.socket.sendto(frame.ljust(60, b"\0"), (GROUP, self.port))

    def subnets(self) -> list[dict[str, Any]]:
        running = self.app.sdn.running["subnets"].values()
        return [subnet for subnet in running if subnet["vnet"] == self.bridge]

    def gateways(self) -> list[bytes]:
        found = [subnet["gateway"] for subnet in self.subnets() if subnet.get("gateway")]
        return [ipaddress.ip_address(text).packed for text in found]

    def arp(self, frame: bytes) -> None:
        operation, wanted = frame[20:22], frame[38:42]
        if operation != b"\0\x01" or wanted not in self.gateways():
            return
        head = frame[14:20] + b"\0\x02"
        self.send(frame[6:12], b"\x08\x06", head + self.mac + wanted + frame[22:32])

    def ipv4(self, frame: bytes) -> None:
        packet = frame[14:]
        length = (packet[0] & 15) * 4
        total = struct.unpack("!H", packet[2:4])[0]
        body = packet[length:total]
        if packet[9] == 17 and body[2:4] == b"\0\x43":
            self.dhcp(body[8:])
        elif packet[9] == 1 and body[0] == 8 and packet[16:20] in self.gateways():
            reply = b"\0\0\0\0" + body[4:]
            reply = reply[:2] + checksum(reply) + reply[4:]
            self.send(frame[6:12], b"\x08\x00", ip_packet(1, packet[16:20], packet[12:16], reply))

    def lease(self, mac: str) -> tuple[dict[str, Any], str] | None:
        """The subnet and the address that the IPAM has for a card."""
        known = self.app.sdn.address_of_card(self.bridge, mac.upper())
        for subnet in self.subnets():
            if not subnet.get("gateway"):  # then the genuine server's dnsmasq is not told of it
                continue
            if known and ipaddress.ip_address(known) in ipaddress.ip_network(subnet["cidr"]):
                return subnet, known
        return None

    def dhcp(self, message: bytes) -> None:
        if message[0] != 1 or message[236:240] != COOKIE:
            return
        options = parse_options(message[240:])
        kind = options.get(53, b"\0")[0]
        mac = ":".join(f"{byte:02x}" for byte in message[28:34])
        found = self.lease(mac)
        if found is None or kind not in (DISCOVER, REQUEST, INFORM):
            return
        subnet, text = found
        address = ipaddress.ip_address(text).packed
        gateway = ipaddress.ip_address(subnet["gateway"]).packed
        answer = OFFER if kind == DISCOVER else ACK
        wanted = options.get(50) or message[12:16]
        if kind == REQUEST and wanted != address and wanted != b"\0\0\0\0":
            answer = NAK
        mask = ipaddress.ip_network(subnet["cidr"]).netmask.packed
        server = subnet.get("dhcp-dns-server")
        dns = ipaddress.ip_address(server).packed if server else gateway
        fields = {53: bytes([answer]), 54: gateway}
        if answer != NAK:
            fields |= {1: mask, 6: dns, 51: struct.pack("!I", LEASE_SECONDS)}
            fields[3] = gateway
        body = b"\x02\x01\x06\0" + message[4:12] + b"\0\0\0\0"
        body += (b"\0\0\0\0" if answer == NAK else address) + gateway + b"\0\0\0\0"
        body += message[28:44] + bytes(192) + COOKIE
        for number, value in fields.items():
            body += bytes([number, len(value)]) + value
        body += b"\xff"
        udp = struct.pack("!HHHH", 67, 68, len(body) + 8, 0) + body
        packet = ip_packet(17, gateway, b"\xff\xff\xff\xff", udp)
        self.send(b"\xff" * 6, b"\x08\x00", packet)


def open_group() -> tuple[socket.socket, int]:
    """A port of the group that nobody else uses, with a socket on it."""
    start = int.from_bytes(os.urandom(2), "big")
    for step in range(PORTS):
        port = FIRST_PORT + (start + step) % PORTS
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            # Without sharing, so that this fails when somebody is there.
            probe.bind(("", port))
        except OSError:
            continue
        finally:
            probe.close()
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((GROUP, port))
        membership = socket.inet_aton(GROUP) + socket.inet_aton(LOOPBACK)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        made.setblocking(False)
        return made, port
    raise OSError("no free port for a network")


def parse_options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data) and data[at] != 255:
        if data[at] == 0:
            at += 1
            continue
        size = data[at + 1]
        found[data[at]] = data[at + 2 : at + 2 + size]
        at += 2 + size
    return found


def checksum(data: bytes) -> bytes:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def ip_packet(protocol: int, source: bytes, target: bytes, body: bytes) -> bytes:
    head = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(body), 0, 0, 64, protocol)
    head += b"\0\0" + source + target
    return head[:10] + checksum(head) + head[12:] + body
