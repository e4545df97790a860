"""A VM's configuration: what a change means for volumes, addresses and a running VM."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

from .errors import ApiError, bad_parameters, fail
from .formats import normal_tags, split_list
from .state import DRIVE, GIB, NET, Vm, normal_net

if TYPE_CHECKING:
    from .app import App

# Parameters of the calls that are not part of a configuration.
NOT_CONFIG = {
    "vmid",
    "node",
    "pool",
    "start",
    "storage",
    "archive",
    "force",
    "unique",
    "bwlimit",
    "live-restore",
    "ha-managed",
    "import-working-storage",
    "digest",
    "delete",
    "revert",
    "skiplock",
    "background_delay",
}
# What can change while the VM runs; the rest waits for its next start.
HOT = re.compile(
    r"^(name|description|tags|onboot|startup|protection|agent|boot|net\d+|scsi\d+|virtio\d+|usb\d+|unused\d+|hookscript)$"
)


# Which privilege a setting needs; all else is an option.
PRIVILEGES = {
    "VM.Config.CPU": "cores cpu cpulimit cpuunits numa smp sockets vcpus",
    "VM.Config.Memory": "memory balloon shares",
    "VM.Config.HWType": "acpi audio0 hotplug kvm machine rng0 scsihw smbios1 tablet vga watchdog",
    "VM.Config.Disk": "boot bootdisk vmstatestorage",
    "VM.Config.Cloudinit": "cicustom cipassword citype ciupgrade ciuser sshkeys",
    "VM.Config.Network": "nameserver searchdomain",
}
PRIVILEGE_OF = {name: key for key, names in PRIVILEGES.items() for name in names.split()}
ROOT_ONLY = {"affinity", "args", "hookscript", "lock"}


def privilege_of(key: str, value: str) -> str:
    if NET.match(key) or re.fullmatch(r"ipconfig\d+", key):
        return "VM.Config.Network"
    if DRIVE.match(key):
        disc = "media=cdrom" in value and ":cloudinit" not in value
        return "VM.Config.CDROM" if disc else "VM.Config.Disk"
    if re.fullmatch(r"(serial|usb|hostpci|parallel)\d+", key):
        return "VM.Config.HWType"
    return PRIVILEGE_OF.get(key, "VM.Config.Options")


def value_of(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


class Configurer:
    """Applies a create or a change of configuration to one VM."""

    def __init__(self, app: App, vm: Vm, user: str) -> None:
        self.app = app
        self.state = app.state
        self.vm = vm
        self.user = user

    def check(self, params: dict[str, Any]) -> None:
        """What is refused at once, before a task is started."""
        self.check_privileges(params)
        for key, value in params.items():
            if DRIVE.match(key) and not key.startswith("unused"):
                self.check_drive(key, str(value), params.get("import-working-storage"))
            if NET.match(key):
                bridge = split_list(str(value), "model").get("bridge", "")
                if bridge and not bridge.startswith("vmbr"):
                    self.check_bridge(bridge)

    def check_privileges(self, params: dict[str, Any]) -> None:
        """Each setting has a privilege of its own."""
        removed = re.split(r"[,; ]+", str(params.get("delete") or ""))
        for key in [*params, *filter(None, removed)]:
            if key in NOT_CONFIG:
                continue
            value = str(params.get(key, self.vm.config.get(key, "")))
            if key in ROOT_ONLY:
                if self.user != "root@pam":
                    raise ApiError(500, f"only root can set '{key}' config")
                continue
            needed = privilege_of(key, value)
            self.app.auth.require(self.user, f"/vms/{self.vm.vmid}", needed)

    def check_bridge(self, bridge: str) -> None:
        vnet = self.app.sdn.config["vnets"].get(bridge)
        zone = vnet["zone"] if vnet else "localnetwork"
        self.app.auth.require(self.user, f"/sdn/zones/{zone}/{bridge}", "SDN.Use")

    def check_drive(self, key: str, text: str, working: str | None) -> None:
        parts = split_list(text, "file")
        volid = parts.get("file", "")
        if volid in ("none", "cdrom") or (
            "media" in parts and parts["media"] == "cdrom" and volid == "none"
        ):
            return
        source = parts.get("import-from", "")
        if source:
            self.check_import(key, source, working)
        storage = volid.split(":")[0]
        if ":" not in volid:
            raise bad_parameters(
                {
                    key: f"invalid format - format error\n{key}.file: invalid format - "
                    f"unable to parse volume ID '{volid}'\n"
                }
            )
        self.state.storage(self.vm.node, storage)
        self.app.auth.require(
            self.user,
            f"/storage/{storage}",
            "Datastore.AllocateSpace",
            "Datastore.Audit",
            any_of=True,
        )

    def check_import(self, key: str, source: str, working: str | None) -> None:
        _base, _, inner = source.partition("/")
        storage = self.state.storages[self.vm.node].get(source.split(":")[0])
        if source.startswith("/"):
            if self.user != "root@pam":
                raise fail("Only root can pass arbitrary filesystem paths.")
            raise fail(f"{key}: import-from path {source} does not exist")
        if storage is None:
            raise fail(f"storage '{source.split(':')[0]}' does not exist")
        found = self.state.volume(self.vm.node, source)
        packed = found is None and inner != ""
        if packed:
            # A file inside an OVA is named after it: local:import/x.ova/disk.vmdk
            found = self.state.volume(self.vm.node, source.rsplit("/", 1)[0])
        if found is None:
            raise bad_parameters({key: f"{source} - volume does not exist"})
        if found.content not in ("import", "images"):
            raise bad_parameters({key: f"{source} - is not an import or image volume"})
        if found.form.startswith("ova") and source.endswith(".ova"):
            raise bad_parameters({key: f"{source} - an OVA has several files, name one of them"})
        if packed:
            self.check_working(key, working, source.split(":")[0])

    def check_working(self, key: str, working: str | None, source: str) -> None:
        """Where a file of an OVA is unpacked to before it is imported."""
        name = working or source
        storage = self.state.storage(self.vm.node, name)
        if "images" not in storage.content or not storage.file_based:
            raise bad_parameters(
                {
                    "import-working-storage" if working else key: f"import working storage "
                    f"'{name}' does not support 'images' content type or is not file based."
                }
            )
        self.app.auth.require(self.user, f"/storage/{name}", "Datastore.AllocateSpace")

    # --- applying ---

    def set_all(self, params: dict[str, Any]) -> None:
        for key, value in params.items():
            if key in NOT_CONFIG:
                continue
            self.set_one(key, value_of(value))

    def set_one(self, key: str, value: Any) -> None:
        if self.vm.running and not self.hot(key, value):
            self.vm.pending[key] = value
            return
        if NET.match(key):
            self.set_net(key, str(value))
        elif DRIVE.match(key):
            self.vm.config[key] = self.make_drive(key, str(value))
        elif key == "tags":
            self.vm.config[key] = normal_tags(str(value))
            if not self.vm.config[key]:
                del self.vm.config[key]
        else:
            self.vm.config[key] = value

    def hot(self, key: str, value: Any) -> bool:
        if HOT.match(key):
            return True
        old = self.vm.config.get(key)
        # A disc can be changed in a drive that is there.
        return bool(
            DRIVE.match(key) and old and "media=cdrom" in str(old) and "media=cdrom" in str(value)
        )

    def set_net(self, key: str, text: str) -> None:
        new = normal_net(text)
        old = self.vm.config.get(key)
        if old:
            self.free_net(str(old), keep=new)
        self.vm.config[key] = new
        parts = split_list(new, "model")
        mac = next(iter(parts.values()))
        same = old and split_list(str(old), "model").get("bridge") == parts.get("bridge")
        if parts.get("bridge") and not (same and mac in str(old)):
            try:
                self.app.sdn.connect_card(self.vm, parts["bridge"], mac)
            except ApiError as why:
                # While a VM is being made this is only a line in the task's log.
                if not self.vm.creating:
                    del self.vm.config[key]
                    raise bad_parameters({key: why.message}) from None

    def free_net(self, text: str, keep: str = "") -> None:
        parts = split_list(text, "model")
        mac = next(iter(parts.values()))
        kept = split_list(keep, "model") if keep else {}
        if kept and kept.get("bridge") == parts.get("bridge") and mac == next(iter(kept.values())):
            return
        if parts.get("bridge"):
            self.app.sdn.free_card(parts["bridge"], mac)

    def make_drive(self, key: str, text: str) -> str:
        parts = split_list(text, "file")
        volid = parts.pop("file", parts.pop("volume", ""))
        source = parts.pop("import-from", "")
        form = parts.pop("format", "raw")
        storage, _, rest = volid.partition(":")
        if volid in ("none", "cdrom"):
            return text
        if rest == "cloudinit":
            volume = self.state.new_volume(self.vm.node, storage, self.vm.vmid, 4 << 20, "raw")
            return f"{volume.volid},media=cdrom,size=4M"
        if re.fullmatch(r"\d+(\.\d+)?", rest):
            size = int(float(rest) * GIB)
            if source:
                size = self.import_size(source)
            elif key.startswith(("efidisk", "tpmstate")):
                size = 4 << 20
            volume = self.state.new_volume(self.vm.node, storage, self.vm.vmid, size, form)
            self.fill(volume.path, source, size)
            parts["size"] = show_size(size)
            volid = volume.volid
        elif self.state.volume(self.vm.node, volid) is None:
            raise fail(f"volume '{volid}' does not exist")
        else:
            found = self.state.volume(self.vm.node, volid)
            if found and "size" not in parts:
                parts["size"] = show_size(found.size)
        return ",".join([volid, *(f"{name}={value}" for name, value in sorted(parts.items()))])

    def import_size(self, source: str) -> int:
        found = self.state.volume(self.vm.node, source) or self.state.volume(
            self.vm.node, source.rsplit("/", 1)[0]
        )
        return max(found.size if found else 0, 1 << 20)

    def fill(self, path: Any, source: str, size: int) -> None:
        """Only VMs that really run need their disks."""
        if self.app.vms_mode != "qemu":
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        found = self.state.volume(self.vm.node, source) if source else None
        if found:
            shutil.copyfile(found.path, path)
            return
        with path.open("wb") as disk:
            disk.truncate(size)

    def delete(self, keys: str) -> None:
        for key in re.split(r"[,; ]+", keys):
            if not key:
                continue
            if key not in self.vm.config and key not in self.vm.pending:
                continue
            self.vm.pending.pop(key, None)
            old = self.vm.config.get(key)
            if self.vm.running and not self.hot(key, "") and old is not None:
                self.vm.pending_delete.add(key)
                continue
            self.drop(key)

    def drop(self, key: str) -> None:
        old = str(self.vm.config.pop(key, ""))
        if NET.match(key) and old:
            self.free_net(old)
        elif DRIVE.match(key) and old:
            volid = split_list(old, "file").get("file", "")
            found = self.state.volume(self.vm.node, volid)
            if found and found.content == "images":
                if key.startswith("unused") or "cloudinit" in old:
                    self.state.drop_volume(self.vm.node, volid)
                else:
                    number = next(n for n in range(256) if f"unused{n}" not in self.vm.config)
                    self.vm.config[f"unused{number}"] = volid

    def apply_pending(self) -> None:
        """At the next start, or once the VM has stopped."""
        waiting, self.vm.pending = self.vm.pending, {}
        gone, self.vm.pending_delete = self.vm.pending_delete, set()
        for key in gone:
            self.drop(key)
        for key, value in waiting.items():
            try:
                self.set_one(key, value)
            except ApiError:
                # A line in the task's log; it stays pending.
                self.vm.pending[key] = value


def show_size(size: int) -> str:
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def check_digest(vm: Vm, digest: str | None) -> None:
    if digest and digest != vm.digest():
        raise fail("detected modified configuration - file changed by other user? Try again.")
