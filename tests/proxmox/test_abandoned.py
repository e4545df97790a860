"""Clones whose task was killed: the server leaves them half made and locked, for ever."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from client import Client
from server import PveServer

from driver import SPEC, PveHome, add_template, instance, left, wait_for

WORDS = "the server has abandoned VM 100 half made: it is locked (clone)"
KILLED = "unexpected status"


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=0.1, task_time=0.05) as server:
        add_template(server)
        yield server


def abandon(server: PveServer) -> None:
    server.control("fail_task", kind="qmclone", status=KILLED, abandon=True)


def why(home: PveHome) -> str:
    shown = json.loads(home.ok("pool", "ls", "--json"))["instances"][0]
    return f"{shown['state']}: {shown['detail']}"


@pytest.mark.parametrize("answer", ["lost", "heard"])
def test_an_abandoned_clone_is_named_and_left_alone(pve: PveServer, answer: str) -> None:
    """It has no stamp yet, so it may be anybody's."""
    before = left(pve)
    home = PveHome(instance(pve))
    try:
        abandon(pve)
        if answer == "lost":
            pve.fault(path="/clone$", method="POST", action="drop", when="after")
        told = home.fails("up", home.spec(SPEC), timeout=60)
        pve.clear()
        assert (WORDS if answer == "lost" else KILLED) in told
        assert pve.state()["vms"]["100"]["lock"] == "clone"
        wait_for(lambda: WORDS in why(home))
        assert why(home).startswith("dirty: ")
        assert "on node pve: qm unlock 100 && qm destroy 100" in why(home)
        # Somebody follows that advice.
        pve.control("remove_vm", vmid=100)
        home.ok("pool", "clean")
        home.assert_nothing_left(60)
        home.ok("rm", home.up(SPEC))
        assert left(pve) == before
    finally:
        home.close()


def test_clones_of_others_do_not_prolong_that(pve: PveServer) -> None:
    """Only a task that was there from the beginning can be the one that makes the VM."""
    before = left(pve)
    home = PveHome(instance(pve))
    client = Client(pve)
    vmid = 300
    try:
        abandon(pve)
        lost = pve.fault(path="/clone$", method="POST", action="drop", when="after")
        process = home.start("up", home.spec(SPEC))
        wait_for(lambda: pve.struck(lost))
        pve.control("settle")
        pve.control("task_seconds", kind="qmclone", seconds=0.7)
        while process.poll() is None:
            assert vmid < 400
            client.call("POST", "/nodes/pve/qemu/9000/clone", {"newid": vmid, "full": 0})
            vmid += 1
            time.sleep(0.6)  # so that the next begins before this one has ended
        pve.clear()
        assert process.returncode != 0
        wait_for(lambda: WORDS in why(home))
    finally:
        pve.control("task_seconds", kind="qmclone", seconds=0.05)
        home.close()
        pve.control("settle")
        for one in ("100", *map(str, range(300, vmid))):
            if one in pve.state()["vms"]:
                pve.control("remove_vm", vmid=int(one))
    assert left(pve) == before
