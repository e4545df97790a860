"""A server that is away for a while, as when it restarts: that costs time, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import Client
from lives import LOGIN, SPEC, WAIT_SECONDS, Lives, a_server, forget_login
from server import PveServer

from driver import PveHome, instance, wait_for

# Several servers and daemons at a time, since most of a life is waiting.
AT_ONCE = 6
AWAY_SECONDS = 0.4
# What must be done once in a life; a VM that runs already may be started once more.
ONCE = ("qmclone", "qmsnapshot", "qmrollback", "qmdestroy")
COMMAND = "cat; echo ran >>/ran; wc -l </ran"


class Whole(Lives):
    """Lives with a command and a snapshot, behind the server's firewall."""

    def __init__(self, server: PveServer) -> None:
        super().__init__(server)
        client = Client(server)
        assert client.call("PUT", "/cluster/firewall/options", {"enable": 1}).status == 200

    def live(self) -> list[str]:
        began = len(self.server.control("tasks"))
        done = self.home.run("up", self.home.spec(SPEC), timeout=WAIT_SECONDS)
        if done.returncode != 0:
            return [done.stderr]
        box = done.stdout.strip()
        wrong = self.wrong_rules()
        ran = self.home.run(
            "exec", "-i", box, "--", "sh", "-c", COMMAND, input="hello\n", timeout=WAIT_SECONDS
        )
        if (ran.returncode, ran.stdout) != (0, "hello\n1\n"):
            wrong.append(f"exec: {ran.returncode}, {ran.stdout!r}, {ran.stderr!r}")
        for words in (("snapshot", box, "a"), ("restore", box, "a"), ("rm", box)):
            done = self.home.run(*words, timeout=WAIT_SECONDS)
            if done.returncode != 0:
                wrong.append(f"{words[0]}: {done.stderr}")
        return wrong + self.wrong_tasks(began)

    def wrong_rules(self) -> list[str]:
        """A VM has each rule of the firewall once."""
        rules = [
            rule["comment"]
            for key, firewall in self.server.state()["firewall"].items()
            for rule in firewall.get("rules", [])
        ]
        return [] if rules and len(rules) == len(set(rules)) else [f"rules: {rules}"]

    def wrong_tasks(self, began: int) -> list[str]:
        self.server.state()  # waits until no task runs
        kinds = [task["type"] for task in self.server.control("tasks")[began:]]
        return [f"{kind}: {kinds.count(kind)} times" for kind in ONCE if kinds.count(kind) != 1]


Call = tuple[str, str, int]


def strike(calls: list[Call], once: set[Call]) -> list[str]:
    """Lives in which the server goes away at one call after the other, unheard or unanswered."""
    failed: list[str] = []
    with a_server() as server, Whole(server) as lives:
        for method, path, skip in calls:
            if (method, path, skip) in once:
                lives.home.run("serve", "--stop")
            for when in ("before",) if method == "GET" else ("before", "after"):
                what = f"{method} {path}, number {skip + 1}, {when}"
                server.control("clear_log")
                if path == LOGIN:
                    forget_login(server)
                rule = server.fault(
                    method=method,
                    path=path,
                    skip=skip,
                    when=when,
                    action="outage",
                    seconds=AWAY_SECONDS,
                )
                failed += [f"{what}: {text}" for text in lives.live()]
                # How often a command's end is asked for differs from life to life.
                if not server.struck(rule) and not (skip and "exec-status" in path):
                    failed.append(f"{what}: never struck")
                server.control("clear_faults")  # not clear(): it insists on a strike
                lives.assert_as_before(what)
        lives.home.assert_nothing_left()
    return failed


def test_an_outage_at_each_call_costs_nothing() -> None:
    with a_server() as server, Whole(server) as lives:
        calls = lives.calls()
        # Calls whose answers a daemon keeps for a while.
        once = {*calls} - {*lives.calls()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = [pool.submit(strike, calls[i::AT_ONCE], once) for i in range(AT_ONCE)]
        failed = [text for result in results for text in result.result()]
    assert failed == []


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with a_server("none") as server, Lives(server) as made:
        yield made


def waits(lives: Lives, text: str, *words: str) -> str:
    """Runs a verb until it says that it waits; then the server is back. What it says then."""
    process = lives.home.start(*words, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if text in line.decode():
            break
    lives.server.control("come_back")
    rest = process.stderr.read().decode()
    assert process.wait(WAIT_SECONDS) == 0, rest
    return rest


def test_progress_says_what_is_waited_for(lives: Lives) -> None:
    server, home = lives.server, lives.home
    server.clear()
    assert lives.live() == []  # the daemon has seen the server
    up = ("up", home.spec(SPEC))
    server.control("outage", seconds=3600)
    assert "cloning" in waits(lives, "waiting for a server of pool default: ", *up)
    server.fault(path="/clone$", action="outage", seconds=3600)
    assert " is back" in waits(lives, "waiting for the server: ", *up)
    server.fault(path="/status/stop$", action="outage", seconds=3600)
    waits(lives, "waiting for the server: ", "rm", "--all")
    lives.assert_as_before("waited for")


def test_a_server_that_stays_away_is_given_up(lives: Lives) -> None:
    server = lives.server
    server.clear()
    home = PveHome(instance(server), config="idle_exit: 0\noutage_timeout: 0.5\n")
    try:
        box = home.up(SPEC)
        server.control("outage", seconds=3600)
        assert "cannot connect" in home.fails("up", home.spec(SPEC))
        assert "cannot connect" in home.fails("rm", box)
        assert home.left_over()
        server.control("come_back")
        home.ok("pool", "clean")
        home.assert_nothing_left(120)
        lives.assert_as_before("given up")
    finally:
        server.control("come_back")
        home.close()


def go(server: PveServer, how: str) -> None:
    assert server.process is not None
    if how == "refuses":
        server.control("outage", seconds=3600)
    else:
        os.kill(server.process.pid, signal.SIGSTOP)


def come_back(server: PveServer, how: str) -> None:
    assert server.process is not None
    if how == "refuses":
        server.control("come_back")
    else:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_a_daemon_ends_though_its_servers_are_away(lives: Lives, how: str) -> None:
    """With 60 seconds and more for each sandbox it would not: see the limit."""
    server = lives.server
    server.clear()
    home = PveHome(instance(server), config="idle_exit: 0\noutage_timeout: 600\n")
    log = home.dir / "daemon.log"
    with log.open("wb") as out:
        daemon = home.start("serve", stderr=out)
    try:
        wait_for((home.dir / "run" / "moat.sock").exists)
        for _ in range(3):
            home.up(SPEC)
        go(server, how)
        if how == "refuses":
            box = home.ok("ls", "--ids").split()[0]
            removing = home.start("rm", box, stderr=subprocess.PIPE)
            assert removing.stderr is not None
            assert b"waiting for the server" in removing.stderr.readline()
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        assert "left in the journal; the next daemon reclaims them" in log.read_text()
        assert home.left_over()
        come_back(server, how)
        home.ok("gc", timeout=WAIT_SECONDS)
        home.assert_nothing_left()
        lives.assert_as_before("left by a daemon")
    finally:
        come_back(server, how)
        daemon.kill()
        daemon.wait()
        home.close()


def test_a_server_that_was_never_there_is_not_waited_for(lives: Lives) -> None:
    """Other servers are, for 120 seconds: see the limit."""
    home = PveHome(instance(lives.server, port=1))
    try:
        told = home.run("up", home.spec(SPEC), timeout=60)
        assert told.returncode != 0
        assert "cannot connect" in told.stderr
    finally:
        home.close()


def test_a_silent_server_does_not_keep_its_pool_waiting(lives: Lives) -> None:
    """It would for 100 seconds and more, if it were waited for as other calls do: see the limit."""
    server = lives.server
    server.clear()
    with a_server("none") as silent:
        home = PveHome(instance(silent, instance_id="silent"), instance(server))
        try:
            go(silent, "is silent")
            box = home.run("up", home.spec(SPEC), timeout=60)
            assert box.returncode == 0, box.stderr
            home.ok("rm", box.stdout.strip())
        finally:
            come_back(silent, "is silent")
            home.close()


def test_a_daemon_that_ends_does_not_give_up_a_slow_server(lives: Lives) -> None:
    """One that answers, but takes long for a call, and is away for a moment after that."""
    server = lives.server
    server.clear()
    home = PveHome(instance(server))
    try:
        home.up(SPEC)
        slow = server.fault(path="/status/stop$", action="latency", seconds=6)
        gone = server.fault(path="/qemu/[0-9]+$", method="DELETE", action="outage", seconds=1)
        told = home.run("serve", "--stop", "--force")
        assert (told.returncode, "journal" in told.stderr) == (0, False), told.stderr
        assert server.struck(slow)
        assert server.struck(gone)
        assert lives.differences() == []
    finally:
        server.control("come_back")
        home.close()


def test_stopping_a_daemon_says_what_is_left(lives: Lives) -> None:
    server = lives.server
    server.clear()
    home = PveHome(instance(server))
    try:
        home.up(SPEC)
        server.control("outage", seconds=3600)
        told = home.run("serve", "--stop", "--force")
        assert told.returncode == 0
        assert "in the journal; the next daemon removes it" in told.stderr
        server.control("come_back")
        home.ok("gc", timeout=WAIT_SECONDS)
        lives.assert_as_before("left by a daemon")
        told = home.run("serve", "--stop")
        assert "journal" not in told.stderr
    finally:
        server.control("come_back")
        home.close()
