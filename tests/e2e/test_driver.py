"""The local driver: what a spec says is what the guest sees, and what holds the guest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import COLD, TINY, Home
from walls import user_of

from tools import in_guest, listed, namespace, own_data, until

MAC = "52:54:00:ab:cd:01"
THIRD_TIME = (
    "n=$(cat /tmp/n 2>/dev/null || echo 0); echo $((n + 1)) > /tmp/n; [ $n -ge 2 ] || exit 7"
)

# "second" waits for "first", which is listed after it; "third" because "first" is awaited.
ZOO = {
    "vms": [
        {
            "name": "second",
            "source": "tiny",
            "ram_mb": 192,
            "vcpus": 1,
            "depends_on": ["first"],
            "nic_controller": "e1000",
            "warm": False,
            "healthcheck": {"test": ["sh", "-c", THIRD_TIME], "interval": 0.2},
        },
        {
            "name": "first",
            "source": "tiny-seeded",
            "ram_mb": 256,
            "vcpus": 2,
            "vga": "std",
            "await_before_next_vm": True,
            "nics": [{"vnet": "default", "mac": MAC}, {"vnet": "default"}],
            "nic_controller": "virtio",
            "cloud_init": {"user_data": "#cloud-config\nhostname: zoo\n", "meta_data": "a: b\n"},
        },
        {
            "name": "third",
            "source": "tiny",
            "ram_mb": 192,
            "vcpus": 1,
            "nics": [],
            "is_sandbox": True,
            "native": {"args": ["-device", "virtio-balloon-pci"]},
        },
    ]
}


CLOUD_CONFIG = r"""#cloud-config
write_files:
- {path: /etc/written, content: "by cloud-init\n"}
runcmd:
- cp /etc/written /root/ran && echo and copied >>/root/ran
"""
# The image `tiny` with a program in the place of cloud-init, which takes its time, and fails if it
# is told to.
SEEDED = """#!/bin/sh
set -eu
cp "{tiny}"/* "$1/"
rm -f "$1/lock" "$1/manifest.json"
chmod u+w "$1"/*
mkdir -p usr/bin
cat >usr/bin/cloud-init <<'END'
#!/bin/sh
echo "$*" >/tmp/asked
until [ -b /dev/vda ]; do sleep 0.1; done
if grep -q "please fail" /dev/vda; then
  mkdir -p /var/log
  echo "no such package: moon" >/var/log/cloud-init-output.log
  echo "status: error"
  exit 1
fi
sleep 2
hostname >/tmp/done
echo "status: done"
END
chmod 755 usr/bin/cloud-init
find usr | cpio -o -H newc -R +0:+0 --quiet >>"$1/initrd"
python3 - "{tiny}/manifest.json" >"$1/manifest.json" <<'END'
import json, sys
old = json.load(open(sys.argv[1]))
keep = ("format", "arch", "kernel", "kernel_efi", "initrd", "cmdline", "user", "min_ram_mb")
print(json.dumps({{**{{k: old[k] for k in keep if k in old}}, "cloud_init": True}}))
END
"""


def build_seeded(home: Home) -> None:
    tiny = json.loads(home.ok("image", "inspect", "tiny", "--json"))["dir"]
    recipes = Path(os.environ["MOAT_DATA_DIR"], "recipes")
    recipes.mkdir(exist_ok=True)
    (recipes / "tiny-seeded.sh").write_text(SEEDED.format(tiny=tiny))
    home.ok("image", "build", "--rebuild", "tiny-seeded")


class Zoo(Home):
    """Three VMs in one sandbox, and what was said while they started."""

    def __init__(self) -> None:
        super().__init__()
        build_seeded(self)
        done = self.run("up", self.spec(ZOO), timeout=300)
        assert done.returncode == 0, done.stderr
        self.sandbox = done.stdout.strip()
        self.said = done.stderr.splitlines()

    def sh(self, vm: str, script: str) -> str:
        return in_guest(self, self.sandbox, script, "--vm", vm)


@pytest.fixture(scope="module")
def zoo(images: None) -> Iterator[Zoo]:
    made = Zoo()
    yield made
    made.close()


def test_order_of_starting(zoo: Zoo) -> None:
    news = [line for line in zoo.said if line.split()[0] in ("starting", "waiting")]
    ready = news.index("waiting for first")
    assert news.index("starting first") < ready < news.index("starting second")
    assert ready < news.index("starting third")
    assert [vm["name"] for vm in listed(zoo)[0]["vms"]] == ["second", "first", "third"]
    assert [vm["default"] for vm in listed(zoo)[0]["vms"]] == [True, False, False]


def test_why_they_did_not_start_warm(zoo: Zoo) -> None:
    reasons = {vm["name"]: (vm["start"], vm["cold_reason"]) for vm in listed(zoo)[0]["vms"]}
    for name, why in (("second", "warm: false"), ("first", "cloud_init"), ("third", "native.args")):
        assert reasons[name][0] == "cold"
        assert why in reasons[name][1]
        if name != "first":  # cloud-init's business
            assert zoo.sh(name, "hostname") == name
    said = "\n".join(zoo.said)
    assert "first did not start warm: cloud_init" in said
    assert "third did not start warm: native.args" in said
    assert "second did not start warm" not in said  # it was asked for


def test_healthcheck_is_tried_until_it_passes(zoo: Zoo) -> None:
    assert zoo.ok("exec", zoo.sandbox, "--", "cat", "/tmp/n") == "3"


def test_guest_sees_its_processors_and_memory(zoo: Zoo) -> None:
    assert zoo.sh("first", "nproc") == "2"
    assert zoo.sh("second", "nproc") == "1"
    total_kb = "awk '/MemTotal/{print $2}' /proc/meminfo"
    assert 190_000 < int(zoo.sh("first", total_kb)) < 256 * 1024
    assert 120_000 < int(zoo.sh("second", total_kb)) < 192 * 1024


def test_network_cards(zoo: Zoo) -> None:
    driver = "basename $(readlink /sys/class/net/eth0/device/driver)"
    assert zoo.sh("first", driver) == "virtio_net"
    assert zoo.sh("second", driver) == "e1000"
    assert zoo.sh("first", "cat /sys/class/net/eth0/address") == MAC
    chosen = [
        zoo.sh("first", "cat /sys/class/net/eth1/address"),
        zoo.sh("second", "cat /sys/class/net/eth0/address"),
    ]
    assert chosen[0] != chosen[1]
    assert [mac[:3] for mac in chosen] == ["02:", "02:"]
    assert zoo.sh("third", "ls /sys/class/net") == "lo"


def test_lease_but_no_way_to_the_host(zoo: Zoo) -> None:
    until(lambda: "inet 10.77.0." in zoo.sh("second", "ip addr show eth0"), "a DHCP lease")
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        listener.settimeout(0.5)
        port = listener.getsockname()[1]
        # The address that answers DHCP is the host's side of the network.
        assert zoo.sh("second", f"echo x | nc -w 3 10.77.0.254 {port} 2>/dev/null; echo $?") == "1"
        with pytest.raises(TimeoutError):
            listener.accept()
        # The test would notice: this is what the guest must not be able to do.
        socket.create_connection(("127.0.0.1", port)).close()
        listener.accept()[0].close()


def test_native_arguments_reach_qemu(zoo: Zoo) -> None:
    balloon = "cat /sys/bus/virtio/devices/*/device"
    assert "0x0005" in zoo.sh("third", balloon)
    assert "0x0005" not in zoo.sh("second", balloon)


def test_cloud_init_disk(zoo: Zoo) -> None:
    assert zoo.sh("first", "dd if=/dev/vda bs=1 skip=32808 count=6 2>/dev/null") == "CIDATA"
    assert zoo.sh("first", "grep -c 'hostname: zoo' /dev/vda") == "1"
    mount = "modprobe isofs; mkdir -p /tmp/seed; mount -t iso9660 -o ro /dev/vda /tmp/seed"
    assert zoo.sh("first", f"{mount} && cd /tmp/seed && ls && cat meta-data").split("\n") == [
        "meta-data",
        "user-data",
        "a: b",
    ]
    zoo.sh("first", "umount /tmp/seed")
    assert "vda" not in zoo.sh("second", "ls /dev")


def test_cloud_init_is_waited_for(zoo: Zoo) -> None:
    assert "waiting for cloud-init" in zoo.said
    assert zoo.sh("first", "cat /tmp/asked; ls /tmp/done").split() == [
        *("status", "--wait", "--long"),
        "/tmp/done",
    ]


def test_cloud_init_that_fails(zoo: Zoo) -> None:
    seed = {"user_data": "#cloud-config\n# please fail\n"}
    vm = {"source": "tiny-seeded", "ram_mb": 192, "vcpus": 1, "nics": [], "cloud_init": seed}
    said = zoo.fails("up", zoo.spec({"vms": [vm], "networks": "none"}), timeout=300)
    assert "VM default: cloud-init failed: status: error" in said
    assert "no such package: moon" in said


def test_cloud_init_itself(zoo: Zoo) -> None:
    """What it does at the very end is done when `up` returns."""
    zoo.ok("image", "build", "debian12", timeout=1800)
    seed = {"user_data": CLOUD_CONFIG}
    vm = {"source": "debian12", "ram_mb": 512, "vcpus": 1, "nics": [], "cloud_init": seed}
    sandbox = zoo.ok("up", zoo.spec({"vms": [vm], "networks": "none"}), timeout=900)
    done = zoo.ok("exec", "-u", "root", sandbox, "--", "cat", "/etc/written", "/root/ran")
    assert done.split() == ["by", "cloud-init", "by", "cloud-init", "and", "copied"]
    zoo.ok("rm", sandbox)


def test_cloud_init_of_none(zoo: Zoo) -> None:
    said = zoo.fails("up", "--check", zoo.spec({"vms": [{"source": "tiny", "cloud_init": {}}]}))
    assert "vms[0].cloud_init: " in said
    assert "no cloud-init in the image" in said


def test_console_log(zoo: Zoo) -> None:
    zoo.sh("third", "echo '<2>moat hears the kernel' > /dev/kmsg; echo and more > /dev/ttyS0")
    until(lambda: "and more" in zoo.ok("logs", "--vm", "third", zoo.sandbox), "it is logged")
    assert "moat hears the kernel" in zoo.ok("logs", "--vm", "third", zoo.sandbox)
    assert "moat hears" not in zoo.ok("logs", "--vm", "second", zoo.sandbox)


def test_screenshot(zoo: Zoo) -> None:
    path = zoo.dir / "screen.png"
    assert zoo.ok("screenshot", "--vm", "first", zoo.sandbox, str(path)) == str(path)
    png = path.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[12:16] == b"IHDR"
    width, height = struct.unpack(">II", png[16:24])
    assert 320 <= width <= 1920
    assert 200 <= height <= 1200
    assert png[-8:-4] == b"IEND"
    said = zoo.fails("screenshot", "--vm", "third", zoo.sandbox, str(zoo.dir / "none.png"))
    assert "`vga: std`" in said
    assert not (zoo.dir / "none.png").exists()


@pytest.mark.needs_root("QEMU changes its user where root starts it")
def test_qemu_is_a_user_of_its_own_and_alone(zoo: Zoo) -> None:
    daemon = zoo.daemon_pid()
    pids = zoo.qemu_pids(zoo.sandbox)
    assert len(pids) == 3
    for kind in ("pid", "net", "mnt", "ipc", "uts"):
        seen = {namespace(pid, kind) for pid in (*pids, daemon)}
        assert len(seen) == 4, f"a {kind} namespace is shared"
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        assert user_of(pid) == 0x70000000 + pid
        assert "CapEff:\t0000000000000000\n" in status
        assert "NoNewPrivs:\t1\n" in status
        assert "Seccomp:\t2\n" in status
        assert "eth" not in Path(f"/proc/{pid}/net/dev").read_text()


@pytest.mark.needs_root("QEMU changes its user where root starts it")
def test_qemu_has_its_own_files_only(zoo: Zoo) -> None:
    mine = [vm["name"] for vm in listed(zoo)[0]["vms"]]
    sandboxes = zoo.dir / "state" / "sandboxes"
    for pid in zoo.qemu_pids(zoo.sandbox):
        name = Path(f"/proc/{pid}/cmdline").read_text().split("-name\0")[1].split("\0")[0]
        links = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
        paths = [x for x in links if x.startswith("/") and not x.startswith(("/dev/", "/memfd:"))]
        for other in set(mine) - {name.split("/")[1]}:
            assert not [p for p in paths if f"/{other}." in p], f"{name} has a file of {other}"
        assert not [p for p in paths if "journal" in p or "moat.sock" in p or ".log" in p]
        # By name it gets no further, even if it saw them.
        assert sandboxes.stat().st_mode & 0o077 == 0
        assert sandboxes.stat().st_uid == 0


# ---- disks ----


def tiny_disk(name: str, **more: Any) -> dict[str, Any]:
    # Each is the only one of its kind: a template would not pay.
    own = {"name": name, "source": "tiny-disk", "ram_mb": 192, "vcpus": 1, "nics": []}
    return {**own, "warm": False, **more}


DISKS = {
    "vms": [
        tiny_disk("virtio", disk_gb=2),
        tiny_disk("scsi", disk_controller="scsi"),
        # A BIOS reads such a disk word by word: a minute, emulated (test_net.py has one).
        tiny_disk("ide", disk_controller="ide", uefi_boot=True),
    ],
    "networks": "none",
}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Disks(Home):
    def __init__(self) -> None:
        super().__init__()
        self.ok("image", "build", "tiny-disk", timeout=1800)
        image = json.loads(self.ok("image", "inspect", "tiny-disk", "--json"))
        self.base = Path(image["dir"]) / "disk.qcow2"
        self.before = digest(self.base)
        self.sandbox = self.ok("up", self.spec(DISKS), timeout=400)

    def sh(self, vm: str, script: str, **more: Any) -> str:
        return in_guest(self, self.sandbox, script, "--vm", vm, **more)


@pytest.fixture(scope="module")
def disks(images: None) -> Iterator[Disks]:
    made = Disks()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("vm", "disk", "sits_at", "efi"),
    [
        ("virtio", "vda", r"/virtio\d+$", "no"),
        ("scsi", "sda", r"/virtio\d+/host", "no"),
        ("ide", "sda", r"/ata\d+/host", "yes"),
    ],
)
def test_boots_from(disks: Disks, vm: str, disk: str, sits_at: str, efi: str) -> None:
    assert disks.sh(vm, "ls /sys/block | grep '^[sv]d'") == disk
    assert re.search(sits_at, disks.sh(vm, f"readlink -f /sys/block/{disk}/device"))
    assert disks.sh(vm, "[ -d /sys/firmware/efi ] && echo yes || echo no") == efi


def test_disk_is_as_large_as_asked(disks: Disks) -> None:
    assert int(disks.sh("virtio", "cat /sys/block/vda/size")) * 512 == 2 << 30
    assert int(disks.sh("scsi", "cat /sys/block/sda/size")) * 512 < 1 << 30


def test_writes_stay_in_their_vm(disks: Disks) -> None:
    for vm in ("virtio", "scsi", "ide"):
        disks.sh(vm, f"[ ! -e /root/mark ] && echo {vm} > /root/mark")
        disks.sh(vm, "sync && echo 3 > /proc/sys/vm/drop_caches")
    for vm in ("virtio", "scsi", "ide"):
        assert disks.sh(vm, "cat /root/mark") == vm
    assert digest(disks.base) == disks.before


def test_writes_outlive_a_reboot(disks: Disks) -> None:
    disks.sh("virtio", "echo still here > /root/kept; sync")
    exec_in = ["exec", "-u", "root", "--vm", "virtio", disks.sandbox, "--"]
    boot_id = [*exec_in, "cat", "/proc/sys/kernel/random/boot_id"]
    first = disks.ok(*boot_id)
    disks.run(*exec_in, "reboot", "-f")
    until(lambda: disks.run(*boot_id).stdout.strip() not in ("", first), "it is back", 120)
    assert disks.sh("virtio", "cat /root/kept") == "still here"


def test_the_image_says_that_it_is_windows(home: Home) -> None:
    disk = home.dir / "disk.raw"
    disk.write_bytes(b"\xaa" * 65536)
    home.ok("image", "import", "--name", "windows", "--os-type", "win11", str(disk))
    guest = {"name": "guest", "source": "windows", "ram_mb": 64, "is_sandbox": False}
    sandbox = home.up({"vms": [*TINY["vms"], guest]})
    vms = json.loads(home.ok("ls", "--json"))["sandboxes"][0]["vms"]
    home.ok("rm", sandbox)
    home.ok("image", "rm", "windows")
    assert [vm["user"] for vm in vms] == ["user", "SYSTEM"]


# ---- refusals and failures ----


def tiny(**more: Any) -> dict[str, Any]:
    return {"vms": [{**TINY["vms"][0], **more}]}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (tiny(source="no-such-image"), ["vms[0].source", "no-such-image", "moat image"]),
        (tiny(source={"built_in": "kali"}), ["vms[0].source", "kali", "moat image"]),
        (tiny(disk_gb=4), ["vms[0].disk_gb", "no disk"]),
        (tiny(ram_mb=64), ["vms[0].ram_mb", "at least"]),
        (tiny(firewall=True), ["vms[0].firewall"]),
        (tiny(native={"argv": []}), ["vms[0].native.argv", "args"]),
        (tiny(source={"ova": "/no/such.ova"}), ["vms[0].source.ova", "/no/such.ova: No such file"]),
        (tiny(source={"existing_vm_template_tag": "t"}), ["existing_vm_template_tag"]),
        ({**TINY, "driver": "proxmox"}, ["Proxmox", "PROXMOX_HOST"]),
        ({**TINY, "pool": "p"}, ["pool"]),
    ],
)
def test_refused_before_anything_is_made(zoo: Zoo, spec: dict[str, Any], says: list[str]) -> None:
    before = zoo.left_over()
    said = zoo.fails("up", zoo.spec(spec))
    for part in says:
        assert part in said
    assert len(said.splitlines()) == 1
    assert zoo.left_over() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"native": {"args": ["-nonsense"]}}, "-nonsense: invalid option"),
        ({"native": {"args": ["-device", "no-such-device"]}}, "no-such-device"),
        ({"cpu": "abacus"}, "abacus"),
        ({"native": {"args": ["-m", "1E"]}}, "memory"),
    ],
)
def test_what_qemu_refuses(home: Home, change: dict[str, Any], says: str) -> None:
    said = home.fails("up", home.spec(tiny(**change)))
    assert says in said
    assert "VM default" in said
    home.assert_nothing_left()
    assert listed(home) == []


@pytest.mark.parametrize("qemu", ["no-such-emulator", "/bin/false", "/etc/passwd"])
def test_emulator_that_does_not_run(home: Home, qemu: str) -> None:
    (home.dir / "config.yaml").write_text(f"idle_exit: 0\nqemu: {qemu}\n")
    said = home.fails("up", home.spec(TINY))
    assert qemu in said or "ended with code 1" in said, said
    home.assert_nothing_left()


def test_healthcheck_that_never_passes(home: Home) -> None:
    check = {"test": ["sh", "-c", "exit 9"], "interval": 0.1, "retries": 3}
    said = home.fails("up", home.spec(tiny(healthcheck=check)))
    assert "the healthcheck of VM default failed 3 times; last exit code 9" in said
    home.assert_nothing_left()


def test_guest_that_never_answers(home: Home) -> None:
    (home.dir / "config.yaml").write_text("idle_exit: 0\nboot_timeout: 3\n")
    # Without a processor that runs, nothing answers.
    said = home.fails("up", home.spec(tiny(native={"args": ["-S"]})))
    assert "the guest agent of VM default does not answer" in said
    home.assert_nothing_left()


OVF = (
    "<Envelope><References><File ovf:href='d.vmdk' ovf:id='f'/></References>"
    "<DiskSection><Disk ovf:diskId='d' ovf:fileRef='f'/></DiskSection></Envelope>"
)


def make_ova(where: Path, content: bytes) -> dict[str, Any]:
    """A spec with a VM of a disk that does nothing, in an OVA with a name as long as they are."""
    where.mkdir()
    (where / "d.raw").write_bytes(content * (1 << 20))
    (where / "d.ovf").write_text(OVF)
    argv = ["qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "subformat=streamOptimized"]
    subprocess.run([*argv, where / "d.raw", where / "d.vmdk"], check=True)
    ova = where / f"{'challenge-' * 7}sandbox.ova"
    with tarfile.open(ova, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("d.ovf", "d.vmdk"):
            tar.add(where / name, name)
    vm = {"source": {"ova": str(ova)}, "ram_mb": 64, "vcpus": 1, "is_sandbox": False}
    return {
        "vms": [{"name": "main", **COLD["vms"][0]}, {"name": "sandbox", **vm}],
        "networks": "none",
    }


def test_ovas_of_one_name(home: Home) -> None:
    """Neither takes the other's place: going from one to the other and back converts nothing."""
    with own_data() as data:
        home.env["MOAT_DATA_DIR"] = str(data)
        before = set((data / "images").glob("sha256-*"))
        one, two = make_ova(home.dir / "one", b"1"), make_ova(home.dir / "two", b"2")
        for spec in (one, two):
            home.ok("rm", home.up(spec))
        assert len(set((data / "images").glob("sha256-*")) - before) == 2
        home.ok("rm", home.up(one))
        home.run("serve", "--stop", "--force")
