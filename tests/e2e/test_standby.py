"""Standby: sandboxes that are made ahead, for the next `up` of the same spec."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from home import TINY, Home, Wire, kill

import tools
from tools import listed

PATIENCE = 300.0


def waiting(home: Home) -> list[str]:
    return [s["id"] for s in listed(home) if s["state"] == "standby"]


def until(condition: Callable[[], Any], what: str) -> Any:
    return tools.until(condition, what, PATIENCE)


class Keeper:
    """`moat standby`, running."""

    def __init__(self, home: Home, count: int, spec: dict[str, Any] | None = None) -> None:
        self.home, self.count = home, count
        path = home.spec(spec or TINY)
        self.process = home.start("standby", "-n", str(count), path, stderr=subprocess.PIPE)

    def ready(self) -> list[str]:
        def all_there() -> list[str]:
            found = waiting(self.home)
            return found if len(found) == self.count else []

        return until(all_there, f"not {self.count} in standby")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


@pytest.fixture(scope="module")
def lively(images: None) -> Iterator[Home]:
    """One daemon for the tests that leave nothing in it."""
    made = Home()
    yield made
    made.close()


def test_the_next_up_takes_one_and_another_takes_its_place(lively: Home) -> None:
    keeper = Keeper(lively, 2)
    before = keeper.ready()
    for id in before:  # unused before it was taken
        assert "in standby" in lively.fails("exec", id, "--", "true")
        assert "in standby" in lively.fails("detach", id)
        assert "in standby" in lively.fails("snapshot", id, "s")
    other = {"vms": [{**TINY["vms"][0], "name": "other"}]}
    made = lively.up(other)
    assert made not in before  # a different spec gets a new sandbox
    # The same spec, written differently: members that are left out have their defaults.
    same = {"driver": "qemu", "vms": [{**TINY["vms"][0], "source": {"image": "tiny"}}]}
    taken = lively.up(same, "--label", "who=first")
    assert taken in before
    (entry,) = [s for s in listed(lively) if s["id"] == taken]
    assert (entry["state"], entry["labels"]) == ("running", {"who": "first"})
    assert entry["detached"]  # it is not the keeper's any more
    now = lively.ok("exec", taken, "--", "date", "+%s")
    assert abs(int(now) - time.time()) < 30
    after = keeper.ready()
    assert taken not in after
    assert set(after) & set(before)
    # Removed by hand, it is made anew; a dead one is never handed out, and replaced.
    lively.ok("rm", after[0])
    until(lambda: after[0] not in waiting(lively), "it is still there")
    victim = keeper.ready()[0]
    (pid,) = lively.qemu_pids(victim)
    kill(pid)
    assert lively.up() != victim
    until(lambda: victim not in [s["id"] for s in listed(lively)], "the dead one stays")
    keeper.ready()
    # Its end removes those in standby, and no others.
    assert keeper.end() == 0
    until(lambda: not waiting(lively), "some stay in standby")
    assert taken in [s["id"] for s in listed(lively)]
    lively.ok("rm", "--all")
    lively.assert_nothing_left()


def test_a_killed_client_and_a_killed_daemon_leave_nothing(lively: Home) -> None:
    keeper = Keeper(lively, 1)
    keeper.ready()
    keeper.end(signal.SIGKILL)
    lively.assert_nothing_left()
    keeper = Keeper(lively, 3)
    until(lambda: waiting(lively), "none in standby")  # while the next one is being made
    lively.kill_daemon()
    keeper.process.wait(timeout=PATIENCE)
    until(lambda: not lively.qemu_pids(), "a VM outlived its daemon")
    lively.ok("gc")
    lively.assert_nothing_left()


def test_many_at_once_get_one_each(lively: Home) -> None:
    keeper = Keeper(lively, 2)
    keeper.ready()
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(lively.up())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert len(set(got)) == 4
    for id in got:
        assert lively.ok("exec", id, "--", "echo", "mine") == "mine"
    assert keeper.end() == 0
    lively.ok("rm", "--all")
    lively.assert_nothing_left()


def test_the_protocol(lively: Home) -> None:
    client = Wire(lively)
    for args, why in (
        ({"spec": TINY, "count": 0}, "count"),
        ({"spec": TINY, "count": 65}, "count"),
        ({"spec": TINY, "idle": -1}, "idle"),
        ({"spec": TINY, "labels": {"a": 1}}, "labels.a"),
        ({"spec": {"vms": []}}, "vms"),
        ({"spec": {"vms": [{"source": "no-such-image"}]}}, "no-such-image"),
    ):
        error = client.final(client.request("standby", args))["error"]
        assert why in error["message"], error
    idle = client.request("standby", {"spec": TINY, "idle": 1})
    assert client.final(idle)["result"] == {"taken": 0}
    keeping = client.request("standby", {"spec": TINY, "labels": {"task": "t"}})
    until(lambda: waiting(lively), "none in standby")
    (entry,) = listed(lively)
    assert entry["labels"] == {"task": "t"}
    up = client.request("up", {"spec": TINY})
    assert client.final(up)["result"]["sandbox"] == entry["id"]
    client.send({"type": "cancel", "id": keeping})
    assert client.final(keeping)["error"]["kind"] == "cancelled"
    assert not waiting(lively)
    client.sock.close()
    lively.assert_nothing_left()


def test_standby_gives_its_memory_to_those_who_wait(home: Home) -> None:
    home.ok("ls")
    free = json.loads(home.ok("info", "--json"))["memory"]["available_mb"]
    home.ok("serve", "--stop")
    # Three quarters may be used: one half fits, two do not, whatever others do meanwhile.
    config = f"idle_exit: 0\nmemory_keep_mb: {free // 4}\n"
    (home.dir / "config.yaml").write_text(config)
    # `up` does not wait for this VM: it is no sandbox VM and has no healthcheck.
    large = {"name": "large", "source": "tiny", "ram_mb": free // 2, "is_sandbox": False}
    spare = {"vms": [TINY["vms"][0], large]}
    wanted = {"vms": [TINY["vms"][0], {**large, "name": "wanted"}]}
    keeper = Keeper(home, 1, spare)
    (waits,) = keeper.ready()
    big = home.up(wanted)
    assert [(s["id"], s["state"]) for s in listed(home)] == [(big, "running")]
    home.ok("rm", big)
    assert waits not in keeper.ready()  # there is room again
    assert keeper.end() == 0
    home.assert_nothing_left()


def test_no_thread_is_left(lively: Home) -> None:
    """The requests of clients that have gone have ended: none of their threads is left."""
    pid = lively.daemon_pid()
    until(lambda: len(os.listdir(f"/proc/{pid}/task")) <= 4, "threads stay")
