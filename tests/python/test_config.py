"""The configuration models: what they refuse, what they say about it, what they send."""

from __future__ import annotations

import json
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


def error_of(**config: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        MoatSandboxEnvironmentConfig.model_validate(config)
    return describe(caught.value)


def test_nothing_given_is_one_vm_of_the_default_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOAT_DEFAULT_IMAGE", raising=False)
    assert MoatSandboxEnvironmentConfig().to_spec() == {
        "driver": "qemu",
        "vms": [{"name": "default", "source": {"image": "debian12"}}],
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
                healthcheck=HealthCheck(test=("true",), interval=0.01),
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
    assert spec["vms"][1]["healthcheck"]["interval"] == 0.1
    assert spec["networks"]["vnets"][0]["subnets"][0]["cidr"] == "10.1.0.0/24"


def test_no_network_is_not_the_default_network() -> None:
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": [vm()], "networks": None})
    assert config.to_spec()["networks"] is None


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"vms": [vm(ram=5)]}, "vms[0].ram: "),
        ({"vms": [vm(ram_mb=1)]}, "vms[0].ram_mb: "),
        ({"vms": [vm(vcpus=0)]}, "vms[0].vcpus: "),
        ({"vms": [vm(name="a_b")]}, "vms[0].name: "),
        ({"vms": [vm(name="x" * 64)]}, "vms[0].name: "),
        (
            {"vms": [{"source": {}}]},
            "vms[0].source: Exactly one source must be set, of image, built_in",
        ),
        ({"vms": [{"source": {"image": "a", "ova": "b"}}]}, "not image and ova"),
        ({"vms": [vm(is_sandbox=False)]}, "No default sandbox found"),
        ({"vms": [vm(), vm()]}, "vms[1] is named 'default' (the default of a VM"),
        (
            {"vms": [vm(name="a"), vm(name="A")]},
            "vms[1].name: Duplicate VM name 'A' at vms[0] and vms[1]",
        ),
        (
            {"vms": [vm(depends_on=["x"])]},
            "vms[0].depends_on[0]: 'default' depends on unknown VM 'x'",
        ),
        ({"vms": [vm(name="a", depends_on=["a"])]}, "vms[0].depends_on[0]: 'a' depends on itself"),
        (
            {"vms": [vm(name="a", depends_on=["b", "b"]), vm(name="b")]},
            "vms[0].depends_on[1]: 'a' lists a duplicate dependency, 'b'",
        ),
        (
            {"vms": [vm(name="a", depends_on=["b"]), vm(name="b", depends_on=["a"])]},
            "VM dependency cycle: 'a' -> 'b' -> 'a'",
        ),
        (
            {"vms": [vm(nics=[{"vnet": "dmz"}])], "networks": LAN},
            'vms[0].nics[0].vnet: no network has the alias "dmz" (there are "lan")',
        ),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "ipv4": "10.1.0.2"}])]},
            "vms[0].nics[0]: ipv4: an ipv4 address requires a mac address",
        ),
        ({"vms": [vm(nics=[{"vnet": "lan", "mac": "nonsense"}])]}, "vms[0].nics[0].mac: "),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "mac": "01:00:5e:00:00:01"}])]},
            "multicast",
        ),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "mac": MAC}, {"vnet": "lan", "mac": MAC}])]},
            "vms[0].nics[1].mac: 52:54:00:00:00:01 is already that of vms[0].nics[0]",
        ),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "mac": MAC, "ipv4": "10.2.0.2"}])], "networks": LAN},
            'vms[0].nics[0].ipv4: 10.2.0.2 is in no subnet of "lan"',
        ),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "mac": MAC, "ipv4": "10.1.0.1"}])], "networks": LAN},
            "10.1.0.1 is the address of the gateway",
        ),
        (
            {"vms": [vm(nics=[{"vnet": "lan", "vlan_tag": 5}])], "networks": LAN},
            'vms[0].nics[0].vlan_tag: the network "lan" is not vlan_aware',
        ),
        ({"vms": [vm(nics=[{"vnet": "lan", "vlan_tag": 4095}])]}, "vms[0].nics[0].vlan_tag: "),
        ({"vms": [vm(healthcheck={"test": []})]}, "vms[0].healthcheck.test: "),
        ({"vms": [vm(healthcheck={"test": [""]})]}, "vms[0].healthcheck.test: "),
        ({"vms": []}, "vms: "),
        ({"vms": [vm()], "networks": {"vnets": []}}, "networks.vnets: "),
        ({"vms": [vm()], "networks": "some"}, "networks: Input should be 'auto' or 'none'"),
        (
            {"vms": [vm()], "networks": {"vnets": [{"alias": "a", "egress": {"allow": {}}}]}},
            "networks.vnets[0].egress.allow: at least one of domains",
        ),
        ({"driver": "docker"}, "driver: "),
    ],
)
def test_refuses_and_names_the_place(config: dict[str, Any], place: str) -> None:
    assert place in error_of(**config)


@pytest.mark.parametrize(
    ("subnet", "place"),
    [
        ({"cidr": "10.1.0.5/24"}, "subnets[0].cidr: "),
        ({"cidr": "10.1.0.0/24", "gateway": "10.2.0.1"}, "subnets[0].gateway: 10.2.0.1 is not in"),
        (
            {"cidr": "10.1.0.0/24", "dhcp_ranges": [{"start": "10.2.0.1", "end": "10.1.0.9"}]},
            "subnets[0].dhcp_ranges[0].start: 10.2.0.1 is not in",
        ),
        (
            {"cidr": "10.1.0.0/24", "dhcp_ranges": [{"start": "10.1.0.9", "end": "10.1.0.8"}]},
            "the range ends before it starts",
        ),
        (
            {
                "cidr": "10.1.0.0/24",
                "gateway": "10.1.0.5",
                "dhcp_ranges": [{"start": "10.1.0.1", "end": "10.1.0.8"}],
            },
            "the gateway 10.1.0.5 is inside the range",
        ),
    ],
)
def test_refuses_subnets(subnet: dict[str, Any], place: str) -> None:
    networks = {"vnets": [{"alias": "lan", "subnets": [subnet]}]}
    assert place in error_of(vms=[vm()], networks=networks)


def test_refuses_networks_that_overlap_or_share_a_name() -> None:
    subnets = [{"cidr": "10.1.0.0/16"}, {"cidr": "10.1.2.0/24"}]
    two = {"vnets": [{"alias": f"n{i}", "subnets": [s]} for i, s in enumerate(subnets)]}
    assert "vnets[1].subnets[0].cidr: 10.1.2.0/24 overlaps" in error_of(vms=[vm()], networks=two)
    same = {"vnets": [{"alias": "lan"}, {"alias": "lan"}]}
    assert 'vnets[1].alias: "lan" is already' in error_of(vms=[vm()], networks=same)


@pytest.mark.parametrize("text", ["52-54-00-AB-00-01", "5254.00ab.0001", "52:54:00:ab:00:01"])
def test_mac_addresses_have_one_form(text: str) -> None:
    assert VmNic(vnet="lan", mac=text).mac == "52:54:00:ab:00:01"


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
    assert MoatSandboxEnvironmentConfig.from_file(tmp_path / "a.json").vms[0].name == "default"


@pytest.mark.parametrize("text", ["vms: [", "- a", "", "vms:\n- source: a\n  ram_mb: lots\n"])
def test_a_bad_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.yaml: "):
        MoatSandboxEnvironmentConfig.from_file(tmp_path / "bad.yaml")
