"""How many MAC addresses a NIC that sees several VLANs can make its bridge learn.

By the rules alone, as they are made for such a bridge: not every kernel has bridges that filter by
VLAN, and what they learn is what the rules let in.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_root("it makes a network")

GOLDEN = Path(__file__).parents[1] / "golden" / "net" / "vlans.txt"

# In a network namespace of its own. t1 is the NIC that sends; what comes out at t0 was let in.
INSIDE = r"""
import json, socket, struct, subprocess, sys

def run(*words, text=None):
    return subprocess.run(words, input=text, check=True, capture_output=True, text=True).stdout

rules, own = sys.argv[1:]
with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as setting:
    setting.write("1")  # nobody but us sends
run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
for name in ("t0", "t1", "t2"):
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "far-" + name)
    run("ip", "link", "set", "far-" + name, "up")
for name in ("t0", "t1"):
    run("ip", "link", "set", name, "master", "br0", "up")
run("ip", "link", "set", "br0", "up")
run("nft", "-f", "-", text=rules)
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("far-t1", 0))
receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
receiver.bind(("far-t0", 0))

def passes(mac, vlan, number):
    tag = struct.pack(">HH", 0x8100, vlan) if vlan else b""
    mark = b"frame-%06d" % number
    sender.send(b"\xff" * 6 + mac + tag + b"\x88\xb5" + mark.ljust(46, b"\0"))
    receiver.settimeout(0.002)
    try:
        while mark not in receiver.recv(2000):
            pass
    except OSError:
        return False
    return True

def mac(number):
    return b"\x02\0\0\0" + struct.pack(">H", number)

own = bytes.fromhex(own.replace(":", ""))
number = iter(range(10**6))
# The bridge needs a moment until its ports forward.
while not passes(own, 0, next(number)):
    pass
found = {
    "own": [passes(own, vlan, next(number)) for vlan in range(1, 101)],
    "pairs": [passes(mac(n), 1 + n % 40, next(number)) for n in range(200)],
    "vlans of one": [passes(mac(1), vlan, next(number)) for vlan in range(1, 201)],
    "plain": [passes(mac(1000 + n), 0, next(number)) for n in range(200)],
    "again": [passes(mac(n), 1 + n % 40, next(number)) for n in range(64)],
}
for name in ("tagged1", "macs1"):
    listed = json.loads(run("nft", "-j", "list", "set", "bridge", "moat", name))
    found[name] = len(listed["nftables"][1]["set"].get("elem", []))
found["learned"] = run("bridge", "fdb", "show", "br", "br0").count("dev t1 master")
print(json.dumps(found))
"""


def test_a_nic_that_sees_all_vlans_has_few_addresses() -> None:
    text = GOLDEN.read_text()
    rules = text[text.index("table bridge moat") :].split("\n}\n")[0] + "\n}\n"
    own = rules.split('"t1" . ')[1][:17]
    command = ["unshare", "--net", sys.executable, "-c", INSIDE, rules, own]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found["own"]), "its own address is free in every VLAN"
    # Pairs of address and VLAN: the first 64, and no more afterwards.
    assert found["pairs"] == [True] * 64 + [False] * 136
    assert sum(found["vlans of one"]) == 1, "the pair that it has already"
    assert found["plain"] == [True] * 64 + [False] * 136, "those without a tag are counted apart"
    assert all(found["again"]), "what has its place keeps it"
    assert found["tagged1"] == found["macs1"] == 64
    assert found["learned"] <= 2 * 64 + 2
