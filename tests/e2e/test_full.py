"""A disk that gets full while something is being saved on it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import TINY
from small import SmallDisk

from tools import Counter, listed, until

PATIENCE = 300.0


@pytest.fixture
def running(images: None) -> Iterator[SmallDisk]:
    """A sandbox in which something runs, on a disk with room for a snapshot or two."""
    home = SmallDisk(700)
    home.sandbox = home.ok("up", home.spec(TINY), timeout=900)  # type: ignore[attr-defined]
    home.counter = Counter(home, home.sandbox)  # type: ignore[attr-defined]
    yield home
    home.close()


def fails_in_the_middle(home: SmallDisk, sandbox: str, *verb: str) -> str:
    """Runs it with a disk that had room when it began and has none when the state is written."""
    (pid,) = home.qemu_pids(sandbox)
    os.kill(pid, signal.SIGSTOP)
    try:
        saving = home.start(*verb, stderr=-1)
        draft = home.disk / "sandboxes" / sandbox / "snapshots" / ".new"
        until(draft.exists, "it has looked for room", PATIENCE)
        home.resize(home.used_kb() + 64)
    finally:
        os.kill(pid, signal.SIGCONT)
    _, said = saving.communicate(timeout=PATIENCE)
    home.resize(700 << 10)
    assert saving.returncode != 0
    return said.decode()


@pytest.mark.needs_root("it mounts a small disk")
def test_the_sandbox_goes_on_without_its_snapshot(running: SmallDisk) -> None:
    sandbox: str = running.sandbox  # type: ignore[attr-defined]
    counter: Counter = running.counter  # type: ignore[attr-defined]
    running.ok("snapshot", sandbox, "before")
    snapshots = running.disk / "sandboxes" / sandbox / "snapshots"
    for verb in (
        ("snapshot", sandbox, "cut"),
        ("snapshot", sandbox, "before"),
        ("fork", "-n", "2", sandbox),
    ):
        said = fails_in_the_middle(running, sandbox, *verb)
        assert "the disk is full" in said, said
        assert os.listdir(snapshots) == ["before"]  # the one that there was is whole
        counter.goes_on()
        assert [s["id"] for s in listed(running)] == [sandbox]
    # With too little room from the beginning nothing stands still at all.
    running.resize(running.used_kb() + 1024)
    assert "not enough disk" in running.fails("snapshot", sandbox, "cut")
    running.resize(700 << 10)
    running.ok("snapshot", sandbox, "cut")
    running.ok("restore", sandbox, "before")
    counter.goes_on()
    running.ok("rm", sandbox)
    running.assert_nothing_left()


@pytest.fixture
def cramped(images: None) -> Iterator[SmallDisk]:
    """Images, and little room for templates beside them."""
    home = SmallDisk(1024, "data")
    home.env["MOAT_DATA_DIR"] = str(home.disk)
    shared = Path(os.environ["MOAT_DATA_DIR"]) / "images"
    digest = (shared / "names" / "tiny").read_text().strip()
    for name in ("names/tiny", f"sha256-{digest}"):
        target = home.disk / "images" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (shared / name).is_dir() else shutil.copy)(shared / name, target)
    home.resize(home.used_kb() + 8192)
    yield home
    home.close()


@pytest.mark.needs_root("it mounts a small disk")
def test_no_room_for_a_template(cramped: SmallDisk) -> None:
    sandbox = cramped.ok("up", cramped.spec(TINY), timeout=900)
    ((vm,),) = [s["vms"] for s in listed(cramped)]
    assert vm["start"] == "cold"
    assert "No space left" in vm["cold_reason"] or "full" in vm["cold_reason"]
    assert cramped.ok("exec", sandbox, "--", "echo", "fine") == "fine"
    templates = cramped.disk / "templates"
    assert [p for p in os.listdir(templates) if p != "busy"] == []
    # When there is room the next one is made.
    cramped.resize(1 << 20)
    second = cramped.ok("up", cramped.spec(TINY), timeout=900)
    states = {s["id"]: s["vms"][0]["start"] for s in listed(cramped)}
    assert states == {sandbox: "cold", second: "warm"}
    cramped.ok("rm", sandbox, second)
    cramped.assert_nothing_left()
