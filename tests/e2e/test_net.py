"""Networks of local sandboxes, as root and as an ordinary user.

What works in them, and that nothing gets out: docs/networks.md explains the list of attempts.
"""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from home import Home
from world import (
    BANNER,
    EVIL,
    FORGE,
    HOST,
    HOST_TOO,
    LITERAL,
    METADATA,
    MIRROR,
    PRIVATE,
    PRIVATE_TOO,
    ROUTER,
    World,
    WorldHome,
)

from tools import STRANGER, needs_root, until

pytestmark = needs_root

SMALL = {"source": "tiny", "ram_mb": 192, "vcpus": 1}


def subnet(net: str, **more: Any) -> dict[str, Any]:
    start, end = f"{net}.100", f"{net}.110"
    return {"cidr": f"{net}.0/24", "dhcp_ranges": [{"start": start, "end": end}], **more}


def nic(vnet: str, last: int, ipv4: str) -> dict[str, Any]:
    return {"vnet": vnet, "mac": f"52:54:00:00:00:{last:02x}", "ipv4": ipv4}


# lan has a short list of what it may reach, free may reach everything, shut nothing. The router
# between lan and shut is a VM.
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
                "subnets": [subnet("192.168.20", gateway="192.168.20.1", snat=True)],
            },
            {
                "alias": "free",
                "egress": "open",
                "subnets": [subnet("192.168.30", gateway="192.168.30.1", snat=True)],
            },
            {"alias": "shut", "subnets": [subnet("10.99.0", gateway="10.99.0.1")]},
        ]
    },
    "vms": [
        {
            **SMALL,
            "name": "router",
            "await_before_next_vm": True,
            "nics": [nic("lan", 2, "192.168.20.2"), nic("shut", 3, "10.99.0.2")],
        },
        {**SMALL, "name": "attacker"},
        {**SMALL, "name": "tourist", "nics": [{"vnet": "free"}], "nic_controller": "e1000"},
        {**SMALL, "name": "hermit", "nics": [nic("shut", 5, "10.99.0.5")]},
    ],
}
# The same addresses at the same time.
OTHER: dict[str, Any] = {
    "networks": {"vnets": [{"alias": "lan", "subnets": [subnet("192.168.20")]}]},
    "vms": [{**SMALL, "name": "other", "nics": [nic("lan", 9, "192.168.20.9")]}],
}
SERVE = f"mkdir -p /tmp/w; echo {BANNER}-$(hostname)-%s > /tmp/w/index.html; httpd -p 80 -h /tmp/w"
GET = "timeout 20 wget -q -O - http://%s/ || echo failed"


class Range(WorldHome):
    box: str
    other: str


@pytest.fixture(scope="module", params=[0, STRANGER], ids=["root", "user"])
def range_(request: pytest.FixtureRequest, images: None) -> Iterator[Range]:
    root = Home()
    image = Path(json.loads(root.ok("image", "inspect", "tiny", "--json"))["dir"])
    root.close()
    world = World()
    home = Range(world, request.param, image)
    try:
        spec = copy.deepcopy(RANGE)
        spec["networks"]["vnets"][0]["capture"] = str(home.dir / "life-of-{id}.pcap")
        home.box = home.ok("up", home.spec(spec), timeout=900)
        home.other = home.ok("up", home.spec(OTHER), timeout=900)
        for box, vm in ((home.box, "router"), (home.box, "hermit"), (home.other, "other")):
            home.sh(box, vm, SERVE % vm)
        wait_for_lease = (
            "for n in $(seq 300); do ip addr show eth0 | grep -q 'inet ' && exit; sleep 0.2; done;"
            "exit 1"
        )
        for vm in ("attacker", "tourist", "router", "hermit"):
            home.sh(home.box, vm, wait_for_lease)
        home.sh(home.other, "other", wait_for_lease)
        yield home
    finally:
        home.close()
        world.close()


def test_leases_are_from_the_range_or_reserved(range_: Range) -> None:
    addresses = {
        vm: range_.sh(range_.box, vm, "ip -4 -o addr show eth0").split()[3]
        for vm in ("attacker", "tourist", "router", "hermit")
    }
    assert addresses["router"] == "192.168.20.2/24"
    assert addresses["hermit"] == "10.99.0.5/24"
    assert addresses["attacker"] == "192.168.20.100/24"
    assert addresses["tourist"] == "192.168.30.100/24"
    assert "10.99.0.2/24" in range_.sh(
        range_.box,
        "router",
        "udhcpc -n -q -i eth1 -s /etc/init.d/lease >/dev/null 2>&1; ip -4 addr show eth1",
    )


def test_vms_find_and_serve_each_other_by_name(range_: Range) -> None:
    said = range_.sh(
        range_.box,
        "attacker",
        f"ping -c 1 -w 10 router; {GET % 'router'}; {GET % 'router.internal'}",
    )
    assert " 0% packet loss" in said
    assert said.count(f"{BANNER}-") == 2
    assert said.count("-router") >= 2
    back = range_.sh(range_.box, "router", "nslookup 192.168.20.100 | grep -o 'attacker.internal'")
    assert "attacker.internal" in back


def test_a_router_vm_connects_two_networks(range_: Range) -> None:
    range_.sh(
        range_.box,
        "router",
        "ip addr add 10.99.0.2/24 dev eth1 2>/dev/null; ip link set eth1 up;"
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
    )
    range_.sh(range_.box, "hermit", "ip route add 192.168.20.0/24 via 10.99.0.2")
    direct = range_.sh(range_.box, "attacker", f"{GET % '10.99.0.5'} 2>&1")
    assert BANNER not in direct
    range_.sh(range_.box, "attacker", "ip route add 10.99.0.0/24 via 192.168.20.2")
    assert "-hermit" in range_.sh(range_.box, "attacker", GET % "10.99.0.5")


def test_same_addresses_in_two_sandboxes(range_: Range) -> None:
    # Each reaches itself under an address that both have, and nobody sees the other's.
    assert "-other" in range_.sh(range_.other, "other", GET % "192.168.20.9")
    assert BANNER not in range_.sh(range_.box, "attacker", f"{GET % '192.168.20.9'} 2>&1")
    assert BANNER not in range_.sh(range_.other, "other", f"{GET % '192.168.20.2'} 2>&1")


def test_allow_list(range_: Range) -> None:
    said = range_.sh(
        range_.box,
        "attacker",
        f"{GET % 'mirror.example'}; {GET % 'www.forge.example'}; {GET % LITERAL}",
    )
    assert said.count(BANNER) == 3, said


def test_open(range_: Range) -> None:
    said = range_.sh(
        range_.box, "tourist", f"{GET % 'evil.example'}; {GET % (EVIL + ':8080')}; {GET % MIRROR}"
    )
    assert said.count(BANNER) == 3, said


def tcp(address: str, port: int = 80) -> str:
    return f"echo | nc -w 3 {address} {port}"


def dns(server: str) -> str:
    """A question by UDP that an outside server would answer."""
    return f"timeout 3 nslookup evil.example {server} | grep -q {EVIL} && echo {BANNER}"


def resolves(name: str, address: str) -> str:
    return f"timeout 15 nslookup {name} | grep -q {address} && echo {BANNER}"


def pings(address: str) -> str:
    return f"ping -c 1 -w 3 {address} | grep -q ' 0% packet loss' && echo {BANNER}"


# What a guest tries whatever its network's policy; each must come to nothing. These at once:
EVERYWHERE = {
    **{f"the host at {a}:{p}": tcp(a, p) for a in (HOST, HOST_TOO) for p in (80, 8080)},
    **{f"DNS of the host at {a}": dns(a) for a in (HOST, HOST_TOO)},
    **{f"metadata at {a}": tcp(a) for a in METADATA},
    **{f"DNS at metadata {a}": dns(a) for a in METADATA},
    **{f"the laboratory at {a}": tcp(a) for a in (PRIVATE, PRIVATE_TOO)},
    "the other sandbox": tcp("192.168.20.9"),
    "the link to the outside": f"{tcp('192.0.0.1')}; {tcp('192.0.0.2')}",
    "ports of the gateway": f"{tcp('$GW')}; {tcp('$GW', 8080)}; {tcp('$GW', 53)}",
    **{
        f"{a}, if it is another network's gateway": f"[ $GW = {a} ] || {{ {tcp(a)}; {pings(a)}; }}"
        for a in ("192.168.20.1", "192.168.30.1", "10.99.0.1")
    },
    "IPv6 to the link-local address of the gateway": "ping6 -c 1 -w 3 -I eth0 $GW6"
    f" | grep -q ' 0% packet loss' && echo {BANNER}",
}
LISTED = {
    "a name that is not listed": resolves("evil.example", EVIL),
    "a name above a listed one": resolves("forge.example", FORGE),
    "a listed name that leads to metadata": resolves("metadata.forge.example", METADATA[0]),
    "a listed name that leads to the laboratory": resolves("private.forge.example", PRIVATE),
    "a listed name that leads to the host": resolves("host.forge.example", HOST),
    "an address that is not listed": tcp(EVIL),
    "a listed address at another port": tcp(MIRROR, 8080),
    "a listed network at another port": tcp(LITERAL, 8080),
    "another DNS server": dns(ROUTER),
    "DNS at an address outside": dns(EVIL),
}
SHUT = {
    "any name": resolves("mirror.example", MIRROR),
    "any address": f"{tcp(MIRROR)}; {tcp(LITERAL)}",
    "any DNS server": dns(ROUTER),
    "ping": pings(MIRROR),
}
# And these, which change the guest's own network, one after the other:
ALONE = {
    "loopback of the other side": "ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.1 via $GW;"
    f"{tcp('127.0.0.1', 8080)}; ip addr add 127.0.0.1/8 dev lo",
    "metadata on the link, by ARP for the gateway": (
        f"ip route add {METADATA[0]}/32 dev eth0; arp -s {METADATA[0]} $GWMAC; {tcp(METADATA[0])};"
        f"ip route del {METADATA[0]}/32 dev eth0"
    ),
    "the host on the link, by ARP for the gateway": (
        f"ip route add {HOST}/32 dev eth0; arp -s {HOST} $GWMAC; {tcp(HOST, 8080)};"
        f"ip route del {HOST}/32 dev eth0"
    ),
    "the host from an address of the host": (
        f"ip addr add {HOST_TOO}/32 dev eth0; ip route add {HOST}/32 via $GW src {HOST_TOO};"
        f"{tcp(HOST, 8080)}; ip route del {HOST}/32; ip addr del {HOST_TOO}/32 dev eth0"
    ),
    "the outside from an address of another network": (
        f"ip addr add 172.31.0.1/32 dev eth0; ip route add {EVIL}/32 via $GW src 172.31.0.1;"
        f"{tcp(EVIL)}; ip route del {EVIL}/32; ip addr del 172.31.0.1/32 dev eth0"
    ),
    "IPv6 metadata": (
        "ip -6 neigh add $GW6 lladdr $GWMAC dev eth0; ip -6 addr add fd00:ec2::1/64 dev eth0;"
        "ip -6 route add default via $GW6 dev eth0;"
        f"ip -6 neigh add fd00:ec2::254 lladdr $GWMAC dev eth0; {tcp('fd00:ec2::254')}"
    ),
    "with the MAC address of the gateway": (
        "OLD=$(cat /sys/class/net/eth0/address); ip link set eth0 down;"
        "ip link set eth0 address $GWMAC; ip link set eth0 up; ip route add default via $GW;"
        f"{tcp(HOST, 8080)}; {tcp(METADATA[0])}; ip link set eth0 down;"
        "ip link set eth0 address $OLD; ip link set eth0 up; ip route add default via $GW"
    ),
    "a neighbour, with a VLAN tag": (
        "ip link add link eth0 name tagged type vlan id 5 || echo no tags;"
        "ip addr add $TAG.1/24 dev tagged; ip link set tagged up;"
        f"{pings('$TAG.2')}; ip link del tagged"
    ),
}
THROUGH_ROUTER = {
    "out through the router VM": (
        f"ip route add {MIRROR}/32 via 10.99.0.2; {tcp(MIRROR)}; ip route del {MIRROR}/32"
    ),
}
ATTEMPTS = {
    "attacker": ("192.168.20.1", {**EVERYWHERE, **LISTED}, ALONE),
    "tourist": ("192.168.30.1", EVERYWHERE, ALONE),
    "hermit": ("10.99.0.1", {**EVERYWHERE, **SHUT}, {**ALONE, **THROUGH_ROUTER}),
}
# The router has cards with the tag too, so that only the switch is between them and the others.
TAGGED = "".join(
    f"ip link add link {card} name tag{card} type vlan id 5; ip addr add {net}.2/24 dev tag{card};"
    f"ip link set tag{card} up;"
    for card, net in (("eth0", "192.168.77"), ("eth1", "192.168.78"))
)


def attempts_of(vm: str) -> tuple[list[str], str]:
    """What is tried there, and a script that tries it."""
    gateway, at_once, alone = ATTEMPTS[vm]
    script = [
        f"exec 2>/dev/null; GW={gateway}; ping -c 1 -w 10 $GW >/dev/null",
        f"TAG=192.168.{78 if vm == 'hermit' else 77}",
        'GWMAC=$(arp -n | grep "($GW)" | grep -o "[0-9a-f:]\\{17\\}" | head -n 1); echo $GWMAC',
        'set -- $(echo $GWMAC | tr : " "); GW6=fe80::$(printf %x $((0x$1 ^ 2)))$2:$3ff:fe$4:$5$6',
    ]
    for number, attempt in enumerate([*at_once.values(), *alone.values()]):
        script.append(f"({attempt}) > /tmp/attempt.{number}{' &' if number < len(at_once) else ''}")
        if number == len(at_once) - 1:
            script.append("wait")
    names = [*at_once, *alone]
    script += [f"echo; echo == {n}; cat /tmp/attempt.{n}" for n in range(len(names))]
    return names, "\n".join(script)


def test_nothing_gets_out(range_: Range) -> None:
    range_.sh(range_.box, "router", TAGGED)
    tries = {vm: attempts_of(vm) for vm in ATTEMPTS}
    with ThreadPoolExecutor() as pool:
        running = {
            vm: pool.submit(range_.sh, range_.box, vm, script) for vm, (_, script) in tries.items()
        }
        said = {vm: one.result() for vm, one in running.items()}
    for vm, (names, _) in tries.items():
        mac, *parts = said[vm].split("\n== ")
        assert len(mac.split()[0]) == 17, said[vm]
        assert len(parts) == len(names), said[vm]
        assert "no tags" not in said[vm]
        assert [names[int(p.split()[0])] for p in parts if BANNER in p] == [], vm


def test_the_listeners_work(range_: Range) -> None:
    for address in (HOST, HOST_TOO):
        assert range_.world.reaches(address, 8080), address
    for address in (*METADATA, PRIVATE, PRIVATE_TOO, EVIL, MIRROR, LITERAL):
        assert range_.world.reaches(address), address
    # And the guests are not just deaf: each gets at what it may, after all those attempts.
    assert BANNER in range_.sh(range_.box, "attacker", GET % "mirror.example")
    assert BANNER in range_.sh(range_.box, "tourist", GET % EVIL)
    assert "-router" in range_.sh(range_.box, "hermit", GET % "router")


def test_what_was_refused_is_told(range_: Range) -> None:
    refused = json.loads(range_.ok("logs", "--net", "--json", range_.box))
    names = {(one["vnet"], one["name"]) for one in refused["names"]}
    assert {("lan", "evil.example"), ("lan", "forge.example"), ("shut", "mirror.example")} <= names
    reasons = {one["name"]: one["why"] for one in refused["names"]}
    assert reasons["metadata.forge.example"] == "leads to a forbidden address"
    connections = {
        (one["vnet"], one["from"], one["to"], one["protocol"], one["port"])
        for one in refused["connections"]
    }
    for vnet, address in (("lan", "192.168.20.100"), ("free", "192.168.30.100")):
        assert (vnet, address, METADATA[0], "tcp", 80) in connections
        assert (vnet, address, HOST, "tcp", 8080) in connections
    assert ("free", "192.168.30.100", EVIL, "tcp", 80) not in connections, "that is allowed there"
    table = range_.ok("logs", "--net", range_.box)
    assert re.search(r"lan +- +evil.example +dns", table)


def test_a_network_can_be_seen(range_: Range) -> None:
    net = json.loads(range_.ok("net", "--json", range_.box))
    assert [vnet["alias"] for vnet in net["vnets"]] == ["lan", "free", "shut"]
    assert [vnet["egress"] for vnet in net["vnets"]][1:] == ["open", "deny"]
    assert net["vnets"][0]["egress"]["allow"]["domains"] == ["mirror.example", "*.forge.example"]
    leases = {(nic["vm"], nic["vnet"]): nic["lease"] for nic in net["nics"]}
    assert leases["attacker", "lan"] == "192.168.20.100"
    assert leases["hermit", "shut"] == "10.99.0.5"
    table = range_.ok("net", range_.box)
    assert re.search(r"lan +192.168.20.0/24 +192.168.20.1 .*allow mirror.example", table)
    assert re.search(r"hermit +0 +shut +52:54:00:00:00:05 +10.99.0.5 +10.99.0.5", table)
    picture = ElementTree.fromstring(range_.ok("net", "--svg", range_.box))
    texts = " ".join(filter(None, (element.text for element in picture.iter())))
    for word in ("attacker", "router", "10.99.0.5", "192.168.30.0/24"):
        assert word in texts
    assert '"vm hermit" -- "net shut" [label="10.99.0.5"];' in range_.ok("net", "--dot", range_.box)


def test_forwarded_ports(range_: Range) -> None:
    host, port = range_.ok("forward", range_.box, "hermit", "80").split(":")
    assert host == "127.0.0.1"
    assert range_.world.reaches("127.0.0.1", int(port))
    chosen = range_.ok("forward", range_.box, "router", f"80:{int(port) % 60000 + 1024}")
    listed = range_.ok("forward", range_.box)
    assert re.search(rf"127.0.0.1:{port} +hermit +80", listed)
    assert re.search(rf"{chosen} +router +80", listed)
    assert "in use" in range_.fails("forward", range_.box, "router", f"80:{port}")
    range_.ok("forward", "--remove", port, range_.box)
    assert not range_.world.reaches("127.0.0.1", int(port))
    assert "is not forwarded" in range_.fails("forward", "--remove", port, range_.box)


def frames(data: bytes) -> Iterator[bytes]:
    assert struct.unpack("<I", data[:4]) == (0xA1B23C4D,)
    assert struct.unpack("<I", data[20:24]) == (1,), "Ethernet"
    at = 24
    while at + 16 <= len(data):
        (length,) = struct.unpack("<I", data[at + 8 : at + 12])
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def test_captures(range_: Range) -> None:
    path = range_.dir / "now.pcap"
    with (range_.dir / "capture.err").open("w") as said:
        capture = range_.start("capture", "-o", str(path), range_.box, "lan", stderr=said)
    until(lambda: path.exists() and path.stat().st_size >= 24, "the header")
    ping = "ping -c 3 -s 99 -p 6d -w 60 {} | grep -q ' 0% packet loss'"
    range_.sh(range_.box, "attacker", ping.format("router"))
    range_.sh(range_.box, "attacker", ping.format("192.168.20.1"))
    range_.sh(range_.box, "tourist", ping.format("192.168.30.1"))
    until(lambda: path.read_bytes().count(b"m" * 80) >= 12, "all pings and their answers")
    for pid, line in range_.processes().items():
        if " capture -o " in line:
            os.kill(pid, signal.SIGINT)
    assert capture.wait(60) == 0
    pings = [frame for frame in frames(path.read_bytes()) if b"m" * 80 in frame]
    assert len(pings) == 12, "each request and each answer once"
    ends = {frame[26:34] for frame in pings}
    assert bytes([192, 168, 20, 100, 192, 168, 20, 2]) in ends
    assert bytes([192, 168, 20, 1, 192, 168, 20, 100]) in ends
    assert not any(end[:3] == bytes([192, 168, 30]) for end in ends), "another network's"
    # The other one has been there since before the guests were.
    life = list(frames((range_.dir / f"life-of-{range_.box}.pcap").read_bytes()))
    assert any(b"\x63\x82\x53\x63" in frame for frame in life), "DHCP"
    assert "is there already" in range_.fails("up", range_.spec(captured(range_)))


def captured(range_: Range) -> dict[str, Any]:
    path = str(range_.dir / f"life-of-{range_.box}.pcap")
    return {**OTHER, "networks": {"vnets": [{"alias": "lan", "capture": path}]}, "vms": [SMALL]}


def pids(home: Home, word: str) -> list[int]:
    return [pid for pid, line in home.processes().items() if line.startswith(word)]


def test_dead_helpers_are_replaced(range_: Range) -> None:
    for word in ("dnsmasq", "pasta"):
        before = pids(range_, word)
        assert before, word
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        until(lambda b=before, w=word: len(pids(range_, w)) == len(b), f"{word} is back")
        assert not set(before) & set(pids(range_, word))
    until(lambda: BANNER in range_.sh(range_.box, "attacker", GET % LITERAL), "the way out is back")
    renew = "udhcpc -n -q -t 20 -i eth0 -s /etc/init.d/lease 2>&1"
    assert "192.168.20.100" in range_.sh(range_.box, "attacker", renew)
    assert BANNER not in range_.sh(range_.box, "attacker", f"{tcp(HOST, 8080)} 2>&1; true")


def test_a_dead_holder_fails_the_sandbox_loudly(range_: Range) -> None:
    holders = [
        pid
        for pid, line in range_.processes().items()
        if f"-name moat-{range_.other}/net" in line and " guard " not in line
    ]
    assert holders
    os.kill(max(holders), signal.SIGKILL)
    until(lambda: range_.run("exec", range_.other, "true").returncode != 0, "it fails")
    assert "network ended" in range_.fails("exec", range_.other, "true")
    range_.ok("rm", range_.other)
    assert range_.ok("exec", range_.box, "echo", "alive") == "alive"


def test_a_host_that_cannot(range_: Range) -> None:
    """Where the device for taps is closed to an ordinary user, up says what doctor says."""
    tun = range_.world.dir / "tun"
    tun.chmod(0o600)
    try:
        checks = json.loads(range_.run("doctor", "--json").stdout)["checks"]
        (network, *_) = [check for check in checks if check["name"] == "networks"]
        if range_.uid == 0:
            assert network["state"] == "ok"
            return
        words = f"{network['detail']}: {network['fix']}"
        assert words == "/dev/net/tun: Permission denied: sudo chmod 666 /dev/net/tun"
        assert words in range_.fails("up", range_.spec(OTHER))
        # One NIC that nobody else is connected to needs no network.
        alone = range_.ok("up", range_.spec({"vms": [SMALL]}))
        assert "eth0" in range_.sh(alone, "default", "ls /sys/class/net")
        assert "no network that could be looked into" in range_.fails("net", alone)
        range_.ok("rm", alone)
    finally:
        tun.chmod(0o666)


def test_nothing_is_left(range_: Range) -> None:
    range_.kill_daemon()
    until(lambda: not range_.qemu_pids(), "the VMs end")
    range_.ok("ls")  # the next daemon forgets them
    range_.assert_nothing_left()
    until(lambda: not pids(range_, "dnsmasq") and not pids(range_, "pasta"), "helpers end")
    left = [line for line in range_.processes().values() if "net-holder" in line]
    assert left == []
