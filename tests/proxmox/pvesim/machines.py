"""What runs behind the VMs of `--vms none`: nothing. The other kinds build on this."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .agent import Agent, FakeAgent
from .config import Configurer
from .errors import TaskFailed
from .formats import split_list
from .state import Vm
from .tasks import Task
from .windows import WindowsAgent

if TYPE_CHECKING:
    from .app import App


class Machine:
    """A VM that is switched on, with nothing behind it."""

    def __init__(self, vm: Vm) -> None:
        self.pid = 20000 + vm.vmid
        windows = str(vm.config.get("ostype", "")).startswith("w")
        self.agent: Agent = WindowsAgent(vm.name()) if windows else FakeAgent(vm.name())
        # Set by a test: from when on the agent is there, and whether it has gone.
        self.agent_from = 0.0
        self.agent_gone = False

    def serial(self, number: int) -> Any:
        """A serial port, if the VM really has one."""
        return None


def check_cpu(vm: Vm, has_kvm: bool, task: Task) -> None:
    """A node without KVM emulates VMs that say so, if QEMU can emulate their processor."""
    if has_kvm:
        return
    if str(vm.config.get("kvm", "1")) != "0":
        raise TaskFailed(
            "KVM virtualisation configured, but not available. Either disable in VM "
            "configuration or enable in BIOS."
        )
    if str(vm.config.get("cpu", "")).removeprefix("cputype=").split(",")[0] == "host":
        task.say("kvm: CPU model 'host' requires KVM or HVF")
        raise TaskFailed("start failed: QEMU exited with code 1")


class Machines:
    """Starts and stops; the real ones build on this."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.boot_seconds = 0.0
        # From the start of a VM until its guest has asked for addresses; negative: it never does.
        self.dhcp_seconds = 0.0
        # By VM and its start: the addresses that its cards have got.
        self.leases: dict[tuple[int, float], dict[str, str]] = {}

    async def start(self, vm: Vm, task: Task) -> None:
        Configurer(self.app, vm, "root@pam").apply_pending()
        self.connect(vm, task)
        for parts in vm.drives().values():
            volid = parts.get("file", "")
            if ":" in volid and self.app.state.volume(vm.node, volid) is None:
                raise TaskFailed(f"volume '{volid}' does not exist")
        node = self.app.state.node(vm.node)
        if self.app.state.memory_used(node.name) + vm.memory() > node.memory:
            raise TaskFailed(
                "start failed: QEMU exited with code 1: cannot set up guest memory: "
                "Cannot allocate memory"
            )
        check_cpu(vm, node.kvm, task)
        vm.machine = await self.launch(vm)
        vm.machine.agent_from = time.monotonic() + self.boot_seconds * self.app.scale
        vm.running, vm.paused, vm.started = True, False, time.time()

    def connect(self, vm: Vm, task: Task) -> None:
        for key, parts in vm.nets().items():
            bridge = parts.get("bridge", "")
            if bridge and not self.app.sdn.bridge_exists(vm.node, bridge):
                raise TaskFailed(f"bridge '{bridge}' does not exist")
            if bridge:
                self.app.sdn.start_card(vm, bridge, next(iter(parts.values())), task)
            task.say(f"{key} is on {bridge}")

    def lease(self, vm: Vm, bridge: str, mac: str) -> str:
        """The address that a card has got; once it has one, it keeps it."""
        leases = self.leases.setdefault((vm.vmid, vm.started), {})
        asked = self.dhcp_seconds >= 0 and time.time() - vm.started >= self.dhcp_seconds
        # While networks are applied, no DHCP server runs.
        if mac not in leases and asked and not self.app.sdn.reloading:
            address = self.app.sdn.address_of_card(bridge, mac)
            if address:
                leases[mac] = address
        return leases.get(mac, "")

    async def launch(self, vm: Vm) -> Any:
        return Machine(vm)

    async def stop(self, vm: Vm) -> None:
        await self.end(vm)
        vm.running, vm.paused, vm.machine = False, False, None
        Configurer(self.app, vm, "root@pam").apply_pending()

    async def end(self, vm: Vm) -> None:
        """Ends what runs."""

    async def shutdown(self, vm: Vm, seconds: float) -> bool:
        await self.stop(vm)
        return True

    async def reset(self, vm: Vm) -> None:
        if isinstance(vm.machine, Machine):
            vm.machine = await self.launch(vm)

    async def pause(self, vm: Vm, paused: bool) -> None:
        vm.paused = paused

    async def changed(self, vm: Vm, params: dict[str, Any]) -> None:
        """A running VM's configuration has changed: discs, network cards."""

    async def snapshot(self, vm: Vm, name: str, with_state: bool) -> Any:
        if not vm.running or not with_state or vm.machine is None:
            return None
        return {"files": dict(vm.machine.agent.files), "disks": self.disks(vm)}

    async def rollback(self, vm: Vm, name: str, entry: dict[str, Any]) -> None:
        state = entry["state"]
        if state is None:
            await self.stop(vm)
            return
        if not vm.running:
            vm.machine = await self.launch(vm)
            vm.running, vm.started = True, time.time()
        vm.machine.agent.files = dict(state["files"])

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Forgets a snapshot's data."""

    async def forget(self, vm: Vm) -> None:
        """The VM is being removed."""

    def disks(self, vm: Vm) -> list[str]:
        return [
            split_list(str(value), "file").get("file", "")
            for key, value in vm.config.items()
            if key in vm.drives()
        ]

    def copy_disk(self, source: Path, target: Path, linked: bool) -> None:
        """A clone's disk."""

    async def close(self) -> None:
        for vm in self.app.state.vms.values():
            if vm.running:
                await self.end(vm)
