"""A VM that begins with an empty disk and a CD, and ends as an image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from home import Home
from iso import assemble, write_iso

from tools import until

RUNS = "the installed system runs"


@pytest.fixture
def iso(tmp_path: Path) -> Path:
    made = tmp_path / "install.iso"
    write_iso(made, assemble(Path(__file__).parent / "installer.S", tmp_path))
    return made


def console(home: Home, sandbox: str) -> str:
    return home.ok("logs", sandbox)


def test_a_system_is_installed_from_a_cd(home: Home, iso: Path) -> None:
    # Nothing in an installer answers: up does not wait for that. The empty disk is made by itself.
    done = home.run("up", "--cdrom", iso.name, "--ram", "128", cwd=iso.parent, timeout=300)
    assert done.returncode == 0, done.stderr
    sandbox = done.stdout.strip()
    # The disk is tried first: it is empty, then it is not.
    until(lambda: RUNS in console(home, sandbox), "the system runs")
    assert console(home, sandbox).count("installing...") == 1
    home.ok("snapshot", sandbox, "installed")
    home.ok("restore", sandbox, "installed")
    copy = home.ok("fork", sandbox)
    assert len(home.qemu_pids()) == 2
    assert home.ok("image", "commit", sandbox, "system") == "system"
    home.ok("rm", copy, sandbox)
    # Beside a disk that boots a CD is only a CD.
    vm = {"source": "system", "cdrom": str(iso), "ram_mb": 128, "uefi_boot": False}
    again = home.ok("up", home.spec({"vms": [vm]}))
    until(lambda: RUNS in console(home, again), "the system runs again")
    assert "installing" not in console(home, again)
    inspected = json.loads(home.ok("image", "inspect", "--json", "blank"))
    assert inspected["size"] < 1 << 20
    home.ok("rm", again)
    home.ok("image", "rm", "system")


def test_a_cd_is_on_either_board(home: Home, iso: Path) -> None:
    """The old board has real IDE for the disk, too."""
    home.ok("image", "build", "blank")
    vm = {"source": "blank", "disk_gb": 1, "cdrom": str(iso), "disk_controller": "ide"}
    sandbox = home.ok("up", home.spec({"vms": [{**vm, "ram_mb": 128}]}))
    until(lambda: RUNS in console(home, sandbox), "the system runs")
    home.ok("rm", sandbox)


def test_what_is_no_cd_is_refused(home: Home, iso: Path) -> None:
    missing = str(iso.parent / "missing.iso")
    assert "missing.iso: No such file" in home.fails("up", "--cdrom", missing)
    vm = {"source": "tiny", "cdrom": missing}
    said = home.fails("up", "--check", home.spec({"vms": [vm]}))
    assert said.endswith(f"vms[0].cdrom: {missing}: No such file or directory")
    vm["cdrom"] = str(iso.parent)
    assert "is not a file" in home.fails("up", "--check", home.spec({"vms": [vm]}))
    assert "--cdrom is for images" in home.fails(
        "up", "--cdrom", str(iso), home.spec({"vms": [vm]})
    )
    assert "moat up --cdrom" in home.fails("image", "import", str(iso))
