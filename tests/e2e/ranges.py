"""The sandboxes of test_net.py, and helpers to examine them."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frames as raw
from home import Home
from world import BANNER, WorldHome

# Nearly every VM is of another kind, so templates would cost more than they save.
SMALL = {"source": "tiny", "ram_mb": 192, "vcpus": 1, "warm": False}


OWN_MAC = "52:54:00:00:00:07"


def subnet(net: str, **more: Any) -> dict[str, Any]:
    start, end = f"{net}.100", f"{net}.110"
    return {"cidr": f"{net}.0/24", "dhcp_ranges": [{"start": start, "end": end}], **more}


def nic(vnet: str, last: int, ipv4: str) -> dict[str, Any]:
    return {"vnet": vnet, "mac": f"52:54:00:00:00:{last:02x}", "ipv4": ipv4}


# lan has a short list of what it may reach, free may reach everything, shut nothing. The router
# between lan and shut is a VM, which also serves DHCP in own; the victim is as old machines are,
# and in a subnet of its own. Two VLANs share a switch.
RANGE: dict[str, Any] = {
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "egress": {
                    "allow": {
                        "domains": ["mirror.example", "*.forge.example"],
                        "cidrs": ["203.0.113.128/28"],
                        "ports": [80],
                    }
                },
                "subnets": [
                    subnet("192.168.20", gateway="192.168.20.1", snat=True),
                    subnet("192.168.21", gateway="192.168.21.1"),
                ],
            },
            {
                "alias": "free",
                "egress": "open",
                "subnets": [subnet("192.168.30", gateway="192.168.30.1", snat=True)],
            },
            {"alias": "shut", "subnets": [subnet("10.99.0", gateway="10.99.0.1")]},
            {"alias": "own", "dhcp": False, "subnets": [{"cidr": "10.43.0.0/24"}]},
            {"alias": "tags", "vlan_aware": True},
        ]
    },
    "vms": [
        {
            **SMALL,
            "name": "router",
            "await_before_next_vm": True,
            "nics": [
                nic("lan", 2, "192.168.20.2"),
                nic("shut", 3, "10.99.0.2"),
                {"vnet": "own"},
                {"vnet": "tags", "vlan_tag": 7},
            ],
        },
        {
            **SMALL,
            "name": "victim",
            "source": "tiny-disk",
            "is_sandbox": False,
            "nics": [nic("lan", 6, "192.168.21.9"), {"vnet": "own", "mac": OWN_MAC}],
            "nic_controller": "e1000",
            "disk_controller": "ide",
        },
        {**SMALL, "name": "attacker", "nics": [{"vnet": "lan"}, {"vnet": "tags", "vlan_tag": 7}]},
        {**SMALL, "name": "tourist", "nics": [{"vnet": "free"}], "nic_controller": "e1000"},
        {
            **SMALL,
            "name": "hermit",
            "nics": [nic("shut", 5, "10.99.0.5"), {"vnet": "tags", "vlan_tag": 8}],
        },
    ],
}
# A second sandbox with the same addresses, at the same time.
OTHER: dict[str, Any] = {
    "networks": {"vnets": [{"alias": "lan", "subnets": [subnet("192.168.20")]}]},
    "vms": [{**SMALL, "warm": True, "name": "other", "nics": [nic("lan", 9, "192.168.20.9")]}],
}
SERVE = f"mkdir -p /tmp/w; echo {BANNER}-$(hostname)-%s > /tmp/w/index.html; httpd -p 80 -h /tmp/w"
GET = "timeout 20 wget -q -O - http://%s/ || echo failed"


class Range(WorldHome):
    sandbox: str
    other: str
    said: list[str]


def pids(home: Home, word: str) -> list[int]:
    return [pid for pid, line in home.processes().items() if line.startswith(word)]


def holders(range_: Range, sandbox: str) -> list[int]:
    return [
        pid
        for pid, line in range_.processes().items()
        if f"-name moat-{sandbox}/net" in line and " guard " not in line
    ]


def helpers(range_: Range, sandbox: str, word: str) -> list[int]:
    """The processes that a sandbox's holder has started."""
    parents = holders(range_, sandbox)
    return [pid for pid in pids(range_, word) if parent_of(pid) in parents]


def parent_of(pid: int) -> int:
    """The pid of a process's parent; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def inhabitants(network: str) -> list[str]:
    """The processes in a network namespace. If there are none, the namespace is gone, too."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "ns" / "net") == network:
                found.append((entry / "comm").read_text())
    return found


def frames(data: bytes) -> Iterator[bytes]:
    assert struct.unpack("<I", data[:4]) == (0xA1B23C4D,)
    assert struct.unpack("<I", data[20:24]) == (1,), "Ethernet"
    at = 24
    while at + 16 <= len(data):
        (length,) = struct.unpack("<I", data[at + 8 : at + 12])
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def card_of(range_: Range, vm: str, gateway: str) -> raw.Card:
    said = range_.sh(
        range_.sandbox,
        vm,
        # `up` does not wait for DHCP: a guest on a busy host may have no address yet.
        "until ip -4 -o addr show eth0 | grep -q inet; do sleep 0.2; done;"
        f"ping -c 1 -w 30 {gateway} >/dev/null; cat /sys/class/net/eth0/address;"
        f"ip -4 -o addr show eth0; arp -n | grep '({gateway})'",
    )
    mac, address = said.split()[0], said.split("inet ")[1].split("/")[0]
    return raw.Card(vm, mac, address, re.findall(r"[0-9a-f:]{17}", said)[-1], gateway)


def send_frames(range_: Range, vm: str, sent: list[bytes]) -> None:
    sender = str(Path(range_.binary).parents[2] / "tests" / "rawsend")
    range_.ok("cp", sender, f"{range_.sandbox}/{vm}:/tmp/rawsend")
    said = range_.ok(
        *("exec", "-i", "--user", "root", "--vm", vm, range_.sandbox, "--"),
        *("sh", "-c", "chmod +x /tmp/rawsend; /tmp/rawsend eth0"),
        input="\n".join(frame.hex() for frame in sent),
    )
    assert said == str(len(sent))


def marks(captured: list[bytes]) -> set[bytes]:
    return {mark for frame in captured for mark in re.findall(rb"mk-\w+-\w+", frame)}
