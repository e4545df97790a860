"""Inspect's own checks of a sandbox provider, on a Proxmox server: a real VM, as root."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from lives import TAG, fill, named
from server import PveServer

from inspect_moat import ProxmoxSandboxEnvironment
from inspect_moat._proxmox_config import ProxmoxSandboxEnvironmentConfig

pytestmark = pytest.mark.anyio

# Root reads and writes whatever the permissions say: these run as somebody else.
IMPOSSIBLE_FOR_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}
ORDINARY = "somebody"

# The tiny image has no programs that manage users; busybox's own would be like this one.
ADD_USER = """#!/bin/sh
[ "$1" = --help ] && { echo BusyBox; exit 0; }
id=$((1000 + $(wc -l </etc/passwd)))
echo "$2:x:$id:$id::/home/$2:/bin/sh" >>/etc/passwd
mkdir -p "/home/$2" && chown "$id:$id" "/home/$2"
"""
DEL_USER = """#!/bin/sh
sed -i "/^$2:/d" /etc/passwd; rm -rf "/home/$2"
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PveServer]:
    """A server with a template, and an environment that names it and a moat of our own."""
    home = Path(str(tmp_path_factory.mktemp("m")))
    with PveServer(vms="qemu", time_scale=0.1, task_time=0.05) as server:
        fill(server)
        with named(server, home):
            yield server


@pytest.fixture(scope="module")
async def machine(shop: PveServer, anyio_backend: str) -> AsyncIterator[ProxmoxSandboxEnvironment]:
    vm = {"vm_source_config": {"existing_vm_template_tag": TAG}, "ram_mb": 512, "vcpus": 1}
    config = ProxmoxSandboxEnvironmentConfig.model_validate({"vms_config": [vm]})
    environments = await ProxmoxSandboxEnvironment.sample_init("self_check", config, {})
    default = environments["default"]
    assert isinstance(default, ProxmoxSandboxEnvironment)
    # The agent answers before all drivers are loaded; large files wait for the drive's.
    waited = await default.exec(["sh", "-c", "until [ -b /dev/sr0 ]; do sleep 0.2; done"])
    assert waited.success
    for name, script in (("adduser", ADD_USER), ("userdel", DEL_USER)):
        await default.write_file(f"/usr/local/sbin/{name}", script)
        assert (await default.exec(["chmod", "755", f"/usr/local/sbin/{name}"])).success
    assert (await default.exec(["adduser", "-D", ORDINARY])).success
    yield default
    await ProxmoxSandboxEnvironment.sample_cleanup("self_check", config, environments, False)


class OrdinaryUser(ProxmoxSandboxEnvironment):
    """With `user` in the specification, all that names no user is done as that user."""

    start_directory = ""

    def _args(self, **more: Any) -> dict[str, Any]:
        return super()._args(**{"user": ORDINARY, **more})


@pytest.fixture
def sandbox_env(
    request: pytest.FixtureRequest, machine: ProxmoxSandboxEnvironment
) -> SandboxEnvironment:
    if request.node.originalname in IMPOSSIBLE_FOR_ROOT:
        return OrdinaryUser(machine._connection, machine.sandbox_id, machine.vm_name)
    return machine
