"""Each call fails once, in each way: nothing of ours stays on a server, nothing else is touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lives import LOGIN, SPEC, WAIT_SECONDS, Lives, a_server, forget_login

# Each way in which one call can fail; the last two come after the server has done what was asked.
WAYS: dict[str, dict[str, Any]] = {
    "connection lost": {"action": "drop"},
    "unauthorized": {"status": 401},
    "server error": {"status": 500},
    "front end error": {"status": 596},
    "answer lost": {"action": "drop", "when": "after"},
    "late server error": {"status": 500, "when": "after"},
}
# Several servers and daemons at a time, since most of a life is waiting.
AT_ONCE = 4
# These lives use no guest: whether one is really there makes no difference to them but for time.
NO_VMS = "none"


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with a_server() as server, Lives(server) as made:
        yield made


@pytest.fixture(scope="module")
def calls(lives: Lives) -> list[tuple[str, str, int]]:
    return lives.calls()


def test_a_whole_life_leaves_nothing(lives: Lives) -> None:
    lives.server.clear()
    assert lives.live() == []
    lives.assert_as_before("without any fault")
    assert lives.home.left_over() == []


def no_reason(text: str) -> bool:
    """What a user is told is one line with a reason, and the daemon is still there."""
    lines = text.strip().splitlines()
    return not lines or not lines[-1].startswith("moat: ") or "closed the connection" in lines[-1]


def strike(way: str, calls: list[tuple[str, str, int]]) -> list[str]:
    """Lives in which one call after the other fails in this way."""
    failed: list[str] = []
    with a_server(NO_VMS) as server, Lives(server) as lives:
        for method, path, skip in calls:
            if method == "GET" and WAYS[way].get("when") == "after":
                continue  # nothing was changed, so it is no different from one that came before
            what = f"{way}, {method} {path}, number {skip + 1}"
            server.clear()
            # A server that failed is left out for a while, unless it is looked at again.
            lives.home.run("pool", "clean")
            if path == LOGIN:
                forget_login(server)
            rule = server.fault(method=method, path=path, skip=skip, **WAYS[way])
            wrong = lives.live()
            if not server.struck(rule):
                failed.append(f"{what}: never struck")
            server.control("clear_faults")
            failed += [f"{what}: {text!r}" for text in wrong if no_reason(text)]
            lives.assert_as_before(what)
        lives.home.assert_nothing_left()  # a journal entry goes after what it names
    return failed


def kill(calls: list[tuple[str, str, int]]) -> list[str]:
    """A call is on its way when the daemon dies: the server still does what it was asked for."""
    with a_server(NO_VMS) as server, Lives(server) as lives:
        for method, path, skip in calls:
            server.clear()
            if path == LOGIN:
                forget_login(server)
            where = {"method": method, "path": path, "skip": skip}
            rule = server.fault(action="latency", seconds=0.2, **where)
            with ThreadPoolExecutor(1) as one:
                life = one.submit(lives.live)
                while not server.struck(rule) and not life.done():
                    time.sleep(0.005)
                lives.home.kill_daemon()
                life.result()
            server.clear_faults()
            lives.assert_as_before(f"killed at {method} {path}, number {skip + 1}")
        lives.home.ok("gc")
        return lives.home.left_over()


def test_each_call_fails_in_each_way_or_is_the_last(calls: list[tuple[str, str, int]]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = [pool.submit(kill, calls)]
        results += [pool.submit(strike, way, calls) for way in WAYS]
        failed = [text for result in results for text in result.result()]
    assert failed == []


def test_calls_of_commands_fail(lives: Lives) -> None:
    """A command comes through or says why not, and the next one comes through."""
    server = lives.server
    server.clear()
    lives.home.run("pool", "clean")
    failed = []
    for way, fault in WAYS.items():
        # A new sandbox has no kept line yet, over which a command would pass without a call.
        sandbox = lives.home.ok("up", lives.home.spec(SPEC), timeout=WAIT_SECONDS)
        server.fault(path="/(agent/|termproxy)", **fault)
        told = lives.use(sandbox)
        if told and no_reason(told):
            failed.append(f"{way}: {told!r}")
        server.clear_faults()
        again = lives.use(sandbox)
        if again:
            failed.append(f"after {way}: {again!r}")
        lives.home.ok("rm", sandbox, timeout=WAIT_SECONDS)
    assert failed == []
    lives.assert_as_before("commands failed")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["qmclone", "qmstart", "reloadnetworkall", "qmstop", "qmdestroy"])
def test_tasks_that_fail(lives: Lives, kind: str, when: str) -> None:
    server = lives.server
    server.clear()
    lives.home.run("pool", "clean")
    server.control("fail_task", kind=kind, status="injected failure", when=when)
    wrong = lives.live()
    assert not any(no_reason(text) for text in wrong)
    server.clear_faults()
    lives.assert_as_before(f"task {kind} failed {when} its work")


def test_network_that_does_not_come_up_on_the_node(lives: Lives) -> None:
    server = lives.server
    server.clear()
    lives.home.run("pool", "clean")
    server.control("reload_fails", node="pve", times=100)
    wrong = lives.live()
    assert wrong, "the sandbox came up although its network did not"
    server.control("reload_fails", node="pve", times=0)
    lives.assert_as_before("the node's network did not reload")
