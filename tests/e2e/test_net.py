"""Networks of local sandboxes, as root and as an ordinary user.

What works in them, and that nothing gets out: docs/networks.md explains the list of attempts.
"""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import frames as raw
import pytest
from attempts import ATTEMPTS, TAGGED, ask_by_tcp, attempts_of, question, tcp
from home import Home
from ranges import (
    GET,
    OTHER,
    OWN_MAC,
    RANGE,
    SERVE,
    SMALL,
    Range,
    card_of,
    frames,
    helpers,
    holders,
    inhabitants,
    marks,
    pids,
    send_frames,
)
from world import (
    BANNER,
    EVIL,
    HOST,
    HOST6,
    HOST_BROADCAST,
    HOST_TOO,
    LAST,
    LITERAL,
    MANY,
    METADATA,
    METADATA6,
    MIRROR,
    PRIVATE,
    PRIVATE_TOO,
    World,
)

from tools import STRANGER, namespace, until

pytestmark = pytest.mark.needs_root("it makes networks")


@pytest.fixture(scope="module", params=[0, STRANGER], ids=["root", "user"])
def range_(request: pytest.FixtureRequest, images: None) -> Iterator[Range]:
    root = Home()
    root.ok("image", "build", "tiny-disk", timeout=1800)
    image = Path(json.loads(root.ok("image", "inspect", "tiny", "--json"))["dir"])
    root.close()
    world = World()
    home = Range(world, request.param, image)
    try:
        world.listen()
        spec = copy.deepcopy(RANGE)
        spec["networks"]["vnets"][0]["capture"] = str(home.dir / "life-of-{id}.pcap")
        if request.param:  # disks work the same for every user, and a BIOS starts slowly from one
            del spec["vms"][1]["disk_controller"]
            spec["vms"][1]["source"] = "tiny"
        done = home.run("up", home.spec(spec), timeout=900)
        assert done.returncode == 0, done.stderr
        home.sandbox, home.said = done.stdout.strip(), done.stderr.splitlines()
        home.other = home.ok("up", home.spec(OTHER), timeout=900)
        for sandbox, vm in (
            (home.sandbox, "router"),
            (home.sandbox, "hermit"),
            (home.other, "other"),
        ):
            home.sh(sandbox, vm, SERVE % vm)
        wait_for_lease = (
            "for n in $(seq 300); do ip addr show eth0 | grep -q 'inet ' && exit; sleep 0.2; done;"
            "exit 1"
        )
        for vm in ("attacker", "tourist", "router", "hermit"):
            home.sh(home.sandbox, vm, wait_for_lease)
        home.sh(home.other, "other", wait_for_lease)
        yield home
    finally:
        home.close()
        world.close()


def test_leases_are_from_the_range_or_reserved(range_: Range) -> None:
    addresses = {
        vm: range_.sh(range_.sandbox, vm, "ip -4 -o addr show eth0").split()[3]
        for vm in ("attacker", "tourist", "router", "hermit")
    }
    assert addresses["router"] == "192.168.20.2/24"
    assert addresses["hermit"] == "10.99.0.5/24"
    assert addresses["attacker"] == "192.168.20.100/24"
    assert addresses["tourist"] == "192.168.30.100/24"
    assert "10.99.0.2/24" in range_.sh(
        range_.sandbox,
        "router",
        "udhcpc -n -q -i eth1 -s /etc/init.d/lease >/dev/null 2>&1; ip -4 addr show eth1",
    )


def test_vms_find_and_serve_each_other_by_name(range_: Range) -> None:
    said = range_.sh(
        range_.sandbox,
        "attacker",
        f"ping -c 1 -w 60 router; {GET % 'router'}; {GET % 'router.internal'}",
    )
    assert " 0% packet loss" in said
    assert said.count(f"{BANNER}-") == 2
    assert said.count("-router") >= 2
    back = range_.sh(
        range_.sandbox, "router", "nslookup 192.168.20.100 | grep -o 'attacker.internal'"
    )
    assert "attacker.internal" in back


def test_a_router_vm_connects_two_networks(range_: Range) -> None:
    range_.sh(
        range_.sandbox,
        "router",
        "ip addr add 10.99.0.2/24 dev eth1 2>/dev/null; ip link set eth1 up;"
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
    )
    range_.sh(range_.sandbox, "hermit", "ip route add 192.168.20.0/24 via 10.99.0.2")
    direct = range_.sh(range_.sandbox, "attacker", f"{GET % '10.99.0.5'} 2>&1")
    assert BANNER not in direct
    range_.sh(range_.sandbox, "attacker", "ip route add 10.99.0.0/24 via 192.168.20.2")
    assert "-hermit" in range_.sh(range_.sandbox, "attacker", GET % "10.99.0.5")


def test_same_addresses_in_two_sandboxes(range_: Range) -> None:
    # Both have the same address: each reaches itself under it, and never the other.
    assert "-other" in range_.sh(range_.other, "other", GET % "192.168.20.9")
    assert BANNER not in range_.sh(range_.sandbox, "attacker", f"{GET % '192.168.20.9'} 2>&1")
    assert BANNER not in range_.sh(range_.other, "other", f"{GET % '192.168.20.2'} 2>&1")


def test_vlans_are_apart(range_: Range) -> None:
    for vm, card, last in (("router", "eth3", 1), ("attacker", "eth1", 2), ("hermit", "eth1", 3)):
        range_.sh(
            range_.sandbox, vm, f"ip addr add 172.20.0.{last}/24 dev {card}; ip link set {card} up"
        )
    reach = "ping -c 3 -W {} 172.20.0.{} >/dev/null && echo reached || true"
    assert range_.sh(range_.sandbox, "attacker", reach.format(20, 1)) == "reached"
    assert range_.sh(range_.sandbox, "hermit", reach.format(2, 1)) == ""
    assert range_.sh(range_.sandbox, "router", reach.format(2, 3)) == ""


def test_a_kernel_that_cannot_tell_vlans(range_: Range) -> None:
    """A NIC that sees all VLANs and one that is in one of them need a kernel that filters VLANs."""
    spec = copy.deepcopy(OTHER)
    spec["networks"]["vnets"][0]["vlan_aware"] = True
    spec["vms"][0]["nics"].append({"vnet": "lan", "vlan_tag": 7})
    checks = json.loads(range_.run("doctor", "--json").stdout)["checks"]
    faults = [check for check in checks if check["name"] == "vlans"]
    inside = ["unshare", "--net", "ip", "link", "add", "br0", "type", "bridge"]
    can = subprocess.run([*inside, "vlan_filtering", "1"], capture_output=True, check=False)
    if can.returncode == 0:
        assert faults == []
        range_.ok("rm", range_.ok("up", range_.spec(spec), timeout=900))
        return
    assert f"{faults[0]['detail']}; to fix it: {faults[0]['fix']}" in range_.fails(
        "up", range_.spec(spec)
    )
    assert "VLAN" in faults[0]["detail"]


def test_dns_by_tcp(range_: Range) -> None:
    """An answer too long for UDP is fetched by TCP, and its addresses are opened."""
    assert BANNER not in range_.sh(range_.sandbox, "attacker", f"{tcp(LAST)} 2>&1; true")
    many, local, evil = (question(n) for n in ("many.forge.example", "router", "evil.example"))
    ask = ask_by_tcp("192.168.20.1", many, local, evil)
    said = bytes.fromhex(range_.sh(range_.sandbox, "attacker", ask))
    answers = []
    while said:
        (length,) = struct.unpack(">H", said[:2])
        answers.append(said[2 : 2 + length])
        said = said[2 + length :]
    flags = [struct.unpack(">HHHH", answer[:8]) for answer in answers]
    assert [(f[1] & 0x20F, f[3]) for f in flags] == [(0, len(MANY)), (0, 1), (5, 0)]
    assert all(socket.inet_aton(address) in answers[0] for address in MANY)
    assert socket.inet_aton("192.168.20.2") in answers[1]
    assert BANNER in range_.sh(range_.sandbox, "attacker", GET % LAST)
    # The answer by UDP is marked as truncated, so the resolver asks again by TCP.
    assert "203.0.112.1" in range_.sh(
        range_.sandbox, "attacker", "nslookup many.forge.example; true"
    )
    # A guest that opens connections and sends nothing does not keep others out.
    hog = "for n in $(seq 90); do sleep 30 | nc 192.168.20.1 53 & done; sleep 3;"
    after = range_.sh(range_.sandbox, "attacker", f"{hog} {ask_by_tcp('192.168.20.1', local)}")
    assert socket.inet_aton("192.168.20.2").hex() in after


def test_allow_list(range_: Range) -> None:
    said = range_.sh(
        range_.sandbox,
        "attacker",
        f"{GET % 'mirror.example'}; {GET % 'www.forge.example'}; {GET % LITERAL}",
    )
    assert said.count(BANNER) == 3, said


def test_open(range_: Range) -> None:
    said = range_.sh(
        range_.sandbox,
        "tourist",
        f"{GET % 'evil.example'}; {GET % (EVIL + ':8080')}; {GET % MIRROR}",
    )
    assert said.count(BANNER) == 3, said


def test_nothing_gets_out(range_: Range) -> None:
    range_.sh(range_.sandbox, "router", TAGGED)
    tries = {vm: attempts_of(vm) for vm in ATTEMPTS}
    with ThreadPoolExecutor() as pool:
        running = {
            vm: pool.submit(range_.sh, range_.sandbox, vm, script)
            for vm, (_, script) in tries.items()
        }
        said = {vm: one.result() for vm, one in running.items()}
    for vm, (names, _) in tries.items():
        mac, *parts = said[vm].split("\n== ")
        assert len(mac.split()[0]) == 17, said[vm]
        assert len(parts) == len(names), said[vm]
        assert "no tags" not in said[vm]
        assert [names[int(p.split()[0])] for p in parts if BANNER in p] == [], vm
    # No query that left contained the names, though other queries did leave.
    range_.sh(
        range_.sandbox, "tourist", "timeout 20 nslookup -type=txt leak-control.evil.example; true"
    )
    until(lambda: any(b"leak-control" in f for f in range_.world.heard()), "a question is heard")
    leaked = {w for f in range_.world.heard() for w in re.findall(rb"leak-[a-z]+", f)}
    assert leaked == {b"leak-control"}


def ip_in(pid: int, *args: str) -> str:
    """Output of `ip` in the network namespace of a process."""
    command = ["nsenter", "-t", str(pid), "--net", "ip", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def connections_to_the_marked_port(range_: Range) -> int:
    port = struct.pack(">H", raw.MARKED_PORT)
    return sum(frame[36:38] == port for frame in range_.world.heard())


def test_no_frame_gets_out(range_: Range) -> None:
    """Forged sources, tags, fragments, multicast, IPv6 and so on: what no honest program sends."""
    others = {"attacker": "192.168.30.100", "tourist": "192.168.20.100", "hermit": "192.168.20.100"}
    allowed = {"attacker": LITERAL, "tourist": EVIL, "hermit": ""}
    watched = {range_.sandbox: ["lan", "free", "shut"], range_.other: ["lan"]}
    captures = {}
    for sandbox, vnets in watched.items():
        for vnet in vnets:
            path = range_.dir / f"marks-{sandbox}-{vnet}.pcap"
            captures[sandbox, vnet] = path
            range_.start("capture", "-o", str(path), sandbox, vnet, stderr=subprocess.DEVNULL)
    until(lambda: all(p.exists() and p.stat().st_size >= 24 for p in captures.values()), "captures")
    names: dict[str, list[str]] = {}
    for vm, (gateway, _) in ATTEMPTS.items():
        card = card_of(range_, vm, gateway)
        away = "10.99.0.1" if vm != "hermit" else "192.168.20.1"
        to = raw.Targets(
            HOST,
            HOST_TOO,
            HOST_BROADCAST,
            HOST6,
            METADATA,
            METADATA6,
            EVIL,
            others[vm],
            away,
            LITERAL if vm == "attacker" else "",
        )
        tries = raw.attempts(card, to)
        if vm == "tourist":  # it may send to EVIL, by whatever name
            tries = {n: f for n, f in tries.items() if EVIL not in n}
        names[vm] = [*tries]
        sent = [frame for some in tries.values() for frame in some]
        # The last frame is allowed: when it arrives, all before it were judged.
        last = allowed[vm] or gateway
        sent.append(raw.plain(card, last, card.gateway_mac, f"mk-fine-{vm}.".encode()))
        send_frames(range_, vm, sent)
    until(
        lambda: {b"mk-fine-attacker", b"mk-fine-tourist"} <= marks(range_.world.heard()),
        "what may get out is heard outside",
    )
    assert marks(range_.world.heard()) == {b"mk-fine-attacker", b"mk-fine-tourist"}, names
    # What became a connection carries no mark. A host's own is heard.
    assert connections_to_the_marked_port(range_) == 0
    knock = f"import socket;socket.socket().connect_ex(({EVIL!r},{raw.MARKED_PORT}))"
    subprocess.run([*range_.world.host.enter(), sys.executable, "-c", knock], check=True)
    until(lambda: connections_to_the_marked_port(range_), "a connection is heard")
    own = {"lan": b"attacker", "free": b"tourist", "shut": b"hermit"}
    until(
        lambda: all(
            b"mk-fine-" + own[vnet] in marks([captures[range_.sandbox, vnet].read_bytes()])
            for vnet in own
        ),
        "each network has seen its own",
    )
    for (sandbox, vnet), path in captures.items():
        seen = {mark.split(b"-")[2] for mark in marks([path.read_bytes()])}
        assert seen == ({own[vnet]} if sandbox == range_.sandbox else set()), vnet
    for pid, line in range_.processes().items():
        if " capture -o " in line:
            os.kill(pid, signal.SIGINT)
    # No advertised route was used.
    for pid in pids(range_, "dnsmasq"):
        assert ip_in(pid, "-6", "addr") == ""
        assert HOST not in ip_in(pid, "route")


def test_a_guest_is_few_neighbours(range_: Range) -> None:
    """The kernel has one table of neighbours for all namespaces: no guest may fill it."""
    gateway = "10.99.0.1"
    card = card_of(range_, "hermit", gateway)
    (network, *_) = helpers(range_, range_.sandbox, "dnsmasq")
    sent = []
    for last in range(10, 250):
        ping = raw.ipv4(f"10.99.0.{last}", gateway, raw.icmp(8, 0, bytes(4)), raw.ICMP)
        sent.append(raw.arp(card, 1, f"10.99.0.{last}", gateway, b""))
        sent.append(raw.ether(card.gateway_mac, card.mac, 0x800, ping))
    send_frames(range_, "hermit", sent)
    assert 10 < ip_in(network, "neigh", "show", "nud", "all").count("10.99.0.") < 100
    # The sandbox's own NICs can still use the network.
    for vm in ("hermit", "router"):
        ping = f"arp -d {gateway}; ping -c 1 -w 30 {gateway} >/dev/null && echo reached"
        assert "reached" in range_.sh(range_.sandbox, vm, ping)


def test_the_listeners_work(range_: Range) -> None:
    for address in (HOST, HOST_TOO):
        assert range_.world.reaches(address, 8080), address
    assert range_.world.reaches(HOST6)
    assert range_.world.reaches(METADATA6)
    for address in (*METADATA, PRIVATE, PRIVATE_TOO, EVIL, MIRROR, LITERAL):
        assert range_.world.reaches(address), address
    # After all those attempts, each guest still reaches what it may reach.
    assert BANNER in range_.sh(range_.sandbox, "attacker", GET % "mirror.example")
    assert BANNER in range_.sh(range_.sandbox, "tourist", GET % EVIL)
    assert "-router" in range_.sh(range_.sandbox, "hermit", GET % "router")


def test_what_was_refused_is_told(range_: Range) -> None:
    refused = json.loads(range_.ok("logs", "--net", "--json", range_.sandbox))
    names = {(one["vnet"], one["name"]) for one in refused["names"]}
    assert {("lan", "evil.example"), ("lan", "forge.example"), ("shut", "mirror.example")} <= names
    reasons = {one["name"]: one["why"] for one in refused["names"]}
    assert reasons["metadata.forge.example"] == "leads to a forbidden address"
    connections = {
        (one["vnet"], one["from"], one["to"], one["protocol"], one["port"])
        for one in refused["connections"]
    }
    attacker = ("lan", "192.168.20.100")
    for vnet, address in (attacker, ("free", "192.168.30.100")):
        assert (vnet, address, METADATA[0], "tcp", 80) in connections
        assert (vnet, address, HOST, "tcp", 8080) in connections
    assert ("free", "192.168.30.100", EVIL, "tcp", 80) not in connections, "that is allowed there"
    # Not even an error about a connection that is allowed.
    assert (*attacker, LITERAL, "icmp", None) in connections
    # Broadcasts of DHCP are not counted as attempts of a guest.
    assert not [one for one in connections if one[0] in ("lan", "free", "shut") and one[4] == 68]
    table = range_.ok("logs", "--net", range_.sandbox)
    assert re.search(r"lan +- +evil.example +dns", table)


def test_a_network_can_be_seen(range_: Range) -> None:
    net = json.loads(range_.ok("net", "--json", range_.sandbox))
    assert [vnet["alias"] for vnet in net["vnets"]] == ["lan", "free", "shut", "own", "tags"]
    assert [vnet["egress"] for vnet in net["vnets"]][1:] == ["open", "deny", "deny", "deny"]
    assert net["vnets"][0]["egress"]["allow"]["domains"] == ["mirror.example", "*.forge.example"]
    leases = {(nic["vm"], nic["vnet"]): nic["lease"] for nic in net["nics"]}
    assert leases["attacker", "lan"] == "192.168.20.100"
    assert leases["hermit", "shut"] == "10.99.0.5"
    table = range_.ok("net", range_.sandbox)
    assert re.search(r"lan +192.168.20.0/24 +192.168.20.1 .*allow mirror.example", table)
    assert re.search(r"hermit +0 +shut +52:54:00:00:00:05 +10.99.0.5 +10.99.0.5", table)
    picture = ElementTree.fromstring(range_.ok("net", "--svg", range_.sandbox))
    texts = " ".join(filter(None, (element.text for element in picture.iter())))
    for word in ("attacker", "router", "10.99.0.5", "192.168.30.0/24", "*.forge.example"):
        assert word in texts
    assert '"vm hermit" -- "net shut" [label="10.99.0.5"];' in range_.ok(
        "net", "--dot", range_.sandbox
    )


def test_forwarded_ports(range_: Range) -> None:
    host, port = range_.ok("forward", range_.sandbox, "hermit", "80").split(":")
    assert host == "127.0.0.1"
    assert range_.world.reaches("127.0.0.1", int(port))
    chosen = range_.ok("forward", range_.sandbox, "router", f"80:{int(port) % 60000 + 1024}")
    listed = range_.ok("forward", range_.sandbox)
    assert re.search(rf"127.0.0.1:{port} +hermit +80", listed)
    assert re.search(rf"{chosen} +router +80", listed)
    assert "in use" in range_.fails("forward", range_.sandbox, "router", f"80:{port}")
    range_.ok("forward", "--remove", port, range_.sandbox)
    assert not range_.world.reaches("127.0.0.1", int(port))
    assert "is not forwarded" in range_.fails("forward", "--remove", port, range_.sandbox)


def until_victim(range_: Range, condition: Callable[[], Any], what: str) -> None:
    """Waits for the victim, for which `up` does not wait; shows how far it has booted if not."""
    try:
        until(condition, what, 900)
    except AssertionError as never:
        console = range_.ok("logs", "--vm", "victim", range_.sandbox)
        raise AssertionError(f"{never}\n{range_.ok('ls', '--json')}\n{console}") from never


def test_subnets_of_a_network_reach_each_other(range_: Range) -> None:
    """The victim, without an agent, with an IDE disk and an e1000, is in the other subnet."""
    ping = "ping -c 3 -W 10 victim >/dev/null && echo got-it; true"
    until_victim(
        range_,
        lambda: "got-it" in range_.sh(range_.sandbox, "attacker", ping),
        "the victim answers the attacker",
    )
    assert "192.168.21.9" in range_.sh(range_.sandbox, "attacker", "nslookup victim")
    way = range_.sh(range_.sandbox, "attacker", "traceroute -n -q 1 -m 3 -w 5 victim 2>&1")
    assert "192.168.20.1" in way, "through the gateway"
    stranger = "ping -c 1 -W 3 192.168.21.9 && echo got-it; true"
    assert "got-it" not in range_.sh(range_.sandbox, "tourist", stranger)
    news = [line for line in range_.said if line.split()[0] in ("starting", "waiting")]
    assert news.index("waiting for router") < news.index("starting victim")
    assert "waiting for victim" not in news


def test_a_vm_serves_dhcp(range_: Range) -> None:
    conf = "interface eth2\\nstart 10.43.0.50\\nend 10.43.0.60\\nlease_file /tmp/leases\\n"
    range_.sh(
        range_.sandbox,
        "router",
        "kill $(cat /run/udhcpc.eth2.pid) 2>/dev/null; ip addr add 10.43.0.1/24 dev eth2;"
        f"ip link set eth2 up; touch /tmp/leases; printf '{conf}' > /tmp/udhcpd.conf;"
        "udhcpd -S /tmp/udhcpd.conf",
    )
    # Its DHCP client keeps asking; the ping proves that it took the address.
    answered = "ping -c 2 -W 5 10.43.0.50 >/dev/null && arp -n | grep '(10.43.0.50)'"
    until_victim(
        range_,
        lambda: OWN_MAC in range_.sh(range_.sandbox, "router", f"{answered}; true"),
        "the victim has an address of the router's",
    )
    shown = json.loads(range_.ok("net", "--json", range_.sandbox))
    assert [v["dhcp"] for v in shown["vnets"] if v["alias"] == "own"] == [False]


def test_captures(range_: Range) -> None:
    path = range_.dir / "now.pcap"
    with (range_.dir / "capture.err").open("w") as said:
        capture = range_.start("capture", "-o", str(path), range_.sandbox, "lan", stderr=said)
    until(lambda: path.exists() and path.stat().st_size >= 24, "the header")
    ping = "ping -c 3 -s 99 -p 6d -w 60 {} | grep -q ' 0% packet loss'"
    range_.sh(range_.sandbox, "attacker", ping.format("router"))
    range_.sh(range_.sandbox, "attacker", ping.format("192.168.20.1"))
    range_.sh(range_.sandbox, "tourist", ping.format("192.168.30.1"))
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
    # The capture of the spec began before the guests did.
    life = list(frames((range_.dir / f"life-of-{range_.sandbox}.pcap").read_bytes()))
    assert any(b"\x63\x82\x53\x63" in frame for frame in life), "DHCP"
    assert "is there already" in range_.fails("up", range_.spec(captured(range_)))


def captured(range_: Range) -> dict[str, Any]:
    path = str(range_.dir / f"life-of-{range_.sandbox}.pcap")
    return {**OTHER, "networks": {"vnets": [{"alias": "lan", "capture": path}]}, "vms": [SMALL]}


def test_what_is_not_listed_is_counted(range_: Range) -> None:
    """A guest may try more destinations than can be listed; the number of further ones is shown."""
    gateway, room = "10.99.0.1", 4096
    card = card_of(range_, "hermit", gateway)
    sent = [raw.ipv4(card.address, gateway, raw.udp(1000 + n, b"")) for n in range(room + 100)]
    send_frames(
        range_, "hermit", [raw.ether(card.gateway_mac, card.mac, 0x800, packet) for packet in sent]
    )
    refused = json.loads(range_.ok("logs", "--net", "--json", range_.sandbox))["connections"]
    more = {one["vnet"]: one["count"] for one in refused if one["to"] is None}
    assert more.get("shut", 0) >= 100
    assert re.search(r"shut +- +and more +- +- +\d+", range_.ok("logs", "--net", range_.sandbox))


def test_dead_helpers_are_replaced(range_: Range) -> None:
    for word in ("dnsmasq", "pasta"):
        before = pids(range_, word)
        assert before, word
        for pid in before:
            os.kill(pid, signal.SIGKILL)

        def replaced(old: list[int] = before, word: str = word) -> bool:
            now = pids(range_, word)  # a killed one may need a moment to end
            return len(now) == len(old) and not set(now) & set(old)

        until(replaced, f"{word} is back")
    until(lambda: BANNER in range_.sh(range_.sandbox, "attacker", GET % LITERAL), "egress is back")
    renew = "udhcpc -n -q -t 20 -i eth0 -s /etc/init.d/lease 2>&1"
    assert "192.168.20.100" in range_.sh(range_.sandbox, "attacker", renew)
    assert BANNER not in range_.sh(range_.sandbox, "attacker", f"{tcp(HOST, 8080)} 2>&1; true")


def test_a_dead_holder_fails_the_sandbox_loudly(range_: Range) -> None:
    (dhcp,) = helpers(range_, range_.other, "dnsmasq")
    network = namespace(dhcp, "net")
    assert "dnsmasq\n" in inhabitants(network)
    os.kill(max(holders(range_, range_.other)), signal.SIGKILL)
    until(lambda: range_.run("exec", range_.other, "true").returncode != 0, "it fails")
    assert range_.fails("exec", range_.other, "true").endswith("network ended")
    until(lambda: inhabitants(network) == [], "its network is gone")
    range_.ok("rm", range_.other)
    assert range_.ok("exec", range_.sandbox, "echo", "alive") == "alive"


def test_a_helper_that_keeps_dying_fails_the_sandbox_loudly(range_: Range) -> None:
    sandbox = range_.ok("up", range_.spec(OTHER), timeout=900)
    network = ""
    for _ in range(5):
        (victim,) = until(lambda: helpers(range_, sandbox, "dnsmasq"), "it is back")
        network = namespace(victim, "net")
        os.kill(victim, signal.SIGKILL)
        until(lambda v=victim: v not in helpers(range_, sandbox, "dnsmasq"), "it is gone")
    until(lambda: range_.run("exec", sandbox, "true").returncode != 0, "it fails")
    assert "dnsmasq ended 5 times" in range_.fails("exec", sandbox, "true")
    until(lambda: inhabitants(network) == [], "its network is gone")
    range_.ok("rm", sandbox)


def test_a_host_that_cannot(range_: Range) -> None:
    """If an ordinary user may not open /dev/net/tun, `up` fails with doctor's text."""
    tun = range_.world.dir / "tun"
    tun.chmod(0o600)
    try:
        checks = json.loads(range_.run("doctor", "--json").stdout)["checks"]
        (network, *_) = [check for check in checks if check["name"] == "networks"]
        if range_.uid == 0:
            assert network["state"] == "ok"
            return
        words = f"{network['detail']}; to fix it: {network['fix']}"
        assert words == (
            "/dev/net/tun cannot be opened: Permission denied; "
            "to fix it: sudo chmod 666 /dev/net/tun"
        )
        assert words in range_.fails("up", range_.spec(OTHER))
        # A NIC without a vnet needs no holder.
        done = range_.run("up", range_.spec({"vms": [SMALL]}))
        alone = done.stdout.strip()
        # It is said before the VM starts, and again when it is up.
        assert done.stderr.index(f"no vnet: network: {words}") < done.stderr.index("starting")
        assert "moat: default: its NIC leads nowhere, and moat net, forward" in done.stderr
        assert "eth0" in range_.sh(alone, "default", "ls /sys/class/net")
        assert "has no vnet: this host could not make one" in range_.fails("net", alone)
        range_.ok("rm", alone)
    finally:
        tun.chmod(0o666)


def test_nothing_is_left(range_: Range) -> None:
    network = namespace(pids(range_, "dnsmasq")[0], "net")
    range_.kill_daemon()
    until(lambda: not range_.qemu_pids(), "the VMs end")
    until(lambda: inhabitants(network) == [], "the network is gone")
    range_.ok("ls")  # the next daemon removes their journal entries
    range_.assert_nothing_left()
    until(lambda: not pids(range_, "dnsmasq") and not pids(range_, "pasta"), "helpers end")
    until(
        lambda: not [line for line in range_.processes().values() if "net-holder" in line],
        "holders end",
    )
