"""A sandbox is handed over when its guests have their addresses."""

from __future__ import annotations

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
