"""`moat image export`: what comes out is what went in, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home

from tools import until

OVF = "{http://schemas.dmtf.org/ovf/envelope/1}"
RASD = "{http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData}"
SIZE = 300 << 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    """A home with an image `disk`, and the raw disk that it was made of."""
    home = Home()
    raw = tmp_path_factory.mktemp("export") / "disk.raw"
    with raw.open("wb") as file:
        file.truncate(SIZE)
        file.seek(510)
        file.write(b"\x55\xaa")
        file.seek(100 << 20)
        file.write(os.urandom(80 << 20))
    home.env["MOAT_DATA_DIR"] = str(home.dir / "data")
    try:
        home.ok("image", "import", "--name", "disk", "--firmware", "uefi", str(raw))
        yield home, raw
    finally:
        home.close()


def same(raw: Path, other: Path) -> None:
    subprocess.run(["qemu-img", "compare", "-q", "-f", "raw", raw, other], check=True)


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
def test_disk(store: tuple[Home, Path], kind: str, tmp_path: Path) -> None:
    home, raw = store
    out = home.ok("image", "export", "-f", kind, "disk", cwd=tmp_path)
    assert out == f"disk.{kind}"
    file = tmp_path / out
    info = json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", file]))
    assert info["format"] == kind
    assert file.stat().st_blocks * 512 < SIZE / 2, "there are holes"
    assert file.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    same(raw, file)


def current_umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_ova(store: tuple[Home, Path], tmp_path: Path) -> None:
    home, raw = store
    ova = tmp_path / "out.ova"
    told = json.loads(home.ok("image", "export", "-f", "ova", "-o", str(ova), "--json", "disk"))
    assert told == {"path": str(ova), "size": ova.stat().st_size}
    with tarfile.open(ova, format=tarfile.USTAR_FORMAT) as tar:
        assert tar.getnames() == ["disk.ovf", "disk.mf", "disk-disk1.vmdk"], "in this order"
        tar.extractall(tmp_path)

    sums = (tmp_path / "disk.mf").read_text().splitlines()
    assert sums == [
        f"SHA256({name})= {hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}"
        for name in ("disk.ovf", "disk-disk1.vmdk")
    ]

    vmdk = tmp_path / "disk-disk1.vmdk"
    info = json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", vmdk]))
    assert info["format-specific"]["data"]["create-type"] == "streamOptimized"
    assert info["format-specific"]["data"]["extents"][0]["compressed"]
    same(raw, vmdk)

    root = ET.parse(tmp_path / "disk.ovf").getroot()
    [file] = root.iter(f"{OVF}File")
    [disk] = root.iter(f"{OVF}Disk")
    assert file.get(f"{OVF}href") == vmdk.name
    assert int(file.get(f"{OVF}size", "")) == vmdk.stat().st_size
    assert disk.get(f"{OVF}fileRef") == file.get(f"{OVF}id")
    assert int(disk.get(f"{OVF}capacity", "")) == SIZE
    assert disk.get(f"{OVF}format", "").endswith("#streamOptimized")
    items = {}
    for item in root.iter(f"{OVF}Item"):
        tags = [child.tag for child in item]
        assert tags == sorted(tags), "the order that the schema demands"
        items[item.findtext(f"{RASD}InstanceID")] = item
    kinds = {item.findtext(f"{RASD}ResourceType"): item for item in items.values()}
    assert set(kinds) == {"3", "4", "10", "17", "20"}
    assert kinds["17"].findtext(f"{RASD}HostResource") == f"ovf:/disk/{disk.get(f'{OVF}diskId')}"
    assert items[kinds["17"].findtext(f"{RASD}Parent")] is kinds["20"]
    assert 'vmw:key="firmware" vmw:value="efi"' in (tmp_path / "disk.ovf").read_text()

    home.ok("image", "import", "--name", "back", str(ova))
    home.ok("image", "export", "-f", "raw", "-o", str(tmp_path / "back.raw"), "back")
    same(raw, tmp_path / "back.raw")
    home.ok("image", "rm", "back")


def test_refused(store: tuple[Home, Path], tmp_path: Path) -> None:
    home, _ = store
    assert "is not a file" in home.fails("image", "export", "-o", str(tmp_path), "disk")
    assert "No such file" in home.fails("image", "export", "-o", str(tmp_path / "x/y"), "disk")
    assert "format" in home.fails("image", "export", "-f", "zip", "-o", str(tmp_path / "z"), "disk")
    assert 'no image "no"' in home.fails("image", "export", "-o", str(tmp_path / "z"), "no")
    assert not list(tmp_path.iterdir())


def test_an_image_without_a_disk(images: None, tmp_path: Path) -> None:
    home = Home()
    try:
        assert "has no disk" in home.fails("image", "export", "-o", str(tmp_path / "z"), "tiny")
    finally:
        home.close()


def stop_qemu_img(home: Home) -> int:
    def stopped() -> int:
        for pid, line in home.processes().items():
            if line.startswith("qemu-img convert"):
                os.kill(pid, signal.SIGSTOP)
                return pid
        return 0

    return until(stopped, "qemu-img runs", seconds=60)


@pytest.mark.parametrize("kind", ["raw", "ova"])
@pytest.mark.parametrize("how", ["cancelled", "killed"])
def test_interrupted(store: tuple[Home, Path], kind: str, how: str, tmp_path: Path) -> None:
    """The file that was there stays, and nothing is beside it."""
    home, _ = store
    old = tmp_path / "old"
    old.write_text("as before")
    export = home.start("image", "export", "-f", kind, "-o", str(old), "disk")
    stop_qemu_img(home)
    if how == "cancelled":
        export.send_signal(signal.SIGINT)
        assert export.wait(30) == 130
    else:
        home.kill_daemon()
        assert export.wait(30) != 0
    assert old.read_text() == "as before"
    assert list(tmp_path.iterdir()) == [old]
    home.ok("image", "ls")  # a new daemon removes what the dead one left
    images = home.dir / "data" / "images"
    until(lambda: not list(images.glob("tmp-*")), "nothing is left in the store")
    home.ok("image", "export", "-f", "raw", "-o", str(old), "disk")
    assert old.stat().st_size == SIZE
