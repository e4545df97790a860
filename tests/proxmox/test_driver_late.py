"""What appears on a server, or cannot be removed there, after moat has stopped waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import SPEC, WAIT_SECONDS, PveHome, add_template, instance, make_ova, wait_for

SCALE = 0.1
# Longer than any test waits: such a task has to be stopped.
FOR_EVER = 3600.0
# Long enough to be killed in the middle of it.
A_WHILE = 4.0
GUARDED = 9001


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05) as server:
        add_template(server)
        add_template(server, GUARDED, tags="guarded;inspect")
        config = f"/nodes/{server.node}/qemu/{GUARDED}/config"
        assert Client(server).call("PUT", config, {"protection": 1}).status == 200
        yield server


@pytest.fixture(autouse=True)
def quick(clean: PveServer) -> Iterator[None]:
    """Tasks that a test has made slow are quick again after it."""
    yield
    for kind in ("download", "imgcopy"):
        clean.control("task_seconds", kind=kind, seconds=0.05)


@pytest.fixture
def own(clean: PveServer) -> Iterator[PveHome]:
    """A moat whose daemon may be killed."""
    home = PveHome(instance(clean))
    yield home
    home.close()


def of(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**SPEC, "vms": [{**SPEC["vms"][0], "source": source, **more}]}


def running(server: PveServer, kind: str) -> list[str]:
    tasks = server.control("tasks")
    return [t["upid"] for t in tasks if t["type"] == kind and "endtime" not in t]


def kill(home: PveHome) -> None:
    home.kill_daemon()
    home.ok("gc", timeout=WAIT_SECONDS)


# --- files ---


def end_of(home: PveHome, server: PveServer, spec: dict[str, Any], kind: str, how: str) -> None:
    """A sandbox whose making ends while the server is busy with its file."""
    process = home.start("up", home.spec(spec))
    wait_for(lambda: running(server, kind) or process.poll() is not None)
    if how == "killed":
        kill(home)
    else:
        process.terminate()
    process.wait(WAIT_SECONDS)
    home.assert_nothing_left(WAIT_SECONDS)


@pytest.mark.parametrize("how", ["killed", "cancelled"])
def test_a_download_is_stopped(own: PveHome, clean: PveServer, how: str) -> None:
    clean.control("task_seconds", kind="download", seconds=FOR_EVER)
    end_of(own, clean, of({"built_in": "debian13"}), "download", how)
    (download,) = [t for t in clean.control("tasks") if t["type"] == "download"][-1:]
    assert download["status"] == "received interrupt"


def test_a_download_that_may_not_be_stopped_is_waited_for(own: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="download", seconds=A_WHILE)
    clean.fault(path="/tasks/UPID", method="DELETE", status=403, times=-1)
    end_of(own, clean, of({"built_in": "debian13"}), "download", "killed")
    (download,) = [t for t in clean.control("tasks") if t["type"] == "download"][-1:]
    assert download["status"] == "OK"


def test_downloads_of_others_are_left_alone(own: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="download", seconds=FOR_EVER)
    client = Client(clean)
    given = {"content": "iso", "filename": "theirs.iso", "url": "http://192.0.2.7/theirs.iso"}
    theirs = client.call("POST", f"/nodes/{clean.node}/storage/local/download-url", given).data
    try:
        process = own.start("up", own.spec(of({"built_in": "debian13"})))
        wait_for(lambda: len(running(clean, "download")) == 2)
        kill(own)
        process.wait(WAIT_SECONDS)
        own.assert_nothing_left(WAIT_SECONDS)
        assert running(clean, "download") == [theirs]
    finally:
        ended = client.call("DELETE", f"/nodes/{clean.node}/tasks/{theirs}")
    assert ended.status == 200


@pytest.mark.parametrize("how", ["killed", "cancelled"])
def test_a_file_that_is_being_copied_goes_too(
    own: PveHome, clean: PveServer, tmp_path: Path, how: str
) -> None:
    ova = tmp_path / "machine.ova"
    make_ova(ova)
    clean.control("task_seconds", kind="imgcopy", seconds=A_WHILE)
    end_of(own, clean, of({"ova": str(ova)}), "imgcopy", how)


@pytest.mark.parametrize("content", ["iso", "import"])
def test_gc_finds_files_that_no_journal_knows(own: PveHome, clean: PveServer, content: str) -> None:
    own.ok("rm", own.up(SPEC))
    install = (own.dir / "state" / "proxmox-id").read_text()
    suffix = "iso" if content == "iso" else "qcow2"
    ours = f"local:{content}/moat-{install}-0123456789-x.{suffix}"
    theirs = f"local:{content}/moat-00000000-0123456789-x.{suffix}"
    for volid in (ours, theirs):
        clean.control("add_volume", volid=volid, content=content)
    own.ok("gc", timeout=WAIT_SECONDS)
    there = clean.state()["volumes"]
    assert ours not in there
    assert theirs in there
    path = f"/nodes/{clean.node}/storage/local/content/{theirs}"
    assert Client(clean).task("DELETE", path) == "OK"


# --- VMs that are protected ---

CONFIG = rf"/qemu/(?!{GUARDED})[0-9]+/config$"
OF_GUARDED = of({"existing_vm_template_tag": "guarded"})


def test_a_protected_template_has_clones_that_can_be_removed(
    own: PveHome, clean: PveServer
) -> None:
    clean.fault(path=CONFIG, method="PUT", message="no such luck")
    assert "no such luck" in own.fails("up", own.spec(OF_GUARDED), timeout=WAIT_SECONDS)
    own.assert_nothing_left(WAIT_SECONDS)
    assert clean.state()["vms"][str(GUARDED)]["config"]["protection"] == 1


def test_a_clone_that_was_never_configured_is_removed_by_the_next_daemon(
    own: PveHome, clean: PveServer
) -> None:
    rule = clean.fault(path=CONFIG, method="PUT", action="drop", times=-1)
    process = own.start("up", own.spec(OF_GUARDED))
    wait_for(lambda: clean.struck(rule))
    own.kill_daemon()
    process.wait(WAIT_SECONDS)
    clean.clear_faults()
    own.ok("gc", timeout=WAIT_SECONDS)
    own.assert_nothing_left(WAIT_SECONDS)


def test_a_sandbox_that_asks_for_protection_goes_all_the_same(
    own: PveHome, clean: PveServer
) -> None:
    sandbox = own.up(of({"existing_vm_template_tag": "base"}, native={"protection": 1}))
    own.ok("rm", sandbox, timeout=WAIT_SECONDS)
    own.assert_nothing_left(WAIT_SECONDS)
