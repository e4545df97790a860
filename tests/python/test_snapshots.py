"""Snapshots and copies of a running sandbox, with the real daemon."""

from __future__ import annotations

import pytest
from inspect_ai.util import SandboxEnvironment

from inspect_moat import (
    MoatSandboxEnvironment,
    MoatSandboxEnvironmentConfig,
    VmSandboxEnvironment,
)
from real_daemon import TINY, Moat

pytestmark = pytest.mark.anyio
CONFIG = MoatSandboxEnvironmentConfig.model_validate(TINY)


async def sh(machine: SandboxEnvironment, script: str) -> str:
    result = await machine.exec(["sh", "-c", script])
    assert result.success, result
    return result.stdout


async def _save_copy_and_go_back(vm: VmSandboxEnvironment, tiny: Moat) -> None:
    await sh(vm, "echo one >/tmp/state")
    await vm.create_snapshot("first")
    await sh(vm, "echo two >/tmp/state")
    copies = await vm.fork(2)
    assert await vm.list_snapshots() == ["first"]
    await vm.restore_snapshot("first")
    assert await sh(vm, "cat /tmp/state") == "one\n"
    for copy in copies:
        assert await sh(copy["default"], "cat /tmp/state") == "two\n"
    assert len(tiny.sandboxes()) == 3
    await copies[0]["default"].as_type(VmSandboxEnvironment).remove_fork()
    assert len(tiny.sandboxes()) == 2
    with pytest.raises(ValueError, match="no copy"):
        await vm.remove_fork()
    with pytest.raises(NotImplementedError, match="all VMs together"):
        await vm._snapshot("snapshot", "first", vm="default")
    await vm.remove_snapshot("first")
    with pytest.raises(LookupError):
        await vm.restore_snapshot("first")


async def test_snapshots_and_forks(tiny: Moat) -> None:
    environments = await MoatSandboxEnvironment.sample_init("snapshots", CONFIG, {})
    try:
        await _save_copy_and_go_back(environments["default"].as_type(VmSandboxEnvironment), tiny)
    finally:
        await MoatSandboxEnvironment.sample_cleanup("snapshots", CONFIG, environments, False)
    tiny.assert_nothing_left()  # the other copy was removed with the sandbox
