"""Methods that make, change and remove VMs."""

from __future__ import annotations

import asyncio
import copy
import re
import time
from typing import Any

from .app import Call, route
from .config import NOT_CONFIG, Configurer, check_digest
from .errors import Abandoned, ApiError, TaskFailed, bad_parameters, fail
from .formats import split_list
from .state import Vm, new_mac
from .tasks import Task

CONFIG_PRIVILEGES = (
    "VM.Config.Disk",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.HWType",
    "VM.Config.Options",
    "VM.Config.Cloudinit",
)
LOCK_WAIT = 10.0
# A clone waits less: for its original's lock, then for that of the new number.
CLONE_LOCK_WAIT = 1.0
# What a clone does not have of its original.
OWN = re.compile(r"^(unused\d+|net\d+|parent|snaptime)$")


def configurer(call: Call, vm: Vm) -> Configurer:
    return Configurer(call.app, vm, call.user)


async def file_lock(call: Call, vmid: int, seconds: float = LOCK_WAIT) -> None:
    """Waits for the lock of a configuration file, as long as the genuine server does."""
    deadline = time.monotonic() + seconds * call.app.scale
    while call.state.is_busy(vmid):
        if time.monotonic() >= deadline:
            raise fail(f"can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
        await asyncio.sleep(0.01)


@route("GET /nodes/{node}/qemu")
async def vms(call: Call) -> Any:
    call.state.node(call["node"])
    may = call.app.auth.may
    return [
        vm.status()
        for vm in call.state.vms.values()
        if vm.node == call["node"] and may(call.user, f"/vms/{vm.vmid}", "VM.Audit")
    ]


@route("POST /nodes/{node}/qemu", "/vms/{vmid}", "VM.Allocate")
async def create(call: Call) -> Any:
    node = call.state.node(call["node"]).name
    vmid = call["vmid"]
    if call.get("archive"):
        raise fail("restoring archives is not part of this test server")
    if vmid in call.state.vms:
        raise fail(
            f"unable to create VM {vmid} - VM {vmid} already exists on node "
            f"'{call.state.vms[vmid].node}'"
        )
    if call.get("pool") and call["pool"] not in call.state.pools:
        raise fail(f"pool '{call['pool']}' does not exist")
    vm = Vm(vmid, node)
    configurer(call, vm).check(call.params)
    vm.lock = "create"
    vm.creating = True
    call.state.vms[vmid] = vm
    call.app.made.append(f"vm {vmid}")

    async def work(task: Task) -> None:
        try:
            await task.spend()
            configurer(call, vm).set_all(call.params)
        except Abandoned:
            raise
        except BaseException as why:
            await remove(call, vm)
            raise TaskFailed(f"unable to create VM {vmid} - {why}") from why
        vm.config.setdefault("smbios1", f"uuid=00000000-0000-4000-8000-{vmid:012d}")
        vm.config.setdefault("vmgenid", f"00000000-0000-4000-9000-{vmid:012d}")
        vm.config.setdefault("meta", f"creation-qemu=10.1.2,ctime={int(time.time())}")
        vm.lock, vm.creating = "", False
        if call.get("template"):
            vm.template = True
        if call.get("pool"):
            call.state.pools[call["pool"]]["vms"].add(vmid)
        if call.get("start"):
            await call.app.machines.start(vm, task)

    return call.task("qmcreate", vmid, work, early=True)


async def remove(call: Call, vm: Vm, task: Task | None = None) -> None:
    """Everything of a VM: disks, addresses, its place in pools. Disks may stay, with a warning."""
    changer = configurer(call, vm)
    for text in [
        str(value)
        for key, value in vm.config.items()
        if key.startswith("net") and key[3:].isdigit()
    ]:
        changer.free_net(text)
    for storage in call.state.storages[vm.node].values():
        for volid in [
            key
            for key, volume in storage.volumes.items()
            if volume.vmid == vm.vmid and volume.content == "images"
        ]:
            try:
                if task:
                    storage.lock()
                call.state.drop_volume(vm.node, volid)
            except ApiError as why:
                task.warn(f"Could not remove disk '{volid}', check manually: {why}")
    for pool in call.state.pools.values():
        pool["vms"].discard(vm.vmid)
    call.state.firewall.pop(f"vm/{vm.vmid}", None)
    call.state.vms.pop(vm.vmid, None)


@route("DELETE /nodes/{node}/qemu/{vmid}", "/vms/{vmid}", "VM.Allocate")
async def destroy(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    if vm.config.get("protection"):
        raise fail(f"can't remove VM {vm.vmid} - protection mode enabled")
    if vm.running:
        raise fail(f"VM {vm.vmid} is running - destroy failed")

    async def work(task: Task) -> None:
        if call.state.vms.get(vm.vmid) is not vm:
            raise TaskFailed(
                f"Configuration file 'nodes/{vm.node}/qemu-server/{vm.vmid}.conf' does not exist"
            )
        if vm.lock and not call.get("skiplock"):
            raise TaskFailed(f"VM is locked ({vm.lock})")
        if vm.running:
            raise TaskFailed(f"VM {vm.vmid} is running - destroy failed")
        mine = [
            volume
            for storage in call.state.storages[vm.node].values()
            for volume in storage.volumes.values()
        ]
        for volume in [volume for volume in mine if volume.vmid == vm.vmid]:
            if any(other.parent == volume.volid for other in mine):
                raise TaskFailed(f"base volume '{volume.volid}' is still in use by linked cloned")
        await call.app.machines.forget(vm)
        await remove(call, vm, task)

    return call.task("qmdestroy", vm.vmid, work)


@route("GET /nodes/{node}/qemu/{vmid}", "/vms/{vmid}", "VM.Audit")
async def vm_index(call: Call) -> Any:
    call.state.vm(call["node"], call["vmid"])
    return [
        {"subdir": name} for name in ("config", "status", "snapshot", "agent", "clone", "firewall")
    ]


@route("GET /nodes/{node}/qemu/{vmid}/config", "/vms/{vmid}", "VM.Audit")
async def config(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    if call.get("snapshot"):
        return snapshot_of(vm, call["snapshot"])["config"]
    shown = vm.shown_config()
    if not call.get("current"):
        shown.update(vm.pending)
        for key in vm.pending_delete:
            shown.pop(key, None)
    if "cipassword" in shown:
        shown["cipassword"] = "**********"
    return shown


@route("GET /nodes/{node}/qemu/{vmid}/pending", "/vms/{vmid}", "VM.Audit")
async def pending(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    rows: list[dict[str, Any]] = []
    for key in sorted({*vm.config, *vm.pending}):
        row: dict[str, Any] = {"key": key}
        if key in vm.config:
            row["value"] = vm.config[key]
        if key in vm.pending:
            row["pending"] = vm.pending[key]
        if key in vm.pending_delete:
            row["delete"] = 1
        rows.append(row)
    return rows


async def change(call: Call, vm: Vm) -> None:
    params = {key: value for key, value in call.params.items() if key not in NOT_CONFIG}
    changer = configurer(call, vm)
    for key in str(call.get("revert") or "").split(","):
        vm.pending.pop(key, None)
    if call.get("delete"):
        changer.delete(call["delete"])
    changer.set_all(params)
    await call.app.machines.changed(vm, params)


async def check_change(call: Call) -> Vm:
    vm = call.state.vm(call["node"], call["vmid"])
    if not any(
        name not in ("node", "vmid", "digest", "skiplock", "background_delay")
        for name in call.params
    ):
        raise fail("no options specified")
    await file_lock(call, vm.vmid)
    check_digest(vm, call.get("digest"))
    if not call.get("skiplock"):
        vm.check_lock()
    configurer(call, vm).check(call.params)
    return vm


@route("PUT /nodes/{node}/qemu/{vmid}/config", "/vms/{vmid}", *CONFIG_PRIVILEGES, any_of=True)
async def config_put(call: Call) -> Any:
    vm = await check_change(call)
    await change(call, vm)


@route("POST /nodes/{node}/qemu/{vmid}/config", "/vms/{vmid}", *CONFIG_PRIVILEGES, any_of=True)
async def config_post(call: Call) -> Any:
    vm = await check_change(call)

    async def work(task: Task) -> None:
        await file_lock(call, vm.vmid)
        vm.check_lock()
        await change(call, vm)

    return call.task("qmconfig", vm.vmid, work)


@route("PUT /nodes/{node}/qemu/{vmid}/resize", "/vms/{vmid}", "VM.Config.Disk")
async def resize(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    vm.check_lock()
    check_digest(vm, call.get("digest"))
    disk = call["disk"]
    if disk not in vm.config:
        raise fail(f"disk '{disk}' does not exist")
    parts = split_list(str(vm.config[disk]), "file")
    volume = call.state.volume(vm.node, parts["file"])
    if volume is None:
        raise fail(f"volume '{parts['file']}' does not exist")
    text = call["size"]
    unit = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1], 0)
    size = int(float(text.lstrip("+").rstrip("KMGT")) * (1 << unit))
    size = volume.size + size if text.startswith("+") else size
    if size < volume.size:
        raise fail("shrinking disks is not supported")

    async def work(task: Task) -> None:
        from .config import show_size

        volume.size = size
        if volume.path.exists():
            with volume.path.open("r+b") as file:
                file.truncate(size)
        rest = [f"{key}={value}" for key, value in parts.items() if key not in ("file", "size")]
        vm.config[disk] = ",".join([parts["file"], *rest, f"size={show_size(size)}"])

    return call.task("resize", vm.vmid, work)


@route("POST /nodes/{node}/qemu/{vmid}/template", "/vms/{vmid}", "VM.Allocate")
async def template(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    vm.check_lock()
    if vm.snapshots:
        raise fail("unable to create template, because VM contains snapshots")
    if vm.template:
        raise fail("you can't convert a template to a template")
    if vm.running:
        raise fail("you can't convert a VM to template if VM is running")

    async def work(task: Task) -> None:
        vm.template = True
        for key, parts in vm.drives().items():
            volume = call.state.volume(vm.node, parts.get("file", ""))
            if (
                volume
                and volume.content == "images"
                and volume.volid.split(":", 1)[1].startswith("vm-")
            ):
                storage = call.state.storage(vm.node, volume.volid.split(":")[0])
                old = volume.volid
                volume.volid = old.replace(":vm-", ":base-", 1)
                storage.volumes[volume.volid] = storage.volumes.pop(old)
                vm.config[key] = str(vm.config[key]).replace(old, volume.volid, 1)

    return call.task("qmtemplate", vm.vmid, work)


@route("POST /nodes/{node}/qemu/{vmid}/clone", "/vms/{vmid}", "VM.Clone")
async def clone(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    newid = call["newid"]
    call.require(f"/vms/{newid}", "VM.Allocate")
    if call.get("pool") and call["pool"] not in call.state.pools:
        raise fail(f"pool '{call['pool']}' does not exist")
    full = call.get("full")
    if full is None:
        full = not vm.template
    if call.get("storage") and not full:
        raise bad_parameters({"storage": "parameter 'storage' not allowed for linked clones"})
    vm.check_lock()
    if newid in call.state.vms:
        raise fail(f"unable to create VM {newid}: config file already exists")
    if not full and not vm.template:
        drives = {key: parts.get("file") for key, parts in vm.drives().items()}
        key, volid = next(iter(drives.items()), ("scsi0", ""))
        raise fail(f"Linked clone feature is not supported for '{volid}' ({key})")

    async def make(task: Task) -> None:
        if newid in call.state.vms:
            raise TaskFailed(f"unable to create VM {newid}: config file already exists")
        new = Vm(newid, call.get("target", vm.node))
        new.lock, new.creating = "clone", True
        call.state.vms[newid] = new
        call.app.made.append(f"vm {newid}")
        copy_firewall(call, vm, new)
        try:
            await task.spend()
            fill_clone(call, vm, new, full)
        except Abandoned:
            raise
        except BaseException as why:
            await remove(call, new)
            raise TaskFailed(f"clone failed: {why}") from why
        new.lock, new.creating = "", False

    async def work(task: Task) -> None:
        await file_lock(call, vm.vmid, CLONE_LOCK_WAIT)
        await file_lock(call, newid, CLONE_LOCK_WAIT)
        call.state.held.add(newid)
        try:
            await make(task)
        finally:
            call.state.held.discard(newid)

    return call.task("qmclone", vm.vmid, work, early=True)


def copy_firewall(call: Call, vm: Vm, new: Vm) -> None:
    """A clone has its original's rules."""
    rules = call.state.firewall.get(f"vm/{vm.vmid}")
    call.state.firewall.pop(f"vm/{new.vmid}", None)
    if rules:
        call.state.firewall[f"vm/{new.vmid}"] = copy.deepcopy(rules)


def fill_clone(call: Call, vm: Vm, new: Vm, full: bool) -> None:
    source = copy.deepcopy(vm.config)
    # Everything else comes along: tags and description too.
    new.config = {key: value for key, value in source.items() if not OWN.match(key)}
    copied = f"Copy-of-{vm.name()}" if "name" in vm.config else f"Copy-of-VM-{vm.vmid}"
    new.config["name"] = call.get("name") or copied
    changer = configurer(call, new)
    for key, parts in vm.drives().items():
        volume = call.state.volume(vm.node, parts.get("file", ""))
        if volume is None or volume.content != "images" or key.startswith("unused"):
            continue
        storage = call.get("storage") or volume.volid.split(":")[0]
        made = call.state.new_volume(
            new.node, storage, new.vmid, volume.size, call.get("format") or "raw"
        )
        if not full:
            made.parent = volume.volid
        changer.app.machines.copy_disk(volume.path, made.path, linked=not full)
        text = str(vm.config[key]).replace(volume.volid, made.volid, 1)
        new.config[key] = text
    for key, value in source.items():
        if key.startswith("net") and key[3:].isdigit():
            parts = split_list(str(value), "model")
            model = next(iter(parts))
            parts[model] = new_mac()
            changer.set_net(key, ",".join(f"{name}={part}" for name, part in parts.items()))
    if call.get("description"):
        new.config["description"] = call["description"]
    new.config["smbios1"] = f"uuid=00000000-0000-4000-8000-{new.vmid:012d}"
    if call.get("pool"):
        call.state.pools[call["pool"]]["vms"].add(new.vmid)


# --- snapshots ---


def snapshot_of(vm: Vm, name: str) -> dict[str, Any]:
    if name not in vm.snapshots:
        raise fail(f"snapshot '{name}' does not exist")
    return vm.snapshots[name]


@route("GET /nodes/{node}/qemu/{vmid}/snapshot", "/vms/{vmid}", "VM.Audit")
async def snapshots(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    rows = [
        {
            key: value
            for key, value in entry.items()
            if key not in ("config", "state", "parent") or (key == "parent" and value)
        }
        | {"name": name}
        for name, entry in vm.snapshots.items()
    ]
    now: dict[str, Any] = {
        "name": "current",
        "description": "You are here!",
        "digest": vm.digest(),
        "running": int(vm.running),
    }
    if vm.parent:
        now["parent"] = vm.parent
    return [*rows, now]


@route(
    "GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config",
    "/vms/{vmid}",
    "VM.Snapshot",
    "VM.Audit",
    any_of=True,
)
async def snapshot_config(call: Call) -> Any:
    return snapshot_of(call.state.vm(call["node"], call["vmid"]), call["snapname"])["config"]


@route("POST /nodes/{node}/qemu/{vmid}/snapshot", "/vms/{vmid}", "VM.Snapshot")
async def snapshot(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    name = call["snapname"]
    if name in ("current", "pending"):
        raise fail(f"unable to use snapshot name '{name}' (reserved name)")

    async def work(task: Task) -> None:
        await file_lock(call, vm.vmid)
        vm.check_lock()
        if name in vm.snapshots:
            raise TaskFailed(f"snapshot name '{name}' already used")
        if vm.template:
            raise TaskFailed("Template can't be snapshotted")
        vm.lock = "snapshot"
        try:
            await task.spend()
            kept = await call.app.machines.snapshot(vm, name, bool(call.get("vmstate")))
        finally:
            vm.lock = ""
        vm.snapshots[name] = {
            "config": copy.deepcopy(vm.config),
            "snaptime": int(time.time()),
            "vmstate": int(bool(call.get("vmstate")) and vm.running),
            "description": call.get("description", ""),
            "parent": vm.parent,
            "state": kept,
        }
        vm.parent = name

    return call.task("qmsnapshot", vm.vmid, work, early=True)


@route(
    "POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback",
    "/vms/{vmid}",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
    any_of=True,
)
async def rollback(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    name = call["snapname"]

    async def work(task: Task) -> None:
        await file_lock(call, vm.vmid)
        entry = snapshot_of(vm, name)
        vm.check_lock()
        vm.lock = "rollback"
        was_running = vm.running
        try:
            await task.spend()
            vm.config = copy.deepcopy(entry["config"])
            if entry["vmstate"]:
                await start_again(call, vm, task)
            await call.app.machines.rollback(vm, name, entry)
        finally:
            vm.lock = ""
        vm.parent = name
        if call.get("start") and not vm.running:
            await call.app.machines.start(vm, task)
        if was_running:
            # The old process lets go of the configuration file only after a while.
            vm.busy_until = time.monotonic() + call.app.rollback_hold * call.app.scale

    return call.task("qmrollback", vm.vmid, work, early=True)


async def start_again(call: Call, vm: Vm, task: Task) -> None:
    """A VM that is taken back with its memory is one that starts: it may be stopped after this."""
    try:
        call.app.machines.connect(vm, task)
    except Exception:
        await call.app.machines.stop(vm)
        raise


@route("DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname}", "/vms/{vmid}", "VM.Snapshot")
async def snapshot_delete(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    name = call["snapname"]

    async def work(task: Task) -> None:
        await file_lock(call, vm.vmid)
        entry = snapshot_of(vm, name)
        if not call.get("force"):
            vm.check_lock()
        await call.app.machines.drop_snapshot(vm, name)
        for other in vm.snapshots.values():
            if other["parent"] == name:
                other["parent"] = entry["parent"]
        if vm.parent == name:
            vm.parent = entry["parent"]
        del vm.snapshots[name]

    return call.task("qmdelsnapshot", vm.vmid, work)
