"""Real VMs: a QEMU process each, booting one kernel and initramfs whatever is on their disks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .agent import AgentError
from .errors import TaskFailed
from .machines import Machines
from .qga import QgaAgent, Qmp
from .state import Vm
from .terminal import SerialPort
from .userland import kernel_of, with_stubs
from .wire import GROUP, LOOPBACK, Wires

if TYPE_CHECKING:
    from .app import App

CPU = "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand"
APPEND = (
    "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check tsc=reliable mitigations=off"
)
START_SECONDS = 60
PDEATHSIG = 1
NICS = {"virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e", "vmxnet3": "vmxnet3"}
# Enough for tests, whatever the configuration says: nothing here may fill the machine's memory.
MEMORY_MAX = 512


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)


class QemuMachine:
    """One QEMU process and its sockets."""

    def __init__(
        self, vm: Vm, folder: Path, process: asyncio.subprocess.Process, wait: float
    ) -> None:
        self.process = process
        self.pid = process.pid
        self.folder = folder
        self.qmp = Qmp(str(folder / "qmp"))
        self.agent = QgaAgent(str(folder / "agent"), wait)
        self.agent_from = 0.0
        self.agent_gone = False
        self.ports: dict[int, SerialPort] = {}
        for number in serials(vm):
            self.ports[number] = SerialPort(str(folder / f"serial{number}"))
        self.plugged: set[str] = set()

    def serial(self, number: int) -> SerialPort | None:
        return self.ports.get(number)


def serials(vm: Vm) -> list[int]:
    return [number for number in range(4) if vm.config.get(f"serial{number}") == "socket"]


class QemuMachines(Machines):
    """Starts QEMU for VMs that are switched on."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.kernel, initrd = kernel_of(app.options)
        self.initrd = with_stubs(initrd, app.state.dir)
        self.sockets = app.state.dir / "run"
        self.sockets.mkdir(exist_ok=True)
        self.wires = Wires(app)

    async def launch(self, vm: Vm, incoming: str = "") -> QemuMachine:
        folder = self.sockets / f"{vm.vmid}-{time.monotonic_ns()}"
        folder.mkdir()
        argv = self.command_line(vm, folder)
        if incoming:
            argv += ["-incoming", f"exec:cat {incoming}"]
        log = (folder / "log").open("wb")
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
        )
        log.close()
        wait = max(3.0 * self.app.scale, 1.0)
        machine = QemuMachine(vm, folder, process, wait)
        try:
            await self.ready(machine)
        except Exception:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            text = (folder / "log").read_text(errors="replace").strip()
            raise TaskFailed(f"start failed: QEMU exited with code 1: {text[-300:]}") from None
        self.watch(vm, machine)
        return machine

    async def ready(self, machine: QemuMachine) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                await machine.qmp.start()
                break
            except OSError:
                if machine.process.returncode is not None or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)
        for port in machine.ports.values():
            await port.open()

    def watch(self, vm: Vm, machine: QemuMachine) -> None:
        async def wait() -> None:
            await machine.process.wait()
            if vm.machine is machine:
                vm.running, vm.paused, vm.machine = False, False, None
            machine.agent.close()
            machine.qmp.disconnect()
            for port in machine.ports.values():
                port.close()
            shutil.rmtree(machine.folder, ignore_errors=True)

        vm.watcher = asyncio.create_task(wait())

    def command_line(self, vm: Vm, folder: Path) -> list[str]:
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
        argv += ["-name", f"pve-test-{vm.vmid}", "-machine", "q35,vmport=off", "-accel", "tcg"]
        argv += [
            "-cpu",
            CPU,
            "-m",
            str(min(vm.memory() >> 20, MEMORY_MAX)),
            "-smp",
            str(min(vm.cores(), 2)),
        ]
        argv += ["-kernel", self.kernel, "-initrd", self.initrd, "-append", APPEND]
        argv += ["-device", "virtio-rng-pci", "-device", "virtio-scsi-pci,id=scsi"]
        argv += ["-chardev", f"socket,id=qmp,path={folder}/qmp,server=on,wait=off"]
        argv += ["-mon", "chardev=qmp,mode=control"]
        for number in serials(vm):
            path = folder / f"serial{number}"
            argv += ["-chardev", f"socket,id=serial{number},path={path},server=on,wait=off"]
            argv += ["-device", f"isa-serial,chardev=serial{number}"]
        if vm.agent_enabled():
            argv += ["-chardev", f"socket,id=agent,path={folder}/agent,server=on,wait=off"]
            argv += ["-device", "virtio-serial-pci"]
            argv += ["-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"]
        for key, parts in vm.nets().items():
            argv += self.net(key, parts)
        if any(key.startswith("sata") for key in vm.drives()):
            argv += ["-device", "ich9-ahci,id=ahci"]
        for key, parts in vm.drives().items():
            argv += self.drive(vm, key, parts)
        return argv

    def net(self, key: str, parts: dict[str, str]) -> list[str]:
        model, mac = next(iter(parts.items()))
        bridge = parts.get("bridge", "vmbr0")
        port = self.wires.port(bridge)
        return [
            "-netdev",
            f"socket,id={key},mcast={GROUP}:{port},localaddr={LOOPBACK}",
            "-device",
            f"{NICS.get(model, 'virtio-net-pci')},netdev={key},mac={mac},romfile=,id=nic-{key}",
        ]

    def drive(self, vm: Vm, key: str, parts: dict[str, str]) -> list[str]:
        volume = self.app.state.volume(vm.node, parts.get("file", ""))
        if key.startswith(("unused", "tpmstate", "efidisk")):
            return []
        disc = parts.get("media") == "cdrom"
        path = str(volume.path) if volume and volume.path.exists() else ""
        if not path and not disc:
            return []
        device = "cd" if disc else "hd"
        if key.startswith("virtio"):
            words = ["-device", f"virtio-blk-pci,id={key},drive=drive-{key}"]
        elif key.startswith("scsi"):
            words = [
                "-device",
                f"scsi-{device},bus=scsi.0,scsi-id={key[4:]},lun=0,id={key},drive=drive-{key}",
            ]
        else:
            bus = "ide" if key.startswith("ide") else "ahci"
            unit = key.lstrip("idesat")
            words = ["-device", f"ide-{device},bus={bus}.{unit},id={key},drive=drive-{key}"]
        form = "format=qcow2" if path and is_qcow2(Path(path)) else "format=raw"
        file = f",file={path},{form}" if path else ""
        return [
            "-drive",
            f"if=none,id=drive-{key}{file}" + (",media=cdrom,readonly=on" if disc else ""),
            *words,
        ]

    # --- life ---

    async def close(self) -> None:
        await super().close()
        self.wires.close()

    async def end(self, vm: Vm) -> None:
        machine = vm.machine
        if isinstance(machine, QemuMachine):
            with contextlib.suppress(ProcessLookupError):
                machine.process.kill()
            await machine.process.wait()

    async def shutdown(self, vm: Vm, seconds: float) -> bool:
        machine = vm.machine
        await machine.qmp.command("system_powerdown")
        try:
            await asyncio.wait_for(asyncio.shield(machine.process.wait()), seconds)
        except (TimeoutError, asyncio.TimeoutError):
            return False
        await self.stop(vm)
        return True

    async def reset(self, vm: Vm) -> None:
        await vm.machine.qmp.command("system_reset")
        vm.machine.agent.answered = vm.machine.agent.in_step = False

    async def pause(self, vm: Vm, paused: bool) -> None:
        await vm.machine.qmp.command("stop" if paused else "cont")
        vm.paused = paused

    async def changed(self, vm: Vm, params: dict[str, Any]) -> None:
        """Discs come and go while the VM runs; so do SCSI drives."""
        machine = vm.machine
        if not vm.running or not isinstance(machine, QemuMachine):
            return
        drives = vm.drives()
        for key in list(machine.plugged):
            if key not in drives:
                await self.unplug(machine, key)
        for key in params:
            if key not in drives:
                continue
            volume = self.app.state.volume(vm.node, drives[key].get("file", ""))
            path = str(volume.path) if volume and volume.path.exists() else ""
            try:
                await self.plug(machine, key, path, drives[key].get("media") == "cdrom")
            except AgentError as why:
                raise TaskFailed(f"hotplug problem - {why}") from None

    async def plug(self, machine: QemuMachine, key: str, path: str, disc: bool) -> None:
        devices = {
            row["qdev"] for row in await machine.qmp.command("query-block") if row.get("qdev")
        }
        if key in devices and disc:
            if path:
                await machine.qmp.command(
                    "blockdev-change-medium", id=key, filename=path, format="raw"
                )
            else:
                await machine.qmp.command("eject", id=key, force=True)
            return
        if not key.startswith("scsi") or not path:
            return
        form = "qcow2" if is_qcow2(Path(path)) else "raw"
        node = {
            "driver": form,
            "node-name": f"node-{key}",
            "file": {"driver": "file", "filename": path},
        }
        await machine.qmp.command("blockdev-add", **node, read_only=disc)
        device = "scsi-cd" if disc else "scsi-hd"
        place = {"bus": "scsi.0", "scsi-id": int(key[4:]), "lun": 0}
        await machine.qmp.command("device_add", driver=device, id=key, drive=f"node-{key}", **place)
        machine.plugged.add(key)

    async def unplug(self, machine: QemuMachine, key: str) -> None:
        machine.plugged.discard(key)
        with contextlib.suppress(AgentError):
            await machine.qmp.command("device_del", id=key)
            for _ in range(50):
                await asyncio.sleep(0.1)
                try:
                    await machine.qmp.command("blockdev-del", node_name=f"node-{key}")
                    break
                except AgentError:
                    continue

    # --- snapshots ---

    async def snapshot(self, vm: Vm, name: str, with_state: bool) -> Any:
        folder = self.app.state.dir / f"snapshot-{vm.vmid}-{name}"
        folder.mkdir(exist_ok=True)
        machine = vm.machine
        if vm.running:
            await machine.qmp.command("stop")
        try:
            if vm.running and with_state:
                await machine.qmp.command("migrate", uri=f"exec:cat > {folder}/state")
                await self.migrated(machine)
            for key, parts in vm.drives().items():
                volume = self.app.state.volume(vm.node, parts.get("file", ""))
                if volume and volume.content == "images" and volume.path.exists():
                    await copy_sparse(volume.path, folder / key)
        finally:
            if vm.running:
                await machine.qmp.command("cont")
        return {"folder": str(folder), "state": with_state and vm.running}

    async def migrated(self, machine: QemuMachine) -> None:
        while True:
            status = (await machine.qmp.command("query-migrate")).get("status")
            if status == "completed":
                return
            if status in ("failed", "cancelled"):
                raise TaskFailed("snapshot of the VM's state failed")
            await asyncio.sleep(0.05)

    async def rollback(self, vm: Vm, name: str, entry: dict[str, Any]) -> None:
        await self.stop(vm)
        if not entry["state"]:
            return
        folder = Path(entry["state"]["folder"])
        for key, parts in vm.drives().items():
            volume = self.app.state.volume(vm.node, parts.get("file", ""))
            if volume and (folder / key).exists():
                await copy_sparse(folder / key, volume.path)
        if entry["state"]["state"]:
            vm.machine = await self.launch(vm, incoming=str(folder / "state"))
            vm.running, vm.started = True, time.time()
            while True:
                if (await vm.machine.qmp.command("query-status"))["status"] != "inmigrate":
                    break
                await asyncio.sleep(0.05)
            await vm.machine.qmp.command("cont")

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        shutil.rmtree(self.app.state.dir / f"snapshot-{vm.vmid}-{name}", ignore_errors=True)

    async def forget(self, vm: Vm) -> None:
        for name in vm.snapshots:
            await self.drop_snapshot(vm, name)

    def copy_disk(self, source: Path, target: Path, linked: bool) -> None:
        if not source.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        form = "qcow2" if is_qcow2(source) else "raw"
        if linked:
            command = [
                "qemu-img",
                "create",
                "-q",
                "-f",
                "qcow2",
                "-b",
                str(source),
                "-F",
                form,
                str(target),
            ]
        else:
            command = ["qemu-img", "convert", "-f", form, "-O", "qcow2", str(source), str(target)]
        subprocess.run(command, check=True, capture_output=True)


async def copy_sparse(source: Path, target: Path) -> None:
    words = ["cp", "--sparse=always", "--reflink=auto", str(source), str(target)]
    process = await asyncio.create_subprocess_exec(*words)
    if await process.wait() != 0:
        raise TaskFailed(f"copy of {source.name} failed")


def is_qcow2(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"QFI\xfb"
