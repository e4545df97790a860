"""A sandbox is handed over when its guests have their addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import SPEC, PveHome, add_template, instance

SCALE = 0.1
WAITS = "waiting for the addresses of default"
TWO_NICS: dict[str, Any] = {
    **SPEC,
    "vms": [{**SPEC["vms"][0], "nics": [{"vnet": "a"}, {"vnet": "b"}]}],
    "networks": {
        "vnets": [
            {
                "alias": alias,
                "subnets": [
                    {
                        "cidr": f"10.94.{i}.0/24",
                        "gateway": f"10.94.{i}.1",
                        "dhcp_ranges": [{"start": f"10.94.{i}.50", "end": f"10.94.{i}.99"}],
                    }
                ],
            }
            for i, alias in enumerate("ab")
        ]
    },
}


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05) as server:
        add_template(server)
        yield server


@pytest.fixture(autouse=True)
def quick(clean: PveServer) -> Iterator[None]:
    yield
    clean.control("dhcp_seconds", seconds=0)
    clean.control("task_seconds", kind="reloadnetworkall", seconds=0.05)


def asked(server: PveServer) -> int:
    return len([e for e in server.log() if e["path"].endswith("/network-get-interfaces")])


def addresses(server: PveServer, sandbox: str) -> list[str]:
    """Of a sandbox's only VM, as its guest tells."""
    (vmid,) = [i for i, vm in server.state()["vms"].items() if sandbox in vm["config"]["tags"]]
    path = f"/nodes/{server.node}/qemu/{vmid}/agent/network-get-interfaces"
    rows = Client(server).get(path)["result"]
    return [a["ip-address"] for row in rows[1:] for a in row.get("ip-addresses", [])]


def test_each_nic_has_its_address(home: PveHome, clean: PveServer) -> None:
    clean.control("dhcp_seconds", seconds=2)
    done = home.run("up", home.spec(TWO_NICS))
    assert done.returncode == 0
    assert WAITS in done.stderr
    assert [a.rsplit(".", 1)[0] for a in addresses(clean, done.stdout.strip())] == [
        "10.94.0",
        "10.94.1",
    ]
    home.ok("rm", done.stdout.strip())


def test_a_guest_that_takes_none_is_waited_for_in_bounds(clean: PveServer) -> None:
    home = PveHome(instance(clean), config="idle_exit: 0\nboot_timeout: 2\n")
    try:
        clean.control("dhcp_seconds", seconds=-1)
        done = home.run("up", home.spec(TWO_NICS), timeout=60)
        assert done.returncode == 0
        assert "default has no address at " in done.stderr
        assert addresses(clean, done.stdout.strip()) == []
        home.ok("rm", done.stdout.strip())
    finally:
        home.close()


def test_a_spec_need_not_wait(home: PveHome, clean: PveServer) -> None:
    clean.control("dhcp_seconds", seconds=-1)
    sandbox = home.up({**TWO_NICS, "native": {"wait_for_addresses": False}})
    assert asked(clean) == 0
    home.ok("rm", sandbox)
    assert "expected true or false" in home.fails(
        "up", home.spec({**TWO_NICS, "native": {"wait_for_addresses": "no"}})
    )


def test_networks_without_dhcp_are_not_waited_for(home: PveHome, clean: PveServer) -> None:
    nets = {"vnets": [{**net, "dhcp": False} for net in TWO_NICS["networks"]["vnets"]]}
    home.ok("rm", home.up({**TWO_NICS, "networks": nets}))
    home.ok("rm", home.up(SPEC))
    assert asked(clean) == 0


def test_networks_are_shown(home: PveHome, clean: PveServer) -> None:
    """Who is where, with the address that the server gave out and what may get out."""
    spec = json.loads(json.dumps(TWO_NICS))
    spec["vms"][0]["nics"][0].update(ipv4="10.94.0.77", mac="52:54:00:aa:bb:07")
    spec["networks"]["vnets"][1]["subnets"][0]["snat"] = True
    sandbox = home.up(spec)
    net = json.loads(home.ok("net", "--json", sandbox))
    assert [(v["alias"], v["egress"], v["dhcp"]) for v in net["vnets"]] == [
        ("a", "deny", True),
        ("b", "open", True),
    ]
    assert {v["id"] for v in net["vnets"]} <= set(clean.state()["vnets"])
    assert net["vnets"][0]["subnets"][0]["cidr"] == "10.94.0.0/24"
    first, second = net["nics"]
    assert (first["vm"], first["vnet"], first["ipv4"]) == ("default", "a", "10.94.0.77")
    assert [first["lease"], second["lease"]] == addresses(clean, sandbox)
    shown = home.ok("net", sandbox)
    assert second["lease"] in shown
    assert second["mac"] in shown
    assert "forwards no ports" in home.fails("forward", sandbox, "80")
    home.ok("rm", sandbox)


def test_a_template_s_own_nic_is_shown(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(SPEC)
    net = json.loads(home.ok("net", "--json", sandbox))
    assert net["vnets"] == []
    assert [(nic["vnet"], nic["lease"]) for nic in net["nics"]] == [("vmbr0", None)]
    home.ok("rm", sandbox)


def test_snapshots_are_listed(home: PveHome, clean: PveServer) -> None:
    two = {**SPEC, "vms": [{**SPEC["vms"][0], "name": name} for name in ("one", "two")]}
    sandbox = home.up(two)
    assert json.loads(home.ok("snapshots", "--json", sandbox))["snapshots"] == []
    # The second is no name for a server, which knows it by another.
    names = ["first", "before the second, and last, attempt"]
    for name in names:
        home.ok("snapshot", sandbox, name)
    listed = json.loads(home.ok("snapshots", "--json", sandbox))["snapshots"]
    assert sorted(one["name"] for one in listed) == sorted(names)
    assert all(one["vms"] == ["one", "two"] and one["created_us"] > 0 for one in listed)
    assert "first" in home.ok("snapshots", sandbox)
    home.ok("rm", sandbox)
