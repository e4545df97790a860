"""Images from the net: vendors' cloud images, from a mirror on loopback, and any URL.

The vendors' images are made of our own Debian here, with their names, places and partition table;
the packages are empty ones of the same names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disks import Disk, tool
from home import Home
from mirror import Key, Mirror, write_packages, write_sums
from small import SmallDisk

from tools import until

IMAGE = "noble/current/noble-server-cloudimg-amd64.img"
SOURCE = Path(__file__).parents[2] / "src" / "store" / "cloud.c"
MIB = 1 << 20


def plugin_packages() -> list[str]:
    table = SOURCE.read_text().partition("cloud_packages[] = {")[2].partition("NULL}")[0]
    return re.findall(r'"([^"]+)"', table)


def as_vendors_disk(debian: Path, to: Path, sources: str, scratch: Path) -> None:
    """A disk like Ubuntu's: a GPT, the root file system last, apt's sources of its own."""
    raw = scratch / "debian.raw"
    tool("qemu-img", "convert", "-O", "raw", debian, raw)
    (scratch / "sources.list").write_text(sources)
    commands = scratch / "commands"
    # mmdebstrap has put the machine's own sources there.
    path = "/etc/apt/sources.list.d/0000sources.list"
    commands.write_text(f"rm {path}\nwrite {scratch}/sources.list {path}\n")
    tool("debugfs", "-w", "-f", commands, f"{raw}?offset={64 * MIB}")
    sectors = (raw.stat().st_size - 64 * MIB) // 512
    tool("truncate", "-s", "+1M", raw)  # where a GPT has its second half
    table = (
        "label: gpt\n"
        "start=2048, size=129024, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\n"
        f"start=131072, size={sectors}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n"
    )
    sfdisk = ["/usr/sbin/sfdisk", "-q", "--wipe", "never", "--wipe-partitions", "never", str(raw)]
    subprocess.run(sfdisk, input=table, text=True, check=True)
    tool("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, to)
    raw.unlink()


@pytest.fixture(scope="module")
def vendors(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """The mirror, with one image; key: what signs it."""
    root = tmp_path_factory.mktemp("mirror")
    mirror, key = Mirror(root), Key(tmp_path_factory.mktemp("key") / "home")
    mirror.key = key  # type: ignore[attr-defined]
    common = Home()
    shown = json.loads(common.ok("image", "inspect", "--json", "debian12"))
    common.close()
    (root / IMAGE).parent.mkdir(parents=True)
    (root / "apt").mkdir()
    write_packages(root / "apt", plugin_packages())
    sources = f"deb [trusted=yes] {mirror.url}/apt ./\n"
    scratch = tmp_path_factory.mktemp("scratch")
    as_vendors_disk(Path(shown["dir"]) / "disk.qcow2", root / IMAGE, sources, scratch)
    key.sign(write_sums((root / IMAGE).parent))
    yield mirror
    mirror.close()
    key.close()


@pytest.fixture
def home(vendors: Mirror, tmp_path: Path) -> Iterator[Home]:
    vendors.requests.clear()
    vendors.cut.clear()
    vendors.hold = None
    vendors.reached.clear()
    made = Home(f"idle_exit: 0\nimage_mirror: {vendors.url}/\n")
    made.env["MOAT_DATA_DIR"] = str(tmp_path / "data")
    made.env["MOAT_CACHE_DIR"] = str(tmp_path / "cache")
    keys = tmp_path / "data" / "recipes" / "keys"
    keys.mkdir(parents=True)
    (keys / "ubuntu.asc").write_bytes(vendors.key.public())  # type: ignore[attr-defined]
    yield made
    made.close()


def downloads(home: Home) -> list[Path]:
    return list((Path(home.env["MOAT_CACHE_DIR"]) / "downloads").glob("*"))


def test_ubuntu_by_its_name(home: Home, vendors: Mirror, tmp_path: Path) -> None:
    assert "moat image pull ubuntu24.04" in home.fails("up", "ubuntu24.04")
    # The line breaks off, twice; what has arrived is not downloaded again.
    vendors.cut[IMAGE] = (20 * MIB, 2)
    spec: dict[str, Any] = {
        "source": {"built_in": "ubuntu24.04"},
        "ram_mb": 1024,
        "uefi_boot": True,
        "warm": False,
    }
    name = home.ok("up", "--build", home.spec({"vms": [spec]}), timeout=900)
    assert vendors.ranges(IMAGE) == ["", f"bytes={20 * MIB}-", f"bytes={40 * MIB}-"]
    shown = home.ok(
        "exec", "--user", "root", name, "--", "sh", "-c", "ls /usr/share/moat-test; id -un"
    )
    assert {"autoconf", "libtool", "root"} <= set(shown.split())
    home.ok("rm", name)
    assert not downloads(home)
    disk = Disk(home, "ubuntu24.04", tmp_path)
    disk.check()
    assert disk.raw.stat().st_size >= 10 << 30
    assert disk.root["type"] == "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
    tool("sfdisk", "--verify", disk.raw)
    # The vendor has nothing new: its list of checksums is all that is asked for.
    vendors.requests.clear()
    home.ok("image", "pull", "ubuntu24.04")
    assert not vendors.ranges(IMAGE)


def test_what_is_not_signed_or_altered_is_refused(home: Home, vendors: Mirror) -> None:
    folder = (vendors.root / IMAGE).parent
    kept = {p.name: p.read_bytes() for p in folder.glob("SHA256SUMS*")}
    try:
        lists = folder / "SHA256SUMS"
        lists.write_text("0" * 64 + f" *{Path(IMAGE).name}\n")
        assert "no good signature of ubuntu" in home.fails("image", "pull", "ubuntu24.04")
        assert not vendors.ranges(IMAGE)  # nothing of it is downloaded
        vendors.key.sign(lists)  # type: ignore[attr-defined]
        assert "it was altered" in home.fails("image", "pull", "ubuntu24.04", timeout=300)
        assert not downloads(home)
        # The key that moat has is Ubuntu's own, and did not sign this.
        own = Path(home.env["MOAT_DATA_DIR"]) / "recipes" / "keys" / "ubuntu.asc"
        own.unlink()
        assert "no good signature of ubuntu" in home.fails("image", "pull", "ubuntu24.04")
    finally:
        for name, content in kept.items():
            (folder / name).write_bytes(content)
    assert home.ok("image", "ls", "--names") == ""


def test_an_interrupted_download_goes_on(home: Home, vendors: Mirror) -> None:
    vendors.cut[IMAGE] = (8 * MIB, 1)
    vendors.hold = threading.Event()
    client = home.start("image", "pull", "ubuntu24.04")
    assert vendors.reached.wait(60)
    until(lambda: [f for f in downloads(home) if f.stat().st_size == 8 * MIB], "8 MiB are there")
    client.terminate()
    assert client.wait(30) != 0
    vendors.hold.set()
    images = Path(home.env["MOAT_DATA_DIR"]) / "images"
    until(lambda: not list(images.glob("tmp-*")), "the build's files are deleted")
    vendors.cut[IMAGE] = (0, 1)  # the rest breaks off at once, so that this ends soon
    vendors.hold = None
    again = home.start("image", "pull", "ubuntu24.04")
    until(lambda: f"bytes={8 * MIB}-" in vendors.ranges(IMAGE), "it asks for the rest")
    again.terminate()
    again.wait(30)


def tar_xz(file: Path, to: Path) -> None:
    command = ["tar", "-cJf", str(to), "-C", str(file.parent), file.name]
    subprocess.run(command, check=True, env={**os.environ, "XZ_OPT": "-0"})


def test_kali_and_debian_as_they_are_packed(home: Home, vendors: Mirror, tmp_path: Path) -> None:
    """The tiny disk stands for both; it has no apt, which is the last thing that is noticed."""
    common = Home()
    shown = json.loads(common.ok("image", "inspect", "--json", "tiny-disk"))
    common.close()
    disk = Path(shown["dir"]) / "disk.qcow2"
    debian = vendors.root / "images/cloud/trixie/latest"
    kali = vendors.root / "cloud-images/kali-2025.4"
    for folder in (debian, kali):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(disk, debian / "debian-13-genericcloud-amd64.qcow2")
    write_sums(debian, "sha512")
    tool("qemu-img", "convert", "-O", "raw", disk, tmp_path / "disk.raw")
    tar_xz(tmp_path / "disk.raw", kali / "kali-linux-2025.4-cloud-genericcloud-amd64.tar.xz")
    vendors.key.sign(write_sums(kali))  # type: ignore[attr-defined]
    own = Path(home.env["MOAT_DATA_DIR"]) / "recipes" / "keys"
    (own / "kali.asc").write_bytes(vendors.key.public())  # type: ignore[attr-defined]
    assert "has no apt-get" in home.fails("image", "pull", "debian13")
    assert "has no apt-get" in home.fails("image", "pull", "kali")
    # Both are still there for the next try.
    assert len(downloads(home)) == 2


def test_a_disk_by_its_url(home: Home, vendors: Mirror) -> None:
    common = Home()
    shown = json.loads(common.ok("image", "inspect", "--json", "tiny-disk"))
    common.close()
    disk = vendors.root / "lab.qcow2"
    shutil.copy(Path(shown["dir"]) / "disk.qcow2", disk)
    url = f"{vendors.url}/lab.qcow2"
    right = hashlib.sha256(disk.read_bytes()).hexdigest()
    assert "its checksum is" in home.fails("image", "pull", url, "--sha256", "0" * 64)
    assert "the server answers 404" in home.fails("image", "pull", f"{vendors.url}/no.qcow2")
    assert home.ok("image", "import", url, "--user", "kim", "--sha256", right) == "lab"
    assert json.loads(home.ok("image", "inspect", "--json", "lab"))["user"] == "kim"
    assert home.ok("image", "pull", url, "--name", "other") == "other"
    assert not downloads(home)


def test_a_download_begins_anew_once(home: Home, vendors: Mirror) -> None:
    """Of a server that breaks off and cannot continue: it could go on like that for ever."""
    disk = vendors.root / "broken.qcow2"
    disk.write_bytes(os.urandom(MIB))
    vendors.cut[disk.name] = (1000, 3)
    vendors.no_ranges = True
    pull = ["image", "pull", f"{vendors.url}/{disk.name}", "--sha256", "0" * 64]
    try:
        assert "the server cannot continue a download" in home.fails(*pull, timeout=60)
    finally:
        vendors.no_ranges = False
    assert vendors.ranges(disk.name) == ["", "bytes=1000-", "", "bytes=1000-"]


def test_a_download_has_a_limit(home: Home, vendors: Mirror) -> None:
    with (home.dir / "config.yaml").open("a") as config:
        config.write("download_max_mb: 1\n")
    disk = vendors.root / "large.qcow2"
    disk.write_bytes(os.urandom(3 * MIB))
    url = f"{vendors.url}/{disk.name}"
    said = "it has 3 MiB, and at most 1 are downloaded"
    assert said in home.fails("image", "pull", url)
    assert said in home.fails("image", "pull", url, "--sha256", "0" * 64)
    vendors.no_length = True
    try:
        said = "it has more than the 1 MiB that are downloaded at most"
        assert said in home.fails("image", "pull", url)
    finally:
        vendors.no_length = False
    assert not downloads(home)
    disk.write_bytes(b"\0" * 510 + b"\x55\xaa" + bytes(MIB - 512))
    assert home.ok("image", "pull", url, "--name", "fits") == "fits"


@pytest.mark.needs_root("it makes a small disk")
def test_a_download_does_not_fill_the_disk(vendors: Mirror) -> None:
    small = SmallDisk(2, "cache")
    small.env["MOAT_CACHE_DIR"] = str(small.disk)
    try:
        disk = vendors.root / "too-large.qcow2"
        disk.write_bytes(os.urandom(3 * MIB))
        said = small.fails("image", "pull", f"{vendors.url}/{disk.name}")
        assert "there are 3 MiB to download, and 2 free for them" in said
        assert small.used_kb() < 1024
    finally:
        small.close()
