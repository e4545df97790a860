"""Memory that runs out while something is being made or saved."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from group import Group
from home import Home

from tools import Counter, listed, log_of, own_data, until

pytestmark = pytest.mark.needs_root("it makes a control group")
PATIENCE = 300.0
KIND: dict[str, Any] = {"vms": [{"source": "tiny", "ram_mb": 160, "vcpus": 1}]}
CONFIG = "idle_exit: 0\nmemory_keep_mb: 0\n"
LITTLE = 24  # MB: less than any step below needs, and enough to fail properly
SPARE = 48  # what stays free of memory when a template is loaded


class Bounded(Home):
    """A home whose daemon, with all that it starts, can have only so much memory."""

    def __init__(self, data: Path) -> None:
        super().__init__(CONFIG)
        self.env["MOAT_DATA_DIR"] = str(data)
        self.templates = data / "templates"
        self.group = Group()
        self.again()

    def again(self) -> None:
        self.run("serve", "--stop", "--force")
        self.group.free()
        self.ok("ls")
        self.group.add(self.daemon_pid())

    def begin(self, *args: str) -> subprocess.Popen[bytes]:
        return self.start(*args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def kinds(self) -> list[str]:
        """The templates on disk, half-made ones too."""
        return [p for p in os.listdir(self.templates) if p != "busy"]

    def template_mb(self) -> int:
        (ram,) = self.templates.glob("*/ram")
        return ram.stat().st_blocks // 2048

    def close(self) -> None:
        self.group.free()
        super().close()
        self.group.close()


@pytest.fixture(scope="module")
def bounded(images: None) -> Iterator[Bounded]:
    with own_data() as data:
        home = Bounded(data)
        yield home
        home.close()


def follow(process: subprocess.Popen[bytes], line: str, then: Callable[[], None]) -> str:
    """Reads its output until that text has come, then calls the function."""
    assert process.stderr
    said = ""
    for words in process.stderr:
        said += words.decode()
        if words.decode().startswith(line):
            then()
            break
    return said


def end(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    out, said = process.communicate(timeout=PATIENCE)
    return out.decode().strip(), said.decode()


def start_of(home: Home, sandbox: str) -> tuple[str, str]:
    ((vm,),) = [s["vms"] for s in listed(home) if s["id"] == sandbox]
    return vm["start"], vm.get("cold_reason") or ""


@pytest.fixture(scope="module")
def counter(bounded: Bounded) -> Counter:
    """One that counts, made from a template that could not be made the first time."""
    had = bounded.group.kills()
    up = bounded.begin("up", bounded.spec(KIND))
    follow(up, "making a template of tiny: booting", lambda: bounded.group.leave(LITTLE))
    until(lambda: bounded.group.kills() > had, "the maker is killed", PATIENCE)
    bounded.group.free()
    cold, said = end(up)
    assert up.returncode == 0, said
    start, why = start_of(bounded, cold)
    assert start == "cold"
    assert "memory runs out" in why
    assert "memory runs out" in said
    assert bounded.ok("exec", cold, "--", "echo", "fine") == "fine"
    assert bounded.kinds() == []
    bounded.ok("rm", cold)
    bounded.assert_nothing_left()
    # One failure does not stop later attempts.
    made = bounded.ok("up", bounded.spec(KIND), timeout=900)
    assert start_of(bounded, made) == ("warm", "")
    return Counter(bounded, made)


def snapshots(home: Home, sandbox: str) -> list[str]:
    there = home.dir / "state" / "sandboxes" / sandbox / "snapshots"
    return os.listdir(there) if there.exists() else []


def test_too_little_for_a_snapshot(bounded: Bounded, counter: Counter) -> None:
    sandbox = counter.sandbox
    had = bounded.group.kills()
    bounded.group.leave(LITTLE)
    for verb in (("snapshot", sandbox, "s"), ("fork", "--no-wait", sandbox)):
        assert "not enough memory for a snapshot: it takes" in bounded.fails(*verb)
        assert snapshots(bounded, sandbox) == []
        counter.goes_on()
    bounded.group.free()
    assert bounded.group.kills() == had
    assert [s["id"] for s in listed(bounded)] == [sandbox]


def test_memory_goes_while_a_snapshot_is_made(bounded: Bounded, counter: Counter) -> None:
    """Memory for saving was taken before the VM was paused, so it cannot run out then."""
    sandbox = counter.sandbox
    had = bounded.group.kills()
    (pid,) = bounded.qemu_pids(sandbox)
    os.kill(pid, signal.SIGSTOP)
    try:
        saving = bounded.begin("snapshot", sandbox, "s")
        draft = bounded.dir / "state" / "sandboxes" / sandbox / "snapshots" / ".new"
        until(draft.exists, "it has looked for room", PATIENCE)
        bounded.group.leave(LITTLE)
    finally:
        os.kill(pid, signal.SIGCONT)
    _, said = end(saving)
    bounded.group.free()
    # On a disk there is room for it; where files are in memory, there is not.
    assert (saving.returncode == 0) == (snapshots(bounded, sandbox) == ["s"]), said
    assert saving.returncode == 0 or "not enough memory" in said, said
    assert bounded.group.kills() == had
    assert bounded.qemu_pids(sandbox) == [pid]
    counter.goes_on()


def test_memory_goes_while_a_copy_is_made(bounded: Bounded, counter: Counter) -> None:
    """If memory runs out, the copy is killed, not the VM in use."""
    sandbox = counter.sandbox
    (pid,) = bounded.qemu_pids(sandbox)
    had = snapshots(bounded, sandbox)

    def once() -> str:
        forking = bounded.begin("fork", "--no-wait", sandbox)
        follow(forking, "making the network", lambda: bounded.group.leave(48))
        made, said = end(forking)
        bounded.group.free()
        if forking.returncode == 0:  # it ended before memory ran out
            bounded.ok("rm", *made.split())
            return ""
        return said

    said = until(once, "the memory goes in time", PATIENCE)
    assert "memory runs out" in said, said
    assert snapshots(bounded, sandbox) == had
    assert [s["id"] for s in listed(bounded)] == [sandbox]
    assert bounded.qemu_pids() == [pid]
    counter.goes_on()
    (copy,) = bounded.ok("fork", sandbox).split()
    assert bounded.ok("exec", copy, "--", "echo", "fine") == "fine"
    bounded.ok("rm", sandbox, copy)
    bounded.assert_nothing_left()


def test_too_little_for_a_template_that_there_is(bounded: Bounded, counter: Counter) -> None:
    def once() -> tuple[str, str] | None:
        (bounded.dir / "state" / "daemon.log").unlink()
        bounded.again()  # what is in memory already is not loaded
        up = bounded.begin("up", bounded.spec(KIND))
        room = bounded.template_mb() + SPARE - 10
        follow(up, "making the network", lambda: bounded.group.leave(room))
        until(lambda: up.poll() is not None or "starts cold" in log_of(bounded), "it starts", 300)
        bounded.group.free()
        made, said = end(up)
        assert up.returncode == 0, said
        start, why = start_of(bounded, made)
        assert bounded.ok("exec", made, "--", "echo", "fine") == "fine"
        bounded.ok("rm", made)
        # The memory went too late: the template was loaded, and QEMU had started from it.
        too_late = start == "warm" or "QEMU of VM default was killed by signal 9" in why
        return None if too_late else (why, said)

    why, said = until(once, "the memory goes in time", PATIENCE)
    assert "not enough memory for the template: it takes" in why
    assert "did not start warm: not enough memory" in said
    assert len(bounded.kinds()) == 1  # the template is not damaged
    made = bounded.ok("up", bounded.spec(KIND))
    assert start_of(bounded, made) == ("warm", "")
    bounded.ok("rm", made)
    bounded.assert_nothing_left()
