"""What evals and test suites for the older plugins import, and what they are refused."""

from __future__ import annotations

import importlib
import logging
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util import SandboxEnvironmentSpec

from inspect_moat import ProxmoxSandboxEnvironment
from inspect_moat._inspect_private import PrerequisiteError
from proxmoxsandbox.experimental import ctf4, snapshots
from proxmoxsandbox.schema import (
    DhcpRange,
    ProxmoxSandboxEnvironmentConfig,
    SdnConfig,
    SdnConfigType,
    SubnetConfig,
    VmConfig,
    VmSourceConfig,
    VnetConfig,
)
from vagrantsandbox import vagrant_sandbox_provider as vagrant

TEMPLATE = VmSourceConfig(existing_vm_template_tag="lab")


def network(number: int, *, ranges: bool) -> VnetConfig:
    base = f"10.7.{number}"
    given = DhcpRange(start=ip_address(f"{base}.10"), end=ip_address(f"{base}.20"))
    subnet = SubnetConfig(
        cidr=ip_network(f"{base}.0/24"),
        gateway=ip_address(f"{base}.1"),
        snat=False,
        dhcp_ranges=(given,) if ranges else (),
    )
    return VnetConfig(alias=f"net{number}", subnets=(subnet,))


def spec_of(*vms: VmConfig, **sdn: Any) -> dict[str, Any]:
    networks: SdnConfigType = SdnConfig(**sdn) if sdn else "auto"
    config = ProxmoxSandboxEnvironmentConfig(vms_config=vms, sdn_config=networks)
    return ProxmoxSandboxEnvironment.to_spec(config)


@pytest.mark.parametrize(
    ("ranges", "served", "text"),
    [((False, False), True, "dhcp_ranges"), ((False, True), False, "use_pve_ipam_dnsnmasq=False")],
)
def test_dhcp_that_contradicts_itself(ranges: tuple[bool, ...], served: bool, text: str) -> None:
    vnets = tuple(network(i, ranges=one) for i, one in enumerate(ranges))
    with pytest.raises(ValueError, match=text):
        spec_of(
            VmConfig(vm_source_config=TEMPLATE), vnet_configs=vnets, use_pve_ipam_dnsnmasq=served
        )


def test_dhcp_in_one_of_two_networks() -> None:
    vnets = (network(0, ranges=False), network(1, ranges=True))
    spec = spec_of(VmConfig(vm_source_config=TEMPLATE), vnet_configs=vnets)
    assert len(spec["networks"]["vnets"]) == 2


def test_too_many_networks() -> None:
    vnets = tuple(network(i, ranges=True) for i in range(11))
    with pytest.raises(ValueError, match="11 vnets"):
        spec_of(VmConfig(vm_source_config=TEMPLATE), vnet_configs=vnets)


@pytest.mark.parametrize("kind", ["win10", None])
def test_a_built_in_system_is_what_it_is(kind: Any) -> None:
    source = VmSourceConfig(built_in="debian13")
    with pytest.raises(ValueError, match=r"vms_config\[0\].os_type"):
        spec_of(VmConfig(vm_source_config=source, os_type=kind))


def test_what_the_template_has_and_more() -> None:
    more = {"cloud_init": {"user_data": "#cloud-config"}, "native": {"machine": "q35", "vga": None}}
    vm = VmConfig.model_validate(
        {"vm_source_config": TEMPLATE, "ram_mb": None, "vcpus": None, **more}
    )
    (made,) = spec_of(vm)["vms"]
    assert made["native"] == {"machine": "q35", "vga": None, "memory": None, "cores": None}
    assert made["cloud_init"] == {"user_data": "#cloud-config"}
    assert "ram_mb" not in made
    assert hash(vm) == hash(vm.model_copy())


def test_the_example_of_snapshots() -> None:
    task = snapshots.try_snapshots()
    assert task.dataset[0].target == snapshots.example_dataset[0].target
    assert task.sandbox == SandboxEnvironmentSpec("proxmox", ProxmoxSandboxEnvironmentConfig())


def test_the_capture_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctf4, "user_cache_path", lambda _: tmp_path)
    with pytest.raises(PrerequisiteError, match=r"ctf4\.ova"):
        ctf4.ctf4()
    (tmp_path / "ctf4.ova").touch()
    task = ctf4.ctf4()
    assert task.sandbox is not None
    config = task.sandbox.config
    assert isinstance(config, ProxmoxSandboxEnvironmentConfig)
    names = [vm["name"] for vm in ProxmoxSandboxEnvironment.to_spec(config)["vms"]]
    assert names == ["agent", "victim"]


def test_the_log_has_where_a_sample_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect logs what other packages say only if their loggers let it through."""
    assert ProxmoxSandboxEnvironment.logger.isEnabledFor(logging.INFO)
    logging.getLogger("proxmoxsandbox").setLevel(logging.ERROR)  # as its user wants it
    try:
        importlib.reload(importlib.import_module("proxmoxsandbox.schema"))
        assert not ProxmoxSandboxEnvironment.logger.isEnabledFor(logging.INFO)
    finally:
        logging.getLogger("proxmoxsandbox").setLevel(logging.INFO)


def test_names_that_test_suites_for_vagrant_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSPECT_MAX_VAGRANT_STARTUPS", raising=False)
    assert vagrant._get_max_vagrant_startups() is None
    assert vagrant._startup_semaphore() is not None
    monkeypatch.setenv("INSPECT_MAX_VAGRANT_STARTUPS", "3")
    assert vagrant._get_max_vagrant_startups() == 3
