"""The end of a sample on a server: the removal of its sandbox is mostly waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lives import TAG, a_server, fill, named
from server import PveServer

from driver import left
from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)
from proxmoxsandbox.schema import VmConfig, VmSourceConfig

pytestmark = pytest.mark.anyio

SOURCE = VmSourceConfig(existing_vm_template_tag=TAG)
CONFIG = ProxmoxSandboxEnvironmentConfig(
    vms_config=(VmConfig(vm_source_config=SOURCE, ram_mb=256, vcpus=1),)
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[PveServer]:
    with a_server() as server:
        fill(server)
        with named(server, tmp_path):
            yield server


async def sample() -> tuple[str, dict[str, object]]:
    made = await ProxmoxSandboxEnvironment.sample_init("task", CONFIG, {})
    return str(made["default"].as_type(ProxmoxSandboxEnvironment).vm_id), {**made}


async def end(made: dict[str, object]) -> None:
    await ProxmoxSandboxEnvironment.sample_cleanup("task", CONFIG, made, False)  # type: ignore[arg-type]


async def test_the_next_sample_does_not_wait_but_the_task_does(shop: PveServer) -> None:
    before = left(shop)
    await ProxmoxSandboxEnvironment.task_init("task", CONFIG)
    vmid, made = await sample()
    slow = shop.fault(path=f"/{vmid}/status/stop$", action="latency", seconds=3)
    await end(made)
    assert vmid in shop.control("state")["vms"]
    await ProxmoxSandboxEnvironment.task_cleanup("task", CONFIG, True)
    assert shop.struck(slow) == 1
    assert left(shop) == before


async def test_what_could_not_be_removed_is_said_at_the_end(
    shop: PveServer, caplog: pytest.LogCaptureFixture
) -> None:
    before = left(shop)
    await ProxmoxSandboxEnvironment.task_init("task", CONFIG)
    _, made = await sample()
    shop.control("fail_task", kind="qmdestroy", status="disk is broken", times=5)
    await end(made)
    await ProxmoxSandboxEnvironment.task_cleanup("task", CONFIG, True)
    assert "could not be removed" in caplog.text
    assert left(shop)["vms"] != before["vms"]


async def test_a_pool_counts_what_is_being_removed(
    shop: PveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXMOX_MAX_SANDBOXES", "1")
    before = left(shop)
    await ProxmoxSandboxEnvironment.task_init("task", CONFIG)
    for _ in range(3):
        vmid, made = await sample()
        ours = set(shop.control("state")["vms"]) - set(before["vms"])
        assert ours == {vmid}
        await end(made)
    await ProxmoxSandboxEnvironment.task_cleanup("task", CONFIG, True)
    assert left(shop) == before
