"""What evals and test suites for the older plugin find in its class, on a test server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from lives import TAG, a_server, fill, named
from server import PveServer

from inspect_moat import restore_snapshot, save_snapshot
from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)
from proxmoxsandbox.schema import HealthCheck, VmConfig, VmSourceConfig

pytestmark = pytest.mark.anyio

WAIT = "PROXMOX_EXEC_UNTIMED_WAIT_SECONDS"


def vm(name: str, **fields: Any) -> VmConfig:
    source = VmSourceConfig(existing_vm_template_tag=TAG)
    return VmConfig(vm_source_config=source, name=name, ram_mb=256, vcpus=1, **fields)


CONFIG = ProxmoxSandboxEnvironmentConfig(
    vms_config=(
        vm("router", is_sandbox=False),
        vm("attacker"),
        vm("victim", is_sandbox=False, healthcheck=HealthCheck(test=("true",))),
    )
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PveServer]:
    home = Path(str(tmp_path_factory.mktemp("m")))
    with a_server() as server:
        fill(server)
        with named(server, home):
            yield server


Sample = dict[str, ProxmoxSandboxEnvironment]


@pytest.fixture(scope="module")
async def sample(shop: PveServer, anyio_backend: str) -> AsyncIterator[Sample]:
    await ProxmoxSandboxEnvironment.task_init("task", None)
    environments = await ProxmoxSandboxEnvironment.sample_init("task", CONFIG, {})
    yield {name: one.as_type(ProxmoxSandboxEnvironment) for name, one in environments.items()}
    await ProxmoxSandboxEnvironment.sample_cleanup("task", CONFIG, environments, False)


async def test_commands_run_in_all_that_have_an_agent(sample: Sample) -> None:
    assert list(sample) == ["default", "attacker", "victim"]
    assert sample["default"] is sample["attacker"]
    for name in ("attacker", "victim"):
        done = await sample[name].exec(["echo", name])
        assert done.stdout == f"{name}\n"


async def test_everything_starts_at_the_root(sample: Sample) -> None:
    machine = sample["default"]
    assert (await machine.exec(["pwd"])).stdout == "/\n"
    assert (await machine.exec(["pwd"], cwd="tmp")).stdout == "/tmp\n"
    assert (await machine.exec(["pwd"], cwd="/proc")).stdout == "/proc\n"
    await machine.write_file("some/file", "text")
    assert await machine.read_file("some/file") == "text"
    assert (await machine.exec(["cat", "some/file"])).stdout == "text"


async def test_a_user_logs_in(sample: Sample) -> None:
    """In the user's home, with what the profile sets: as by `su -l`, there and here."""
    machine = sample["default"]
    await machine.exec(["adduser", "-D", "kim"])
    await machine.exec(["sh", "-c", "echo export LAB=of-the-lab >>/etc/profile"])
    await machine.write_file("/home/kim/.profile", "export MINE=of-kim\n")
    await machine.write_file("/tmp/locked", "#!/bin/sh\n")

    async def sh(script: str, **more: Any) -> str:
        done = await machine.exec(["sh", "-c", script], user="kim", **more)
        assert done.success, done
        return done.stdout.rstrip()

    assert await sh("whoami; pwd; echo $LAB $MINE $HOME $USER") == (
        "kim\n/home/kim\nof-the-lab of-kim /home/kim kim"
    )
    assert await sh("echo mine >note; cat note") == "mine"
    assert await sh("mkdir 'sub dir'") == ""
    assert await sh("pwd", cwd="sub dir") == "/home/kim/sub dir"
    assert await sh("pwd", cwd="/proc") == "/proc"
    assert await sh('echo "$A"', env={"A": "it's $HOME\n"}) == "it's $HOME"
    assert await sh("cat", input="from 'me'") == "from 'me'"
    assert await sh('echo "$0 $1"') == "sh"
    assert (await machine.exec(["ulimit", "-n"], user="kim")).success  # the shell's own command
    assert (await machine.exec(["echo", "a b", "$HOME", "'"], user="kim")).stdout == "a b $HOME '\n"
    assert (await machine.exec(["sh", "-c", "exit 70"], user="kim")).returncode == 70
    assert (await machine.exec(["no-such"], user="kim")).returncode == 127
    assert "nobody-here" in (await machine.exec(["true"], user="nobody-here")).stderr
    with pytest.raises(PermissionError, match="locked"):
        await machine.exec(["/tmp/locked"], user="kim")
    with pytest.raises(TimeoutError):
        await machine.exec(["sleep", "1000"], user="kim", timeout=1)
    assert "sleep 1000" not in (await machine.exec(["ps"])).stdout
    assert (await machine.exec(["pwd"], user="root")).stdout == "/root\n"


async def test_what_a_template_keeps(shop: PveServer, anyio_backend: str) -> None:
    """Its display, its pointer; its memory and processors, if the configuration says None."""
    wanted = VmConfig(
        vm_source_config=VmSourceConfig(existing_vm_template_tag="own"),
        name="kept",
        ram_mb=None,
        vcpus=None,
        is_sandbox=True,
        native={"hotplug": "disk"},
    )
    kept = {"vga": "qxl", "tablet": "1", "memory": "320", "cores": "3"}
    disk = {"scsi0": "local-lvm:base-190-disk-0,size=1G", "agent": "1", "serial0": "socket"}
    shop.control("add_vm", vmid=190, template=True, config={"tags": "inspect;own", **disk, **kept})
    config = ProxmoxSandboxEnvironmentConfig(vms_config=(wanted,))
    hash(config)
    made = await ProxmoxSandboxEnvironment.sample_init("task", config, {})
    try:
        one = made["kept"].as_type(ProxmoxSandboxEnvironment)
        found = shop.state()["vms"][str(one.vm_id)]["config"]
        assert {name: found.get(name) for name in kept} == kept
        assert found["hotplug"] == "disk"
    finally:
        await ProxmoxSandboxEnvironment.sample_cleanup("task", config, made, False)


async def test_it_knows_where_it_is(shop: PveServer, sample: Sample) -> None:
    vms = shop.state()["vms"]
    for name in ("attacker", "victim"):
        assert vms[str(sample[name].vm_id)]["config"]["name"] == name
    names = [vms[str(number)]["config"]["name"] for number in sample["default"].all_vm_ids]
    assert names == ["router", "attacker", "victim"]
    assert sample["default"].instance is not None
    assert sample["default"].instance.host == shop.environment()["PROXMOX_HOST"]
    assert sample["default"].pool_id == "default"


async def test_a_snapshot_is_of_one_vm(shop: PveServer, sample: Sample) -> None:
    def saved(name: str) -> int:
        return len(shop.state()["vms"][str(sample[name].vm_id)]["snapshots"])

    names = ("attacker", "victim")
    for name in names:
        await sample[name].write_file("/root/state", "before")
    await sample["default"].create_snapshot("clean")
    assert [saved(name) for name in names] == [1, 0]
    for name in names:
        await sample[name].write_file("/root/state", "after")
    await sample["default"].restore_snapshot("clean")
    assert [await sample[name].read_file("/root/state") for name in names] == ["before", "after"]
    with pytest.raises(LookupError, match="VM victim has no snapshot clean"):
        await sample["victim"].restore_snapshot("clean")


async def test_a_model_saves_all_vms(
    shop: PveServer, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's snapshots are not listed; what the tools tell the model is true all the same."""
    monkeypatch.setattr("inspect_moat._tools.sandbox", lambda: sample["default"])
    names = ("attacker", "victim")
    for name in names:
        await sample[name].write_file("/root/state", "before")
    await save_snapshot()(name="v1.0")
    for name in names:
        await sample[name].write_file("/root/state", "after")
    await restore_snapshot()(name="v1.0")
    assert [await sample[name].read_file("/root/state") for name in names] == ["before"] * 2


async def test_a_command_without_a_timeout_has_that_of_the_environment(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAIT, "0.5")
    with pytest.raises(TimeoutError, match="after 1 seconds"):
        await sample["default"].exec(["sleep", "100"])
    assert (await sample["default"].exec(["sleep", "2"], timeout=60)).success
    monkeypatch.setenv(WAIT, "soon")
    with pytest.raises(ValueError, match=f"{WAIT}: 'soon' is not a number of seconds"):
        await sample["default"].exec(["true"])


async def test_the_log_says_where_a_sample_was(
    shop: PveServer, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    subnet = {"cidr": "10.66.0.0/24", "gateway": "10.66.0.1", "snat": False}
    ranges = [{"start": "10.66.0.10", "end": "10.66.0.20"}]
    vnet = {"alias": "lan", "subnets": [{**subnet, "dhcp_ranges": ranges}]}
    one_vm = vm("one", nics=({"vnet_alias": "lan"},))
    config = ProxmoxSandboxEnvironmentConfig.model_validate(
        {"vms_config": [one_vm], "sdn_config": {"vnet_configs": [vnet]}}
    )
    made = await ProxmoxSandboxEnvironment.sample_init("task", config, {})
    one = made["one"].as_type(ProxmoxSandboxEnvironment)
    zones = shop.state()["zones"]
    await ProxmoxSandboxEnvironment.sample_cleanup("task", config, made, False)
    given = shop.environment()
    where = f"host={given['PROXMOX_HOST']} port={given['PROXMOX_PORT']} node={shop.node}"
    said = (
        f"sandbox {one.sandbox_id} is on the server default of the pool default: "
        f"{where} VMs {{'one': {one.vm_id}}}"
    )
    assert ("INFO", said) in [(one.levelname, one.getMessage()) for one in caplog.records]
    assert one.sdn_zone_id in zones
    assert one.os_type == "l26"
    assert not one._is_windows()


async def test_a_pool_that_is_not_there(shop: PveServer, anyio_backend: str) -> None:
    config = ProxmoxSandboxEnvironmentConfig(instance_pool_id="elsewhere")
    with pytest.raises(RuntimeError, match="of the pool elsewhere; there are default"):
        await ProxmoxSandboxEnvironment.sample_init("task", config, {})


@pytest.mark.parametrize(
    ("source", "fields"),
    [("nosuch", {}), (TAG, {"nics": ({"vnet_alias": "nosuch"},)})],
)
async def test_what_is_not_on_the_server_is_a_wrong_value(
    shop: PveServer, anyio_backend: str, source: str, fields: dict[str, Any]
) -> None:
    one = {"vm_source_config": {"existing_vm_template_tag": source}, **fields}
    config = ProxmoxSandboxEnvironmentConfig.model_validate(
        {"vms_config": [one], "sdn_config": None}
    )
    with pytest.raises(ValueError, match="nosuch"):
        await ProxmoxSandboxEnvironment.sample_init("task", config, {})
