"""What test suites for the Vagrant plugin do with a sandbox, besides running commands in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from inspect_ai.util import SandboxEnvironment
from vagrant_home import FILES, TIMEOUT, VagrantHome

from vagrantsandbox.vagrant_sandbox_provider import (
    VagrantSandboxEnvironment,
    VagrantSandboxEnvironmentConfig,
    _run_in_executor,
    list_sandbox_directories,
)

pytestmark = pytest.mark.anyio


async def up(file: Path, **fields: str) -> dict[str, SandboxEnvironment]:
    config = VagrantSandboxEnvironmentConfig(vagrantfile_path=str(file), **fields)
    return await VagrantSandboxEnvironment.sample_init("suite", config, {"sample_id": "suite"})


async def test_vagrant_of_a_sandbox(home: VagrantHome) -> None:
    environments = await up(FILES / "Vagrantfile.single", primary_vm_name="default")
    sandbox = environments["default"]
    assert isinstance(sandbox, VagrantSandboxEnvironment)
    assert sandbox.sandbox_dir.path.parent in list_sandbox_directories()
    (status,) = await _run_in_executor(sandbox.vagrant.status)
    assert (status.name, status.state) == ("default", "running")
    assert await sandbox.vagrant.get_vm_names() == ["default"]
    await sandbox.write_file("/tmp/x", "written")
    said = await sandbox.vagrant.ssh(sandbox.vm_name, "cat /tmp/x; whoami", timeout=TIMEOUT)
    assert (said["returncode"], said["stdout"]) == (0, "writtenvagrant\n")
    await VagrantSandboxEnvironment.sample_cleanup("suite", None, {}, False)  # there is none
    await _run_in_executor(sandbox.vagrant.destroy)
    home.wait_until_clean()
    await VagrantSandboxEnvironment.sample_cleanup("suite", None, environments, False)


async def test_a_machine_that_cannot_be_made(home: VagrantHome, tmp_path: Path) -> None:
    file = tmp_path / "Vagrantfile"
    file.write_text('Vagrant.configure("2") { |config| config.vm.box = "no/such-box" }\n')
    with pytest.raises(subprocess.CalledProcessError, match="no/such-box") as caught:
        await up(file)
    assert "no/such-box" in caught.value.stderr
    home.wait_until_clean()
