"""What the simulated cluster holds: nodes, storages, volumes, VMs, pools."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from pathlib import Path
from typing import Any

from .errors import ApiError, fail
from .formats import split_list

DRIVE = re.compile(r"^(scsi|ide|sata|virtio|efidisk|tpmstate|unused)\d+$")
NET = re.compile(r"^net\d+$")
GIB = 1 << 30
# Types of storages that have a path; all others are block devices or services.
FILE_BASED = {"dir", "nfs", "cifs", "btrfs", "cephfs", "glusterfs"}


class Node:
    """One node's figures."""

    def __init__(self, name: str, memory: int, cpus: int) -> None:
        self.name = name
        self.memory = memory
        self.cpus = cpus
        # What the node itself uses, VMs not counted.
        self.memory_used = 2 * GIB
        # Set by a test: the next reloads of the network fail here.
        self.reload_fails = 0
        self.online = True
        self.kvm = True
        # Its pvestatd tells the cluster how it is.
        self.reports = True
        self.dnsmasq = True
        self.dns = "192.0.2.1"


class Volume:
    """One thing in a storage."""

    def __init__(
        self, volid: str, content: str, form: str, size: int, path: Path, vmid: int = 0
    ) -> None:
        self.volid = volid
        self.content = content
        self.form = form
        self.size = size
        self.path = path
        self.vmid = vmid
        self.parent = ""
        self.ctime = int(time.time())

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "volid": self.volid,
            "content": self.content,
            "format": self.form,
            "size": self.size,
            "ctime": self.ctime,
        }
        if self.vmid:
            row["vmid"] = self.vmid
        if self.parent:
            row["parent"] = self.parent
        return row


class Storage:
    """One storage of a node."""

    def __init__(self, name: str, kind: str, content: str, total: int) -> None:
        self.name = name
        self.kind = kind
        self.content = content.split(",")
        self.total = total
        self.enabled = True
        self.active = True
        # Set by a test: how often its lock cannot be had.
        self.locked = 0
        self.volumes: dict[str, Volume] = {}

    @property
    def file_based(self) -> bool:
        return self.kind in FILE_BASED

    def lock(self) -> None:
        """One at a time makes or removes a volume; others wait, and are then told."""
        if self.locked > 0:
            self.locked -= 1
            raise fail(
                f"can't lock file '/var/lock/pve-manager/pve-storage-{self.name}' - got timeout"
            )

    def used(self) -> int:
        return GIB + sum(min(volume.size, GIB) for volume in self.volumes.values())

    def row(self) -> dict[str, Any]:
        used = self.used()
        return {
            "storage": self.name,
            "type": self.kind,
            "content": ",".join(sorted(self.content)),
            "active": int(self.active),
            "enabled": int(self.enabled),
            "shared": 0,
            "total": self.total,
            "used": used,
            "avail": max(self.total - used, 0),
            "used_fraction": used / self.total,
        }


class Vm:
    """One VM: its configuration, its state, what runs."""

    def __init__(self, vmid: int, node: str) -> None:
        self.vmid = vmid
        self.node = node
        self.config: dict[str, Any] = {}
        self.pending: dict[str, Any] = {}
        self.pending_delete: set[str] = set()
        self.snapshots: dict[str, dict[str, Any]] = {}
        self.parent = ""
        self.running = False
        self.paused = False
        self.template = False
        self.started = 0.0
        self.lock = ""
        # Until when the configuration file's own lock is held (after a rollback).
        self.busy_until = 0.0
        self.machine: Any = None
        self.watcher: Any = None
        self.decoy = False
        self.creating = False

    def digest(self) -> str:
        return hashlib.sha1(repr(sorted(self.config.items())).encode()).hexdigest()

    def shown_config(self) -> dict[str, Any]:
        shown = {**self.config, "digest": self.digest()}
        if self.lock:
            shown["lock"] = self.lock
        if self.template:
            shown["template"] = 1
        if self.parent:
            shown["parent"] = self.parent
        return shown

    def name(self) -> str:
        return str(self.config.get("name", f"VM {self.vmid}"))

    def memory(self) -> int:
        return (
            int(str(self.config.get("memory", "512")).split(",")[0].removeprefix("current=")) << 20
        )

    def cores(self) -> int:
        return int(self.config.get("cores", 1)) * int(self.config.get("sockets", 1))

    def drives(self) -> dict[str, dict[str, str]]:
        return {
            key: split_list(str(value), "file")
            for key, value in self.config.items()
            if DRIVE.match(key)
        }

    def nets(self) -> dict[str, dict[str, str]]:
        return {
            key: split_list(str(value), "model")
            for key, value in self.config.items()
            if NET.match(key)
        }

    def agent_enabled(self) -> bool:
        if "agent" not in self.config:
            return False
        return split_list(str(self.config["agent"]), "enabled").get("enabled", "0") in (
            "1",
            "on",
            "yes",
            "true",
        )

    def check_lock(self) -> None:
        if self.lock:
            raise fail(f"VM is locked ({self.lock})")

    def status(self) -> dict[str, Any]:
        up = int(time.time() - self.started) if self.running else 0
        row: dict[str, Any] = {
            "vmid": self.vmid,
            "name": self.name(),
            "status": "running" if self.running else "stopped",
            "cpus": self.cores(),
            "maxmem": self.memory(),
            "mem": self.memory() // 2 if self.running else 0,
            "maxdisk": 4 * GIB,
            "disk": 0,
            "cpu": 0.01 if self.running else 0,
            "uptime": up,
            "netin": 0,
            "netout": 0,
            "diskread": 0,
            "diskwrite": 0,
        }
        if self.template:
            row["template"] = 1
        if self.config.get("tags"):
            row["tags"] = self.config["tags"]
        if self.lock:
            row["lock"] = self.lock
        if self.running:
            row["pid"] = self.machine.pid if self.machine is not None else 1000 + self.vmid
        return row

    def current(self) -> dict[str, Any]:
        row = self.status()
        row["qmpstatus"] = ("paused" if self.paused else "running") if self.running else "stopped"
        row["ha"] = {"managed": 0}
        if self.agent_enabled():
            row["agent"] = 1
        return row


class State:
    """Everything; a lock of the event loop's making is enough, since nothing here waits."""

    def __init__(self, workdir: Path, nodes: list[Node]) -> None:
        self.dir = workdir
        self.nodes = {node.name: node for node in nodes}
        self.storages: dict[str, dict[str, Storage]] = {}
        for node in nodes:
            self.storages[node.name] = {
                "local": Storage("local", "dir", "iso,vztmpl,backup,import,snippets", 100 * GIB),
                "local-lvm": Storage("local-lvm", "lvmthin", "images,rootdir", 500 * GIB),
            }
        self.vms: dict[int, Vm] = {}
        self.pools: dict[str, dict[str, Any]] = {}
        self.firewall: dict[str, Any] = {}
        # Numbers whose configuration file's lock a task holds, or a test; there may be no VM yet.
        self.held: set[int] = set()

    def node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            raise fail(
                f"hostname lookup '{name}' failed - failed to get address info for: "
                f"{name}: Name or service not known"
            )
        if not node.online:
            raise ApiError(595, "No route to host")
        return node

    def vm(self, node: str, vmid: int) -> Vm:
        self.node(node)
        vm = self.vms.get(vmid)
        if vm is None or vm.node != node:
            raise fail(f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
        return vm

    def is_busy(self, vmid: int) -> bool:
        """Whether somebody holds the lock of a VM's configuration file."""
        vm = self.vms.get(vmid)
        return vmid in self.held or (vm is not None and vm.busy_until > time.monotonic())

    def storage(self, node: str, name: str) -> Storage:
        self.node(node)
        storage = self.storages[node].get(name)
        if storage is None:
            raise fail(f"storage '{name}' does not exist")
        return storage

    def volume(self, node: str, volid: str) -> Volume | None:
        storage = self.storages.get(node, {}).get(volid.split(":")[0])
        return storage.volumes.get(volid) if storage else None

    def free_vmid(self) -> int:
        vmid = 100
        while vmid in self.vms:
            vmid += 1
        return vmid

    def new_volume(
        self, node: str, name: str, vmid: int, size: int, form: str, base: bool = False
    ) -> Volume:
        """A disk of a VM, in a storage that takes disks."""
        storage = self.storage(node, name)
        if "images" not in storage.content:
            raise fail(f"storage '{name}' does not support vm images")
        storage.lock()
        number = 0
        prefix = "base" if base else "vm"
        directory = f"{vmid}/" if storage.kind == "dir" else ""
        suffix = f".{form}" if storage.kind == "dir" else ""
        while True:
            taken = [
                f"{name}:{directory}{word}-{vmid}-disk-{number}{suffix}" for word in ("vm", "base")
            ]
            if not any(volid in storage.volumes for volid in taken):
                break
            number += 1
        volid = f"{name}:{directory}{prefix}-{vmid}-disk-{number}{suffix}"
        path = self.dir / node / name / volid.split(":", 1)[1].replace("/", "_")
        volume = Volume(volid, "images", form if storage.kind == "dir" else "raw", size, path, vmid)
        storage.volumes[volid] = volume
        return volume

    def drop_volume(self, node: str, volid: str) -> bool:
        storage = self.storages.get(node, {}).get(volid.split(":")[0])
        volume = storage.volumes.pop(volid, None) if storage else None
        if volume is None:
            return False
        volume.path.unlink(missing_ok=True)
        return True

    def memory_used(self, node: str) -> int:
        return self.nodes[node].memory_used + sum(
            vm.memory() for vm in self.vms.values() if vm.node == node and vm.running
        )

    def pool_of(self, vmid: int) -> str:
        return next((name for name, pool in self.pools.items() if vmid in pool["vms"]), "")


def new_mac() -> str:
    return "BC:24:11:" + ":".join(f"{byte:02X}" for byte in secrets.token_bytes(3))


def normal_net(text: str) -> str:
    """A network card as the server writes it down: model=MAC first."""
    parts = split_list(text, "model")
    model = parts.pop("model", "")
    address = parts.pop("macaddr", "")
    for name in list(parts):
        if name in ("virtio", "e1000", "e1000e", "rtl8139", "vmxnet3"):
            model, address = name, parts.pop(name)
    rest = [f"{key}={value}" for key, value in sorted(parts.items())]
    return ",".join([f"{model}={(address or new_mac()).upper()}", *rest])
