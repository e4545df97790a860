"""Networks of local sandboxes, as root and as an ordinary user: what works in them, and that nothing
gets out of them. The list of attempts is explained in docs/networks.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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

from tools import STRANGER, needs_root

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
        home.box = home.ok("up", home.spec(RANGE), timeout=900)
        home.other = home.ok("up", home.spec(OTHER), timeout=900)
        for box, vm in ((home.box, "router"), (home.box, "hermit"), (home.other, "other")):
            home.sh(box, vm, SERVE % vm)
        wait_for_lease = "for n in $(seq 100); do ip addr show eth0 | grep -q 'inet ' && exit; sleep 0.2; done; exit 1"
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
        "ip -4 addr show eth1; udhcpc -n -q -i eth1 -s /etc/init.d/lease >/dev/null "
        "2>&1; ip -4 addr show eth1",
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
        "ip addr add 10.99.0.2/24 dev eth1 2>/dev/null; ip link set eth1 up; echo 1 > "
        "/proc/sys/net/ipv4/ip_forward",
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
        f"echo a; {GET % 'mirror.example'}; echo b; {GET % 'www.forge.example'}; echo c; "
        f"{GET % LITERAL}",
    )
    assert said.count(BANNER) == 3, said


def test_open(range_: Range) -> None:
    said = range_.sh(
        range_.box, "tourist", f"{GET % 'evil.example'}; {GET % (EVIL + ':8080')}; {GET % MIRROR}"
    )
    assert said.count(BANNER) == 3, said


def tcp(address: str, port: int = 80) -> str:
    return f"echo | nc -w 5 {address} {port}"


def dns(server: str) -> str:
    """A question by UDP that an outside server would answer."""
    return f"timeout 5 nslookup evil.example {server} | grep -q {EVIL} && echo {BANNER}"


def resolves(name: str, address: str) -> str:
    return f"timeout 20 nslookup {name} | grep -q {address} && echo {BANNER}"


def pings(address: str) -> str:
    return f"ping -c 1 -w 5 {address} | grep -q ' 0% packet loss' && echo {BANNER}"


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
    "gateways of other networks": "; ".join(
        f"[ $GW = {a} ] || {{ {tcp(a)}; {pings(a)}; }}"
        for a in ("192.168.20.1", "192.168.30.1", "10.99.0.1")
    ),
    "IPv6 to the link-local address of the gateway": "ping6 -c 1 -w 5 -I eth0 $GW6"
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
        "ip addr add 192.168.77.1/24 dev tagged; ip link set tagged up;"
        f"{pings('192.168.77.2')}; ip link del tagged"
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
TAGGED = (
    "ip link add link {0} name tagged type vlan id 5; ip addr add 192.168.77.2/24 dev tagged;"
    "ip link set tagged up"
)


@pytest.mark.parametrize("vm", ATTEMPTS)
def test_nothing_gets_out(range_: Range, vm: str) -> None:
    gateway, at_once, alone = ATTEMPTS[vm]
    names = [*at_once, *alone]
    script = [
        f"exec 2>/dev/null; GW={gateway}; ping -c 1 -w 10 $GW >/dev/null",
        'GWMAC=$(arp -n | grep "($GW)" | grep -o "[0-9a-f:]\\{17\\}" | head -n 1); echo $GWMAC',
        'set -- $(echo $GWMAC | tr : " "); GW6=fe80::$(printf %x $((0x$1 ^ 2)))$2:$3ff:fe$4:$5$6',
    ]
    for number, attempt in enumerate([*at_once.values(), *alone.values()]):
        script.append(f"({attempt}) > /tmp/attempt.{number}{' &' if number < len(at_once) else ''}")
        if number == len(at_once) - 1:
            script.append("wait")
    script += [f"echo; echo == {n}; cat /tmp/attempt.{n}" for n in range(len(names))]
    # The neighbour has a card with that tag too, so that only the switch is between them.
    if vm != "tourist":
        range_.sh(range_.box, "router", TAGGED.format("eth0" if vm == "attacker" else "eth1"))
    said = range_.sh(range_.box, vm, "\n".join(script), timeout=1200)
    if vm != "tourist":
        range_.sh(range_.box, "router", "ip link del tagged")
    mac, *parts = said.split("\n== ")
    assert len(mac.split()[0]) == 17, said
    assert len(parts) == len(names), said
    assert "no tags" not in said
    assert [names[int(p.split()[0])] for p in parts if BANNER in p] == []


def test_the_listeners_work(range_: Range) -> None:
    for address in (HOST, HOST_TOO):
        assert range_.world.reaches(address, 8080), address
    for address in (*METADATA, PRIVATE, PRIVATE_TOO, EVIL, MIRROR, LITERAL):
        assert range_.world.reaches(address), address
    # And the guests are not just deaf: each gets at what it may, after all those attempts.
    assert BANNER in range_.sh(range_.box, "attacker", GET % "mirror.example")
    assert BANNER in range_.sh(range_.box, "tourist", GET % EVIL)
    assert "-router" in range_.sh(range_.box, "hermit", GET % "router")
