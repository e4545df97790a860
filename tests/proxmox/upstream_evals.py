"""Evals as users of the older Proxmox plugin have them: its imports, its classes, its fields."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, basic_agent, solver
from inspect_ai.tool import Tool, bash, tool
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)
from proxmoxsandbox.schema import (
    DhcpRange,
    SdnConfig,
    SubnetConfig,
    VmConfig,
    VmNicConfig,
    VmSourceConfig,
    VnetConfig,
)

TEMPLATE = "tiny-template"


def subnet(number: int, *, snat: bool = False) -> SubnetConfig:
    base = f"192.168.{number}"
    return SubnetConfig(
        cidr=ip_network(f"{base}.0/24"),
        gateway=ip_address(f"{base}.1"),
        snat=snat,
        dhcp_ranges=(DhcpRange(start=ip_address(f"{base}.50"), end=ip_address(f"{base}.100")),),
    )


@solver
def names_the_host(*names: str) -> Solver:
    """Runs a command in each VM; its name is the answer."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        said = []
        for name in names:
            result = await sandbox(name).exec(["hostname"])
            assert result.success, result.stderr
            said.append(result.stdout.strip())
            await sandbox(name).write_file("/root/note", f"I am {name}\n")
            assert await sandbox(name).read_file("/root/note") == f"I am {name}\n"
        state.output.completion = " ".join(said)
        return state

    return solve


def on(
    config: ProxmoxSandboxEnvironmentConfig | None, target: str, answer: Solver | None = None
) -> Task:
    return Task(
        dataset=[Sample(input="Who is there?", target=target)],
        solver=answer or names_the_host("default"),
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("proxmox", config) if config else "proxmox",
    )


@task
def default_config() -> Task:
    return on(None, "default")


@task
def static_ips() -> Task:
    card = VmNicConfig(
        vnet_alias="my special vnet", mac="00:16:3d:1d:eb:a0", ipv4=ip_address("192.168.20.10")
    )
    config = ProxmoxSandboxEnvironmentConfig(
        vms_config=(
            VmConfig(
                vm_source_config=VmSourceConfig(built_in="debian13"), name="romeo", nics=(card,)
            ),
        ),
        sdn_config=SdnConfig(
            vnet_configs=(VnetConfig(subnets=(subnet(20, snat=True),), alias="my special vnet"),),
            use_pve_ipam_dnsnmasq=True,
        ),
    )
    return on(config, "romeo")


@task
def two_vnets() -> Task:
    def vm(name: str, *vnets: str) -> VmConfig:
        return VmConfig(
            vm_source_config=VmSourceConfig(existing_vm_template_tag=TEMPLATE),
            name=name,
            nics=tuple(VmNicConfig(vnet_alias=vnet) for vnet in vnets),
        )

    config = ProxmoxSandboxEnvironmentConfig(
        vms_config=(vm("left", "one"), vm("both", "one", "two"), vm("right", "two")),
        sdn_config=SdnConfig(
            vnet_configs=(
                VnetConfig(alias="one", subnets=(subnet(30),)),
                VnetConfig(alias="two", subnets=(subnet(31),)),
            )
        ),
    )
    return on(config, "left both right", names_the_host("default", "both", "right"))


def one_vm(source: VmSourceConfig, **more: Any) -> ProxmoxSandboxEnvironmentConfig:
    """A sandbox of one VM; what is said of the networks goes to the sandbox."""
    sdn = {name: more.pop(name) for name in ("sdn_config",) if name in more}
    vm = VmConfig(vm_source_config=source, **more)
    return ProxmoxSandboxEnvironmentConfig(vms_config=(vm,), **sdn)


@task
def from_an_ova() -> Task:
    source = VmSourceConfig(ova=Path(os.environ["EXAMPLE_OVA"]))
    return on(one_vm(source, name="imported", os_type="l26"), "imported")


@task
def from_a_template() -> Task:
    source = VmSourceConfig(existing_vm_template_tag=TEMPLATE)
    return on(one_vm(source, ram_mb=256, vcpus=1, sdn_config=None), "default")


@task
def no_network() -> Task:
    source = VmSourceConfig(built_in="kali2025.4")
    return on(one_vm(source, name="hermit", nics=()), "hermit")


@tool
def save_point() -> Tool:
    async def execute(name: str) -> str:
        """Save the VM as it is now.

        Args:
            name: what to call it
        """
        await sandbox().as_type(ProxmoxSandboxEnvironment).create_snapshot(name)
        return f"saved {name}"

    return execute


@tool
def go_back() -> Tool:
    async def execute(name: str) -> str:
        """Put the VM back to what was saved.

        Args:
            name: what it was called
        """
        await sandbox().as_type(ProxmoxSandboxEnvironment).restore_snapshot(name)
        return f"back at {name}"

    return execute


@task
def snapshot_tools() -> Task:
    source = VmSourceConfig(existing_vm_template_tag=TEMPLATE)
    config = one_vm(source, ram_mb=256, vcpus=1)
    agent = basic_agent(tools=[bash(timeout=600), save_point(), go_back()], message_limit=20)
    return on(config, "42", agent)


@task
def attacker_and_victim() -> Task:
    config = ProxmoxSandboxEnvironmentConfig(
        vms_config=(
            VmConfig(
                vm_source_config=VmSourceConfig(built_in="ubuntu24.04"),
                name="agent",
                nics=(VmNicConfig(vnet_alias="ctf_net"),),
            ),
            VmConfig(
                vm_source_config=VmSourceConfig(ova=Path(os.environ["EXAMPLE_OVA"])),
                name="victim",
                disk_controller="ide",
                nic_controller="e1000",
                is_sandbox=False,
                nics=(VmNicConfig(vnet_alias="ctf_net"),),
            ),
        ),
        sdn_config=SdnConfig(
            vnet_configs=(VnetConfig(alias="ctf_net", subnets=(subnet(40, snat=True),)),)
        ),
    )
    return on(config, "agent", names_the_host("default"))
