"""VMs that start at once: the same userland and the same real agent, in namespaces instead of QEMU.

For tests of many VMs where booting each would take too long. There is no kernel of their own, no
disk and no network in them, and a snapshot keeps files, not processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shutil
import subprocess
import time
import tty
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import TaskFailed
from .machines import Machines
from .qemu import die_with_parent, serials
from .qga import QgaAgent
from .state import Vm
from .terminal import SerialPort
from .userland import kernel_of, unpack

if TYPE_CHECKING:
    from .app import App

# $1 is the root directory, $2 the host name, the rest NAME=PATH of terminals to be serial ports.
START = """
set -e
root=$1; name=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
    : > "$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
for pair in "$@"; do
    : > "$root/dev/${pair%%=*}"
    mount --bind "${pair#*=}" "$root/dev/${pair%%=*}"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
hostname "$name"
ip link set lo up 2>/dev/null || true
cd "$root"
exec chroot . /bin/sh -c 'cd /; while :; do
    rm -f /run/agent /run/qemu-ga.pid
    qemu-ga -m unix-listen -p /run/agent -t /run -f /run/qemu-ga.pid || sleep 1
done'
"""
READY_SECONDS = 60


class PtyPort(SerialPort):
    """A pseudo terminal as a serial port: its other end is in the guest."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.path = os.ttyname(slave)
        # Kept open: a terminal without anyone on the other side would hang up.
        self.slave = slave
        os.set_blocking(self.master, False)
        self.reader: asyncio.StreamReader | None = None
        asyncio.get_running_loop().add_reader(self.master, self.readable)

    def readable(self) -> None:
        with contextlib.suppress(OSError):
            data = os.read(self.master, 65536)
            if self.reader is not None and data:
                self.reader.feed_data(data)

    async def connect(self) -> tuple[Any, Any]:
        self.reader = asyncio.StreamReader()
        return self.reader, PtyWriter(self, self.reader)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.master)
        for number in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(number)


class PtyWriter:
    """What a terminal's session writes through."""

    def __init__(self, port: PtyPort, reader: asyncio.StreamReader) -> None:
        self.port = port
        self.reader = reader
        self.waiting = b""

    def write(self, data: bytes) -> None:
        self.waiting += data

    async def drain(self) -> None:
        while self.waiting:
            try:
                written = os.write(self.port.master, self.waiting)
                self.waiting = self.waiting[written:]
            except BlockingIOError:
                await asyncio.sleep(0.002)

    def close(self) -> None:
        self.reader.feed_eof()
        if self.port.reader is self.reader:
            self.port.reader = None


class Container:
    """One set of namespaces with an agent in it."""

    def __init__(self, root: Path, process: asyncio.subprocess.Process, wait: float) -> None:
        self.root = root
        self.process = process
        self.pid = process.pid
        # Its path is too long for a socket's address if the working directory's is.
        self.agent = QgaAgent(str(root / "run" / "agent"), wait)
        self.agent_from = 0.0
        self.agent_gone = False
        self.ports: dict[int, PtyPort] = {}
        self.discs: dict[str, str] = {}

    def inside(self) -> int:
        """The process that has the VM's files as its own: the child of unshare."""
        text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return int(text.split()[0])

    def serial(self, number: int) -> SerialPort | None:
        return self.ports.get(number)


class ContainerMachines(Machines):
    """Starts namespaces for VMs that are switched on."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self.base = app.state.dir / "base"
        unpack(kernel_of(app.options)[1], self.base)

    async def launch(self, vm: Vm, root: Path | None = None) -> Container:
        if root is None:
            root = self.app.state.dir / f"c{vm.vmid}-{time.monotonic_ns() % 10**9}"
            await copy(self.base, root)
        ports = {number: PtyPort() for number in serials(vm)}
        pairs = [f"ttyS{index}={ports[number].path}" for index, number in enumerate(ports)]
        words = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--kill-child"]
        if os.geteuid() != 0:
            words += ["--user", "--map-root-user"]
        log = (root / "log").open("wb")
        process = await asyncio.create_subprocess_exec(
            *words,
            *["sh", "-c", START, "sh", str(root), vm.name(), *pairs],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,
            start_new_session=True,
        )
        log.close()
        machine = Container(root, process, max(3.0 * self.app.scale, 1.0))
        machine.ports = ports
        drives = [key for key, parts in vm.drives().items() if parts.get("media") == "cdrom"]
        machine.discs = {key: f"sr{number}" for number, key in enumerate(sorted(drives))}
        deadline = time.monotonic() + READY_SECONDS
        while not (root / "run" / "agent").exists():
            if process.returncode is not None or time.monotonic() > deadline:
                text = (root / "log").read_text(errors="replace")
                raise TaskFailed(f"start failed: {text[-300:]}")
            await asyncio.sleep(0.01)
        for key in machine.discs:
            self.insert(vm, machine, key)
        return machine

    async def end(self, vm: Vm) -> None:
        machine = vm.machine
        if not isinstance(machine, Container):
            return
        machine.agent.close()
        with contextlib.suppress(ProcessLookupError):
            machine.process.kill()
        await machine.process.wait()
        for port in machine.ports.values():
            port.close()
        shutil.rmtree(machine.root, ignore_errors=True)

    async def changed(self, vm: Vm, params: dict[str, Any]) -> None:
        """A disc is a file with the name of a drive; drives are there from the start only."""
        machine = vm.machine
        if not vm.running or not isinstance(machine, Container):
            return
        for key in params:
            if key in machine.discs and key in vm.drives():
                await asyncio.to_thread(self.insert, vm, machine, key)

    def insert(self, vm: Vm, machine: Container, key: str) -> None:
        drive = Path(f"/proc/{machine.inside()}/root/dev/{machine.discs[key]}")
        volume = self.app.state.volume(vm.node, vm.drives()[key].get("file", ""))
        if volume is None or not volume.path.exists():
            drive.write_bytes(b"")
            return
        shutil.copyfile(volume.path, drive)

    async def reset(self, vm: Vm) -> None:
        await self.end(vm)
        vm.machine = await self.launch(vm)

    async def snapshot(self, vm: Vm, name: str, with_state: bool) -> Any:
        if not vm.running or not with_state:
            return None
        kept = self.app.state.dir / f"snapshot-{vm.vmid}-{name}"
        await copy(vm.machine.root, kept)
        return str(kept)

    async def rollback(self, vm: Vm, name: str, entry: dict[str, Any]) -> None:
        await self.stop(vm)
        if entry["state"] is None:
            return
        root = self.app.state.dir / f"c{vm.vmid}-{time.monotonic_ns() % 10**9}"
        await copy(Path(entry["state"]), root)
        with contextlib.suppress(FileNotFoundError):
            (root / "run" / "agent").unlink()
        vm.machine = await self.launch(vm, root)
        vm.running, vm.started = True, time.time()

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        shutil.rmtree(self.app.state.dir / f"snapshot-{vm.vmid}-{name}", ignore_errors=True)

    async def forget(self, vm: Vm) -> None:
        for name in vm.snapshots:
            await self.drop_snapshot(vm, name)


async def copy(source: Path, target: Path) -> None:
    """A tree without its sockets, which nobody listens on in the copy."""
    process = await asyncio.create_subprocess_exec(
        "cp", "-a", "--reflink=auto", str(source), str(target), stderr=subprocess.DEVNULL
    )
    await process.wait()
