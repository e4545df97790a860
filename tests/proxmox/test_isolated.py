"""Sandboxes that reach nothing but themselves: isolated networks of the older plugin."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import PveHome, add_template, instance, left
from proxmoxsandbox._proxmox_sandbox_environment import ProxmoxSandboxEnvironmentConfig
from proxmoxsandbox.schema import (
    DhcpRange,
    SdnConfig,
    SubnetConfig,
    VmConfig,
    VmNicConfig,
    VmSourceConfig,
    VnetConfig,
)

OPTIONS = "/cluster/firewall/options"


@pytest.fixture
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=0.1, task_time=0.05) as server:
        add_template(server)
        yield server


def subnet(number: int) -> SubnetConfig:
    base = f"10.7.{number}"
    addresses = DhcpRange(start=ip_address(f"{base}.50"), end=ip_address(f"{base}.99"))
    return SubnetConfig(
        cidr=ip_network(f"{base}.0/24"),
        gateway=ip_address(f"{base}.1"),
        snat=False,
        dhcp_ranges=(addresses,),
    )


def isolated() -> dict[str, Any]:
    """The sandbox of an eval for that plugin: two networks; the template has a NIC elsewhere."""
    source = VmSourceConfig(existing_vm_template_tag="base")
    config = ProxmoxSandboxEnvironmentConfig(
        sdn_config=SdnConfig(
            vnet_configs=(
                VnetConfig(alias="one", subnets=(subnet(1),)),
                VnetConfig(alias="two", subnets=(subnet(2),)),
            ),
            isolated=True,
        ),
        vms_config=(
            VmConfig(vm_source_config=source, name="a", ram_mb=512, firewall=True),
            VmConfig(
                vm_source_config=source,
                name="b",
                ram_mb=512,
                nics=(VmNicConfig(vnet_alias="two"),),
                is_sandbox=False,
            ),
        ),
    )
    return config.to_spec()


def test_it_is_refused_where_nothing_enforces_it(pve: PveServer) -> None:
    before = left(pve)
    admin = Client(pve)
    home = PveHome(instance(pve))
    try:
        told = home.fails("up", home.spec(isolated()))
        assert "native.isolated" in told
        assert "the firewall of one is off" in told
        # A firewall that has just been turned off does not count, either.
        assert admin.call("PUT", OPTIONS, {"enable": 1}).status == 200
        home.ok("rm", home.up(isolated()))
        assert admin.call("PUT", OPTIONS, {"enable": 0}).status == 200
        assert "is off" in home.fails("up", home.spec(isolated()))
        assert left(pve) == before
    finally:
        home.close()


def test_it_reaches_its_own_networks_only(pve: PveServer) -> None:
    assert Client(pve).call("PUT", OPTIONS, {"enable": 1}).status == 200
    home = PveHome(instance(pve))
    try:
        sandbox = home.up(isolated())
        state = pve.state()
        vms = {
            vmid: vm["config"]
            for vmid, vm in state["vms"].items()
            if sandbox in vm["config"].get("tags", "")
        }
        assert sorted(config["name"] for config in vms.values()) == ["a", "b"]
        assert not any(entry["snat"] for entry in state["subnets"].values())
        for vmid, config in vms.items():
            cards = {key: text for key, text in config.items() if key.startswith("net")}
            assert list(cards) == ["net0"]
            # Not the template's, which is on a bridge of the node.
            assert "vmbr0" not in cards["net0"]
            assert "firewall=1" in cards["net0"]
            firewall = state["firewall"][f"vm/{vmid}"]
            assert firewall["options"]["enable"] == 1
            assert firewall["options"]["policy_out"] == "DROP"
            out = [rule for rule in firewall["rules"] if rule["type"] == "out"]
            assert {r["dest"] for r in out if r["action"] == "ACCEPT"} == {
                "10.7.1.0/24",
                "10.7.2.0/24",
            }
            # The gateways are the node itself; and the last one is for everything.
            dropped = [r.get("dest") for r in out if r["action"] == "DROP"]
            assert dropped == ["10.7.1.1", "10.7.2.1", None]
            assert out[-1]["action"] == "DROP"
            assert all(rule["enable"] for rule in out)
        home.ok("rm", sandbox)
    finally:
        home.close()
