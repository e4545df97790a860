"""The configuration models: what they refuse, what they say about it, what they send."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util import SandboxEnvironmentSpec
from pydantic import ValidationError

from inspect_moat import (
    HealthCheck,
    MoatSandboxEnvironmentConfig,
    Networks,
    Subnet,
    VmConfig,
    VmNic,
    VmSource,
    Vnet,
)
from inspect_moat._config import describe

LAN: dict[str, Any] = {
    "vnets": [{"alias": "lan", "subnets": [{"cidr": "10.1.0.0/24", "gateway": "10.1.0.1"}]}]
}
MAC = "52:54:00:00:00:01"


def vm(**fields: Any) -> dict[str, Any]:
    return {"source": "tiny", **fields}


def test_nothing_given_is_one_vm_of_the_default_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOAT_DEFAULT_IMAGE", raising=False)
    assert MoatSandboxEnvironmentConfig().to_spec() == {
        "driver": "qemu",
        "vms": [{"source": {"image": "debian12"}}],
    }
    monkeypatch.setenv("MOAT_DEFAULT_IMAGE", "tiny")
    assert MoatSandboxEnvironmentConfig().vms[0].source.image == "tiny"


def test_spec_of_a_full_configuration() -> None:
    config = MoatSandboxEnvironmentConfig(
        vms=(
            VmConfig(
                source=VmSource(image="tiny"),
                name="attacker",
                ram_mb=256,
                nics=(VmNic.model_validate({"vnet": "lan", "mac": MAC, "ipv4": "10.1.0.9"}),),
                depends_on=("victim",),
            ),
            VmConfig(
                source=VmSource(ova=Path("/images/victim.ova")),
                name="victim",
                is_sandbox=False,
                nics=(),
                healthcheck=HealthCheck(test=("true",), interval=0.5),
                native={"machine": "q35"},
            ),
        ),
        networks=Networks.model_validate(LAN),
    )
    spec = config.to_spec()
    assert json.loads(json.dumps(spec)) == spec
    assert spec["vms"][0]["nics"] == [{"vnet": "lan", "mac": MAC, "ipv4": "10.1.0.9"}]
    assert spec["vms"][1]["source"] == {"ova": "/images/victim.ova"}
    assert spec["vms"][1]["nics"] == []
    assert spec["vms"][1]["healthcheck"] == {"test": ["true"], "interval": 0.5}
    assert spec["networks"]["vnets"][0]["subnets"][0]["cidr"] == "10.1.0.0/24"


def test_no_network_is_not_the_default_network() -> None:
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": [vm()], "networks": None})
    assert config.to_spec()["networks"] is None


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"vms": [vm(ram=5)]}, "vms[0].ram: "),
        ({"vms": [vm(ram_mb="512")]}, "vms[0].ram_mb: "),
        ({"vms": [vm(user=True)]}, "vms[0].user: "),
        ({"vms": [vm(nics=[{"mac": MAC}])]}, "vms[0].nics[0].vnet: Field required"),
        ({"vms": [vm(nics=[{"vnet": "lan", "ipv4": 5}])]}, "vms[0].nics[0].ipv4: "),
        ({"vms": [vm(healthcheck={})]}, "vms[0].healthcheck.test: "),
        ({"vms": {}}, "vms: "),
        ({"vms": [vm()], "networks": "some"}, "networks: Input should be 'auto' or 'none'"),
        (
            {"vms": [vm()], "networks": {"vnets": [{"alias": "a", "egress": {"allow": 1}}]}},
            "networks.vnets[0].egress.allow: ",
        ),
        ({"driver": "docker"}, "driver: "),
        ({"standby": 1, "driver": "proxmox"}, "standby: only sandboxes of the qemu driver"),
        ({"standby": 65}, "standby: "),
    ],
)
def test_refuses_other_types_and_names(config: dict[str, Any], said: str) -> None:
    """What else is wrong, the daemon says: test_same_verdict.py."""
    with pytest.raises(ValidationError) as caught:
        MoatSandboxEnvironmentConfig.model_validate(config)
    assert said in describe(caught.value)


def test_addresses_may_be_objects() -> None:
    subnet = Subnet(cidr=IPv4Network("10.0.0.0/24"), gateway=IPv4Address("10.0.0.1"))
    assert subnet == Subnet(cidr="10.0.0.0/24", gateway="10.0.0.1")
    nic = VmNic(vnet="lan", mac=MAC, ipv4=IPv4Address("10.0.0.5"))
    assert nic.model_dump(exclude_none=True) == {"vnet": "lan", "mac": MAC, "ipv4": "10.0.0.5"}


def test_frozen_and_hashable() -> None:
    config = MoatSandboxEnvironmentConfig(
        vms=(VmConfig(source=VmSource(image="tiny"), native={"a": [1]}),)
    )
    same = MoatSandboxEnvironmentConfig.model_validate(config.model_dump(mode="json"))
    assert config == same
    assert hash(config) == hash(same)
    assert len({config, same, MoatSandboxEnvironmentConfig()}) == 2
    with pytest.raises(ValidationError):
        config.pool = "other"


def test_survives_the_log_of_an_eval() -> None:
    config = MoatSandboxEnvironmentConfig(
        vms=(VmConfig(source=VmSource(image="tiny")),),
        networks=Networks(vnets=(Vnet(alias="a", subnets=(Subnet.model_validate(
            {"cidr": "10.0.0.0/24"}),)),)),
    )  # fmt: skip
    spec = SandboxEnvironmentSpec("moat", config)
    assert SandboxEnvironmentSpec.model_validate_json(spec.model_dump_json()) == spec


def test_yaml_and_json_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("vms:\n- source: {ova: box.ova}\n  name: one\n")
    config = MoatSandboxEnvironmentConfig.from_file(tmp_path / "a.yaml")
    assert config.to_spec()["vms"][0]["source"] == {"ova": str(tmp_path / "box.ova")}
    (tmp_path / "a.json").write_text('{"vms": [{"source": "tiny"}]}')
    assert MoatSandboxEnvironmentConfig.from_file(tmp_path / "a.json").vms[0].source.image == "tiny"


@pytest.mark.parametrize("text", ["vms: [", "- a", "", "vms:\n- source: a\n  ram_mb: lots\n"])
def test_a_bad_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.yaml: "):
        MoatSandboxEnvironmentConfig.from_file(tmp_path / "bad.yaml")
