"""The firewall around a sandbox, on a server whose firewall is on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import SPEC, TEMPLATE, PveHome, add_template, instance, left

SCALE = 0.1
PRIVATE = [  # and metadata services
    ("DROP", "fd00:ec2::254"),
    (
        "DROP",
        "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,169.254.0.0/16,168.63.129.16",
    ),
]
# A rule that a user has given the template: it would open every sandbox.
OPEN = {"type": "out", "action": "ACCEPT", "enable": 1, "comment": "the template's"}


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05) as server:
        add_template(server)
        client = Client(server)
        assert client.call("PUT", "/cluster/firewall/options", {"enable": 1}).status == 200
        rules = f"/nodes/{server.node}/qemu/{TEMPLATE}/firewall/rules"
        assert client.call("POST", rules, OPEN).status == 200
        yield server


@pytest.fixture
def clean(pve: PveServer) -> Iterator[PveServer]:
    """Nothing may be there after the test that was not there before it."""
    pve.clear()
    before = left(pve)
    firewalls = pve.state()["firewall"]
    yield pve
    pve.clear()
    assert left(pve) == before
    assert pve.state()["firewall"] == firewalls


def closed(snat: bool, *, dhcp: bool = False) -> dict[str, Any]:
    """Two networks and a VM in both."""
    vnets = []
    for i, alias in enumerate(("one", "two")):
        net = f"10.98.{i}"
        subnet: dict[str, Any] = {"cidr": f"{net}.0/24", "gateway": f"{net}.1", "snat": snat}
        if dhcp:
            subnet["dhcp_ranges"] = [{"start": f"{net}.50", "end": f"{net}.99"}]
        vnets.append({"alias": alias, "subnets": [subnet]})
    nics = [{"vnet": "one"}, {"vnet": "two"}]
    return {
        **SPEC,
        "vms": [{**SPEC["vms"][0], "name": "a", "nics": nics}],
        "networks": {"vnets": vnets},
    }


def firewall_of(server: PveServer, sandbox: str) -> dict[str, Any]:
    state = server.state()
    (vmid,) = [i for i, vm in state["vms"].items() if sandbox in vm["config"].get("tags", "")]
    assert "firewall=1" in state["vms"][vmid]["config"]["net0"]
    firewall: dict[str, Any] = state["firewall"][f"vm/{vmid}"]
    return firewall


def shown(rules: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What rules say; of comments those of others only, since ours are marks."""
    assert all(rule["type"] == "out" and rule["enable"] == 1 for rule in rules)
    return [
        tuple(
            str(rule[key])
            for key in ("action", "dest", "proto", "dport", "comment")
            if key in rule and not str(rule[key]).startswith("moat-")
        )
        for rule in rules
    ]


NETWORKS = [
    ("DROP", "10.98.0.1"),
    ("DROP", "10.98.1.1"),
    ("ACCEPT", "10.98.0.0/24"),
    ("ACCEPT", "10.98.1.0/24"),
]
TEMPLATES = ("ACCEPT", "the template's")


def test_the_first_rule_that_fits_decides(home: PveHome, clean: PveServer) -> None:
    """A rule against the node precedes that for its network; all precede the template's."""
    sandbox = home.up(closed(snat=True))
    firewall = firewall_of(clean, sandbox)
    dns = Client(clean).get(f"/nodes/{clean.node}/dns")["dns1"]
    names = [("ACCEPT", dns, "udp", "53"), ("ACCEPT", dns, "tcp", "53")]
    assert shown(firewall["rules"]) == [*NETWORKS, *names, *PRIVATE, TEMPLATES]
    assert firewall["options"]["enable"] == 1
    assert firewall["options"]["policy_out"] == "ACCEPT"
    home.ok("rm", sandbox)


@pytest.mark.parametrize("dns", ["127.0.0.53", "169.254.169.254", "2001:db8::1"])
def test_names_where_guests_cannot_ask_whom_the_node_asks(
    home: PveHome, clean: PveServer, dns: str
) -> None:
    """DHCP tells guests to ask the node for names: that much of it they may reach."""
    clean.control("node", node=clean.node, dns=dns)
    try:
        sandbox = home.up(closed(snat=True, dhcp=True))
        assert not [s for s in clean.state()["subnets"].values() if s.get("dhcp-dns-server")]
        names = [
            ("ACCEPT", f"10.98.{i}.1", proto, "53") for i in range(2) for proto in ("udp", "tcp")
        ]
        firewall = firewall_of(clean, sandbox)
        assert shown(firewall["rules"]) == [*names, *NETWORKS, *PRIVATE, TEMPLATES]
        home.ok("rm", sandbox)
    finally:
        clean.control("node", node=clean.node, dns="192.0.2.1")


def test_without_a_way_out_there_is_none(home: PveHome, clean: PveServer) -> None:
    """Neither the policy nor what a template allows lets anything out."""
    sandbox = home.up(closed(snat=False))
    firewall = firewall_of(clean, sandbox)
    assert shown(firewall["rules"]) == [*NETWORKS, ("DROP",), TEMPLATES]
    assert firewall["options"]["policy_out"] == "DROP"
    home.ok("rm", sandbox)


@pytest.mark.parametrize("call", ["rules", "options"])
def test_no_vm_starts_with_half_of_its_rules(home: PveHome, clean: PveServer, call: str) -> None:
    skip = 3 if call == "rules" else 0
    verb = "POST" if call == "rules" else "PUT"
    clean.fault(path=f"/qemu/[0-9]+/firewall/{call}$", method=verb, skip=skip)
    assert "firewall" in home.fails("up", home.spec(closed(snat=True)))
    assert not [e for e in clean.log() if e["path"].endswith("/status/start")]
    home.assert_nothing_left()


def test_the_rules_are_there_before_the_vm_starts(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(closed(snat=True))
    calls = [(e["method"], e["path"].rsplit("/", 2)[-2:]) for e in clean.log()]
    start = calls.index(("POST", ["status", "start"]))
    assert calls[:start].count(("POST", ["firewall", "rules"])) == 8
    assert ("PUT", ["firewall", "options"]) in calls[:start]
    assert not [c for c in calls[start:] if "firewall" in c[1]]
    home.ok("rm", sandbox)


def test_a_vm_with_rules_of_its_own_is_left_to_them(home: PveHome, clean: PveServer) -> None:
    of_user = closed(snat=True)
    of_user["vms"][0]["firewall"] = True
    sandbox = home.up(of_user)
    assert shown(firewall_of(clean, sandbox)["rules"]) == [TEMPLATES]
    home.ok("rm", sandbox)


def test_a_server_whose_firewall_is_off_gets_no_rules(clean: PveServer) -> None:
    client = Client(clean)
    client.call("PUT", "/cluster/firewall/options", {"enable": 0})
    other = PveHome(instance(clean))
    try:
        sandbox = other.up(closed(snat=True))
        assert not [e for e in clean.log() if e["path"].endswith("/firewall/rules")]
        other.ok("rm", sandbox)
    finally:
        client.call("PUT", "/cluster/firewall/options", {"enable": 1})
        other.close()
