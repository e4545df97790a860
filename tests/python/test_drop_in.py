"""Evals written for the Proxmox and Vagrant plugins: their imports, fields and configurations."""

from __future__ import annotations

import json
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai._util.json import to_json_safe
from inspect_ai.util import SandboxEnvironmentSpec
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from pydantic import BaseModel, SecretStr, ValidationError

from inspect_moat import MoatSandboxEnvironmentConfig, VmSandboxEnvironment
from inspect_moat._errors import MoatError, to_exception
from inspect_moat._vagrant_command import parse_status
from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)
from proxmoxsandbox.schema import (
    DhcpRange,
    HealthCheck,
    ProxmoxInstanceConfig,
    SdnConfig,
    SubnetConfig,
    VmConfig,
    VmNicConfig,
    VmSourceConfig,
    VnetConfig,
)
from vagrantsandbox import SandboxUnrecoverableError
from vagrantsandbox.vagrant_sandbox_provider import (
    TimeoutConfig,
    Vagrant,
    VagrantSandboxEnvironment,
    VagrantSandboxEnvironmentConfig,
    _run_in_executor,
    get_sandbox_cache_dir,
    list_sandbox_directories,
)

PASSWORD = "correct horse"


def ubuntu(**fields: object) -> VmConfig:
    source = VmSourceConfig(built_in="ubuntu24.04")
    return VmConfig.model_validate({"vm_source_config": source, **fields})


def full_config() -> ProxmoxSandboxEnvironmentConfig:
    return ProxmoxSandboxEnvironmentConfig(
        vms_config=(
            VmConfig(
                vm_source_config=VmSourceConfig(built_in="ubuntu24.04"),
                name="romeo",
                ram_mb=512,
                vcpus=4,
                nics=(
                    VmNicConfig(
                        vnet_alias="my special vnet",
                        mac="52:54:00:12:34:56",
                        ipv4=ip_address("192.168.20.10"),
                    ),
                ),
                await_before_next_vm=True,
            ),
            VmConfig(
                vm_source_config=VmSourceConfig(ova=Path("victim.ova")),
                name="victim",
                is_sandbox=False,
                os_type="win10",
                disk_controller="ide",
                nics=(),
                depends_on=("romeo",),
                healthcheck=HealthCheck(test=("true",)),
            ),
        ),
        sdn_config=SdnConfig(
            vnet_configs=(
                VnetConfig(
                    alias="my special vnet",
                    subnets=(
                        SubnetConfig(
                            cidr=ip_network("192.168.20.0/24"),
                            gateway=ip_address("192.168.20.1"),
                            snat=True,
                            dhcp_ranges=(
                                DhcpRange(
                                    start=ip_address("192.168.20.50"),
                                    end=ip_address("192.168.20.100"),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            use_pve_ipam_dnsnmasq=True,
        ),
    )


def test_providers_are_registered() -> None:
    assert registry_find_sandboxenv("proxmox") is ProxmoxSandboxEnvironment
    assert registry_find_sandboxenv("vagrant") is VagrantSandboxEnvironment


def test_proxmox_spec() -> None:
    spec = full_config().to_spec()
    assert json.loads(json.dumps(spec)) == spec
    assert spec["driver"] == "proxmox"
    assert spec["pool"] == "default"
    romeo, victim = spec["vms"]
    assert romeo["nics"] == [
        {"vnet": "my special vnet", "mac": "52:54:00:12:34:56", "ipv4": "192.168.20.10"}
    ]
    assert romeo["await_before_next_vm"] is True
    assert victim["source"] == {"ova": str(Path("victim.ova").absolute())}
    assert victim["depends_on"] == ["romeo"]
    vnet = spec["networks"]["vnets"][0]
    assert vnet["dhcp"] is True
    assert vnet["subnets"][0]["dhcp_ranges"] == [
        {"start": "192.168.20.50", "end": "192.168.20.100"}
    ]


def test_proxmox_defaults() -> None:
    spec = ProxmoxSandboxEnvironmentConfig().to_spec()
    assert spec["vms"] == [{"name": "default", "source": {"built_in": "ubuntu24.04"}}]
    assert spec["networks"] == "auto"
    assert ProxmoxSandboxEnvironmentConfig(sdn_config=None).to_spec()["networks"] is None


@pytest.mark.parametrize(
    "name", ["ubuntu24.04", "debian12", "debian13", "kali2025.3", "kali2025.4"]
)
def test_built_in_systems_of_all_versions(name: str) -> None:
    source = VmSourceConfig.model_validate({"built_in": name})
    spec = ProxmoxSandboxEnvironmentConfig(vms_config=(VmConfig(vm_source_config=source),))
    assert spec.to_spec()["vms"][0]["source"] == {"built_in": name}


@pytest.mark.parametrize("text", ["52-54-00-AB-00-01", "5254.00ab.0001", "52:54:00:ab:00:01"])
def test_mac_addresses_have_one_form(text: str) -> None:
    assert VmNicConfig(vnet_alias="lan", mac=text).mac == "52:54:00:ab:00:01"


def test_health_checks_come_no_more_often_than_moat_can() -> None:
    for interval, taken in ((0.01, 0.1), (5, 5)):
        vm = ubuntu(healthcheck=HealthCheck(test=("true",), interval=interval))
        (spec,) = ProxmoxSandboxEnvironmentConfig(vms_config=(vm,)).to_spec()["vms"]
        assert spec["healthcheck"] == {"test": ["true"], "interval": taken}


def test_old_configurations_without_names() -> None:
    config = ProxmoxSandboxEnvironmentConfig(
        vms_config=(ubuntu(is_sandbox=False), ubuntu(), ubuntu(name=None))
    )
    assert config.vm_names() == ("vm-1", "default", "vm-3")


def test_an_isolated_network_has_no_way_out() -> None:
    config = full_config()
    assert isinstance(config.sdn_config, SdnConfig)
    sdn = config.sdn_config.model_copy(update={"isolated": True})
    vms = (*config.vms_config, ubuntu(name="more", firewall=True))
    spec = config.model_copy(update={"sdn_config": sdn, "vms_config": vms}).to_spec()
    assert spec["native"] == {"isolated": True}
    (vnet,) = spec["networks"]["vnets"]
    assert "egress" not in vnet
    assert vnet["subnets"][0]["snat"] is False
    # The NICs of a template would lead elsewhere.
    assert [vm["nics"] for vm in spec["vms"]] == [
        spec["vms"][0]["nics"], [], [{"vnet": "my special vnet"}],
    ]  # fmt: skip
    assert not any("firewall" in vm for vm in spec["vms"])


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda: VmSourceConfig(),
            "Exactly one source must be set, of existing_vm_template_tag, ova, ova_url, built_in",
        ),
        (lambda: VmSourceConfig(built_in="debian13", ova=Path("x")), "not ova and built_in"),
        (
            lambda: VmSourceConfig.model_validate({"built_in": "kali2024.1"}),
            "'ubuntu24.04', .*'debian13', .*'kali2025.4' or 'kali2025.3'",
        ),
        (
            lambda: VmNicConfig(vnet_alias="a", ipv4=ip_address("10.0.0.1")),
            "ipv4 address requires a mac address",
        ),
        (lambda: ubuntu(name="no_underscores"), "is not a valid DNS name"),
        (
            lambda: ProxmoxSandboxEnvironmentConfig(vms_config=(ubuntu(is_sandbox=False),)),
            "is_sandbox=True",
        ),
    ],
)
def test_proxmox_refuses(build: object, text: str) -> None:
    assert callable(build)
    with pytest.raises(ValidationError, match=text):
        build()


SUBNET: dict[str, Any] = {
    "cidr": "10.1.0.0/24", "gateway": "10.1.0.1", "snat": True,
    "dhcp_ranges": [{"start": "10.1.0.9", "end": "10.1.0.99"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("sdn", "subnet", "name"),
    [
        ({"allow_domains": ("example.org",)}, {}, "allow_domains"),
        ({}, {"vnet_type": "opnsense", "domain_whitelist": ("example.org",)}, "domain_whitelist"),
        ({}, {"type": "opnsense", "domain_whitelist": ()}, "type"),
    ],
)
def test_a_list_of_names_is_refused_instead_of_an_open_network(
    sdn: dict[str, Any], subnet: dict[str, Any], name: str
) -> None:
    def build(sdn: dict[str, Any], subnet: dict[str, Any]) -> SdnConfig:
        vnets = [{"alias": "lan", "subnets": [{**SUBNET, **subnet}]}]
        return SdnConfig.model_validate({"vnet_configs": vnets, **sdn})

    with pytest.raises(ValidationError, match=f"{name}: a server cannot hold"):
        build(sdn, subnet)
    empty = {"vnet_type": "proxmox", "domain_whitelist": None}
    assert build({"allow_domains": ()}, empty) == build({}, {})


@pytest.mark.parametrize(
    ("start", "end", "served"),
    [
        (9, 49, [(9, 49)]),
        (50, 254, [(51, 254)]),
        (9, 50, [(9, 49)]),
        (9, 99, [(9, 49), (51, 99)]),
        (50, 50, []),
    ],
)
def test_a_range_may_contain_the_gateway(
    start: int, end: int, served: list[tuple[int, int]]
) -> None:
    """Proxmox takes such a range, and does not give the gateway's address to a VM."""
    middle = {"gateway": "10.1.0.50"}
    ranges = [{"start": f"10.1.0.{start}", "end": f"10.1.0.{end}"}]
    vnets = [{"alias": "lan", "subnets": [{**SUBNET, **middle, "dhcp_ranges": ranges}]}]
    sdn = SdnConfig.model_validate({"vnet_configs": vnets})
    (vnet,) = ProxmoxSandboxEnvironmentConfig(sdn_config=sdn).to_spec()["networks"]["vnets"]
    assert vnet["subnets"][0]["dhcp_ranges"] == [
        {"start": f"10.1.0.{first}", "end": f"10.1.0.{last}"} for first, last in served
    ]


def test_proxmox_configuration_is_hashable_and_survives_a_log() -> None:
    config = full_config()
    assert hash(config) == hash(full_config())
    spec = SandboxEnvironmentSpec("proxmox", config)
    assert SandboxEnvironmentSpec.model_validate_json(spec.model_dump_json()) == spec


def of_log(provider: str, config: BaseModel) -> Any:
    """The configuration that a retry reads: a log has all fields but those that are None."""
    text = to_json_safe(SandboxEnvironmentSpec(provider, config))
    return SandboxEnvironmentSpec.model_validate_json(text).config


@pytest.mark.parametrize(
    ("provider", "config"),
    [
        ("moat", MoatSandboxEnvironmentConfig()),
        ("moat", MoatSandboxEnvironmentConfig(networks="none")),
        ("moat", MoatSandboxEnvironmentConfig(networks=None)),
        ("proxmox", ProxmoxSandboxEnvironmentConfig()),
        ("proxmox", ProxmoxSandboxEnvironmentConfig(sdn_config=None)),
        ("proxmox", full_config()),
        ("vagrant", VagrantSandboxEnvironmentConfig()),
        ("vagrant", VagrantSandboxEnvironmentConfig(vagrant_dir="lab")),
        ("vagrant", VagrantSandboxEnvironmentConfig(vagrant_dir="lab", vagrantfile_path="other")),
    ],
)
def test_a_configuration_from_a_log_means_the_same(
    provider: str, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant = config.to_spec()
    assert type(config).model_validate(config.model_dump()).to_spec() == meant
    # what the environment said when the eval was started is in the log
    monkeypatch.setenv("VAGRANTFILE_PATH", "elsewhere")
    assert of_log(provider, config).to_spec() == meant


def test_a_vagrantfile_of_the_environment_is_still_meant_after_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VAGRANTFILE_PATH", "other")
    config = VagrantSandboxEnvironmentConfig(vagrant_dir="lab")
    monkeypatch.delenv("VAGRANTFILE_PATH")
    assert config.to_spec()["native"]["vagrantfile"] == str(Path("other").absolute())
    assert of_log("vagrant", config).to_spec() == config.to_spec()


def test_secrets_are_not_printed() -> None:
    server = ProxmoxInstanceConfig(
        instance_id="a",
        pool_id="b",
        host="h",
        port=1,
        user="u",
        user_realm="pam",
        password=SecretStr(PASSWORD),
        node="n",
        verify_tls=True,
    )
    old = ProxmoxSandboxEnvironmentConfig(password=SecretStr(PASSWORD))
    for text in (repr(server), server.model_dump_json(), repr(old), old.model_dump_json()):
        assert PASSWORD not in text
    with pytest.raises(ValidationError) as caught:
        ProxmoxInstanceConfig.model_validate({"password": PASSWORD, "port": PASSWORD})
    assert PASSWORD not in str(caught.value)


def test_concurrency_is_the_number_of_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {
        "pool_id": "p", "host": "h", "port": 8006, "user": "root", "user_realm": "pam",
        "password": PASSWORD, "node": "n", "verify_tls": False,
    }  # fmt: skip
    file = tmp_path / "servers.json"
    file.write_text(
        json.dumps(
            {"instances": [{**server, "instance_id": str(i), "max_sandboxes": i} for i in (2, 3)]}
        )
    )
    monkeypatch.setenv("PROXMOX_CONFIG_FILE", str(file))
    assert ProxmoxSandboxEnvironment.default_concurrency() == 5
    file.write_text(json.dumps({"instances": [{**server, "instance_id": "a"}]}))
    assert (ProxmoxSandboxEnvironment.default_concurrency() or 0) > 1  # as its memory allows
    monkeypatch.delenv("PROXMOX_CONFIG_FILE")
    monkeypatch.delenv("PROXMOX_HOST", raising=False)
    assert ProxmoxSandboxEnvironment.default_concurrency() == 1


def test_vagrant_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VAGRANTFILE_PATH", raising=False)
    assert VagrantSandboxEnvironmentConfig().vagrantfile_path == "./Vagrantfile"
    monkeypatch.setenv("VAGRANTFILE_PATH", "other")
    assert VagrantSandboxEnvironmentConfig().vagrantfile_path == "other"
    config = VagrantSandboxEnvironmentConfig.model_validate(
        {"primary_vm_name": "attacker", "vagrantfile_env_vars": {"BOX": "debian"}}
    )
    assert config.vagrantfile_env_vars == (("BOX", "debian"),)
    assert hash(config) == hash(config.model_copy())
    assert config.to_spec() == {
        "driver": "vagrant",
        "vms": [{"name": "default"}],
        "native": {
            "vagrantfile": str(tmp_path / "other"),
            "primary_vm": "attacker",
            "primary_vm_required": False,
            "env": {"BOX": "debian"},
        },
    }
    assert issubclass(SandboxUnrecoverableError, Exception)
    monkeypatch.delenv("VAGRANTFILE_PATH")
    more = VagrantSandboxEnvironmentConfig(vagrant_dir="lab", provider="libvirt").to_spec()
    assert more["native"] == {
        "vagrantfile": str(tmp_path / "lab" / "Vagrantfile"),
        "primary_vm": None,
        "primary_vm_required": False,
        "env": {},
        "vagrant_dir": str(tmp_path / "lab"),
        "provider": "libvirt",
    }


def test_vagrant_sees_the_environment_of_the_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAGRANT_BOX", "debian")
    access = VagrantSandboxEnvironment.access(VagrantSandboxEnvironmentConfig())
    assert access is not None
    assert access["env"]["VAGRANT_BOX"] == "debian"
    assert access["env"]["PATH"]


def test_vagrant_is_spared_what_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_SANDBOX_CACHE_DIR", "boxes")
    monkeypatch.setenv("2FA_MODE", "on")
    monkeypatch.setenv("NAME_\udcff", "no UTF-8")
    monkeypatch.setenv("VALUE", "no UTF-8: \udcff")
    access = VagrantSandboxEnvironment.access(VagrantSandboxEnvironmentConfig())
    assert access is not None
    assert access["env"]["INSPECT_SANDBOX_CACHE_DIR"] == str(tmp_path / "boxes")
    assert access["env"]["2FA_MODE"] == "on"
    assert "VALUE" not in access["env"]
    json.dumps(access, ensure_ascii=False).encode()


@pytest.mark.parametrize("wanted", ["nosuch", "WEB", None])
def test_a_default_vm_that_there_is_not(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first VM is taken then, with a warning."""

    async def made(*_: object) -> dict[str, object]:
        return {"default": object(), "web": object(), "db": object()}

    monkeypatch.setattr(VmSandboxEnvironment, "sample_init", made)
    config = VagrantSandboxEnvironmentConfig(primary_vm_name=wanted)
    environments = anyio.run(VagrantSandboxEnvironment.sample_init, "task", config, {})
    assert list(environments) == ["default", "web", "db"]
    said = ["the Vagrantfile has no VM nosuch; it has web, db"] if wanted == "nosuch" else []
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == said


def test_a_missing_vagrantfile_is_named(tmp_path: Path) -> None:
    config = VagrantSandboxEnvironmentConfig(vagrantfile_path=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="nowhere"):
        VagrantSandboxEnvironment.to_spec(config)


FAKE_VAGRANT = """#!/bin/sh
echo "$@"
echo "in $(pwd) with $FLAG" >&2
case $1 in ssh) cat; exit 7 ;; sleep) exec sleep 100 ;; fail) exit 1 ;; esac
"""


@pytest.fixture
def vagrant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vagrant:
    """The Vagrant of a sandbox, with a `vagrant` and a `moat` that only print their arguments."""
    place = tmp_path / "moat-1234" / "moat-1234"
    place.mkdir(parents=True)
    (place.parent / "env").write_bytes(b"FLAG=of the sandbox\0A=b=c\0")
    (tmp_path / "vagrant").write_text(FAKE_VAGRANT)
    (tmp_path / "moat").write_text('#!/bin/sh\necho "$@" >"$0.said"; exit 3\n')
    for name in ("vagrant", "moat"):
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("MOAT_BIN", str(tmp_path / "moat"))
    return Vagrant.of_sandbox(str(place), "1234", {"web": "web-1234"})


def test_vagrant_itself_in_the_directory_of_a_sandbox(vagrant: Vagrant, tmp_path: Path) -> None:
    assert vagrant.env["A"] == "b=c"
    said = anyio.run(lambda: vagrant.ssh(vm_name="web", command="id", input="typed"))
    assert said == {
        "returncode": 7,
        "stdout": "ssh web-1234 --no-tty --command id\ntyped",
        "stderr": f"in {vagrant.root} with of the sandbox\n",
    }
    anyio.run(_run_in_executor, vagrant.destroy)  # moat knows no such sandbox: fine
    assert (tmp_path / "moat.said").read_text() == "rm --quiet 1234\n"
    vagrant.destroy("web")
    with pytest.raises(AttributeError, match=f"Vagrant.halt is not in moat.* {vagrant.root}"):
        vagrant.halt()


def test_vagrant_that_takes_too_long(vagrant: Vagrant) -> None:
    for limit in (0.2, TimeoutConfig(timeout=0.2)):
        with pytest.raises(TimeoutError, match=r"0\.2"):
            anyio.run(vagrant._run_vagrant_command_async, ["sleep"], None, limit)
    with pytest.raises(ValueError, match="positive"):
        anyio.run(lambda: vagrant.ssh(command="true", timeout=0))


def test_the_status_of_vagrant() -> None:
    text = (
        "1,web-1,provider-name,libvirt\n1,web-1,state,running\n1,,ui,info,x\n1,db,state,shutoff\n"
    )
    assert parse_status(text) == [("web-1", "running", "libvirt"), ("db", "shutoff", None)]
    assert parse_status("") == []


def test_a_failed_status_says_what_vagrant_says(vagrant: Vagrant, tmp_path: Path) -> None:
    script = '#!/bin/sh\necho "$said"; echo "Ruby is broken" >&2; exit 1\n'
    (tmp_path / "vagrant").write_text(script)
    vagrant.env["said"] = (
        "1,,error-exit,Vagrant::Errors::NoEnvironmentError,No box%!(VAGRANT_COMMA) no VM"
    )
    with pytest.raises(subprocess.CalledProcessError, match=r"^No box, no VM$") as caught:
        vagrant.status()
    assert caught.value.cmd == ["vagrant", "status", "--machine-readable"]
    vagrant.env["said"] = ""
    with pytest.raises(subprocess.CalledProcessError, match=r"^Ruby is broken$"):
        anyio.run(vagrant.get_vm_names)


def test_a_vagrant_that_fails_is_a_failed_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers of sample_init expect that error."""

    async def fails(*_: object) -> None:
        try:
            raise MoatError("backend", "no box")
        except MoatError as ex:
            raise to_exception(ex) from ex

    monkeypatch.setattr(VmSandboxEnvironment, "sample_init", fails)
    with pytest.raises(subprocess.CalledProcessError, match="no box") as caught:
        anyio.run(VagrantSandboxEnvironment.sample_init, "task", None, {})
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.returncode, caught.value.stderr) == (1, "no box")
    assert caught.value.cmd == ["vagrant", "up"]


def test_directories_of_vagrant_sandboxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INSPECT_SANDBOX_CACHE_DIR", "INSPECT_SANDBOX_CACHE_SUFFIX", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert get_sandbox_cache_dir() == tmp_path / ".cache" / "inspect-vagrant-sandbox"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("INSPECT_SANDBOX_CACHE_SUFFIX", "gw0")
    assert get_sandbox_cache_dir() == tmp_path / "cache" / "inspect-vagrant-sandbox" / "gw0"
    monkeypatch.setenv("INSPECT_SANDBOX_CACHE_DIR", str(tmp_path / "own"))
    assert list_sandbox_directories() == []
    (tmp_path / "own" / "moat-1").mkdir(parents=True)
    assert list_sandbox_directories() == [tmp_path / "own" / "moat-1"]


def test_what_is_not_here_says_why() -> None:
    for name in ("cleanup_sandbox_with_vms", "destroy_sandbox_vms"):
        with pytest.raises(ImportError, match=f"{name} is not in moat: the daemon "):
            exec(f"from vagrantsandbox.vagrant_sandbox_provider import {name}")
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from vagrantsandbox.vagrant_sandbox_provider import nonsense")
