"""Methods that start and stop VMs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .app import Call, route
from .errors import TaskFailed
from .state import Vm
from .tasks import Task


def late(call: Call) -> Vm:
    """The VM as a task finds it: these calls answer with a task even when there is no VM."""
    vm = call.state.vms.get(call["vmid"])
    if vm is None or vm.node != call["node"]:
        raise TaskFailed(
            f"Configuration file 'nodes/{call['node']}/qemu-server/{call['vmid']}.conf' "
            "does not exist"
        )
    if not call.get("skiplock"):
        vm.check_lock()
    return vm


@route("GET /nodes/{node}/qemu/{vmid}/status/current", "/vms/{vmid}", "VM.Audit")
async def current(call: Call) -> Any:
    return call.state.vm(call["node"], call["vmid"]).current()


@route("POST /nodes/{node}/qemu/{vmid}/status/start", "/vms/{vmid}", "VM.PowerMgmt")
async def start(call: Call) -> Any:
    call.state.node(call["node"])

    async def work(task: Task) -> None:
        vm = late(call)
        if vm.template:
            raise TaskFailed("you can't start a vm if it's a template")
        if vm.running:
            raise TaskFailed(f"VM {vm.vmid} already running")
        await call.app.machines.start(vm, task)

    return call.task("qmstart", call["vmid"], work)


@route("POST /nodes/{node}/qemu/{vmid}/status/stop", "/vms/{vmid}", "VM.PowerMgmt")
async def stop(call: Call) -> Any:
    call.state.node(call["node"])

    async def work(task: Task) -> None:
        await call.app.machines.stop(late(call))

    return call.task("qmstop", call["vmid"], work)


@route("POST /nodes/{node}/qemu/{vmid}/status/shutdown", "/vms/{vmid}", "VM.PowerMgmt")
async def shutdown(call: Call) -> Any:
    call.state.node(call["node"])

    async def work(task: Task) -> None:
        vm = late(call)
        if not vm.running:
            return
        if not await call.app.machines.shutdown(vm, call.get("timeout", 60)):
            if not call.get("forceStop"):
                raise TaskFailed("VM quit/powerdown failed - got timeout")
            await call.app.machines.stop(vm)

    return call.task("qmshutdown", call["vmid"], work)


def while_running(call: Call, kind: str, change: Callable[[Vm], Awaitable[None]]) -> Any:
    """A task that wants a VM that is switched on."""
    call.state.vm(call["node"], call["vmid"])

    async def work(task: Task) -> None:
        vm = late(call)
        if not vm.running:
            raise TaskFailed(f"VM {vm.vmid} not running")
        await change(vm)

    return call.task(kind, call["vmid"], work)


@route("POST /nodes/{node}/qemu/{vmid}/status/reboot", "/vms/{vmid}", "VM.PowerMgmt")
@route("POST /nodes/{node}/qemu/{vmid}/status/reset", "/vms/{vmid}", "VM.PowerMgmt")
async def reset(call: Call) -> Any:
    return while_running(call, "qmreset", call.app.machines.reset)


@route("POST /nodes/{node}/qemu/{vmid}/status/suspend", "/vms/{vmid}", "VM.PowerMgmt")
async def suspend(call: Call) -> Any:
    kind = "qmsuspend" if call.get("todisk") else "qmpause"
    return while_running(call, kind, lambda vm: call.app.machines.pause(vm, True))


@route("POST /nodes/{node}/qemu/{vmid}/status/resume", "/vms/{vmid}", "VM.PowerMgmt")
async def resume(call: Call) -> Any:
    return while_running(call, "qmresume", lambda vm: call.app.machines.pause(vm, False))
