"""How long things live: sandboxes, which end with their owner, the daemon, and what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

from home import COLD, TINY, Home

from tools import (
    daemons,
    in_guest,
    listed,
    log_of,
    until,
    wire,
)

# ---- leases ----


def test_sandbox_ends_with_its_connection_unless_detached(home: Home) -> None:
    client = wire(home)
    _, second = (client.request("up", {"spec": TINY}) for _ in range(2))
    made = {}
    while len(made) < 2:
        message = client.receive()[0]
        if message["type"] == "progress":
            continue
        assert message["type"] == "result", message
        made[message["id"]] = message["result"]["sandbox"]
    assert client.final(client.request("detach", {"sandbox": made[second]}))["type"] == "result"
    assert [s["detached"] for s in listed(home) if s["id"] == made[second]] == [True]
    client.sock.close()
    until(lambda: [s["id"] for s in listed(home)] == [made[second]], "the leased one goes")
    assert len(home.qemu_pids()) == 1
    assert home.ok("exec", made[second], "--", "echo", "alive") == "alive"

    # rm ends what runs in it, and says so.
    running = home.start("exec", made[second], "--", "sleep", "60", stderr=subprocess.PIPE)
    until(lambda: "sleep 60" in in_guest(home, made[second], "ps"), "it runs")
    assert home.ok("rm", made[second]) == made[second]
    said = running.communicate(timeout=20)[1].decode()
    assert running.returncode != 0
    assert f"sandbox {made[second]} was removed" in said
    home.assert_nothing_left()


def test_cancelled_up_leaves_nothing(home: Home) -> None:
    client = wire(home)
    for moment in (0.0, 0.05, 0.3, 1.5):
        wanted = client.request("up", {"spec": COLD})
        time.sleep(moment)
        client.send({"type": "cancel", "id": wanted})
        assert client.final(wanted)["error"]["kind"] == "cancelled"
        assert home.left_over() == [], f"cancelled after {moment} s"
    wanted = client.request("up", {"spec": COLD}, timeout=1)
    assert client.final(wanted)["error"]["kind"] == "timeout"
    assert home.left_over() == []


def test_rm_all_while_making(home: Home) -> None:
    makers = [home.start("up", home.spec(COLD), stderr=subprocess.PIPE) for _ in range(2)]
    until(lambda: len(home.qemu_pids()) == 2, "both are on their way")
    home.ok("rm", "--all")
    assert listed(home) == []
    home.assert_nothing_left()
    for maker in makers:
        said = maker.communicate(timeout=20)[1].decode()
        assert maker.returncode != 0
        assert "was removed while it was made" in said
    assert json.loads(home.ok("info", "--json"))["memory"]["committed_mb"] == 0


# ---- the daemon's end ----


def test_sigterm_removes_everything(home: Home) -> None:
    daemon = home.start("serve")
    until(lambda: (home.dir / "run" / "moat.sock").exists(), "it listens")
    home.up()
    client = home.start("up", home.spec(COLD), stderr=subprocess.PIPE)
    until(lambda: len(home.qemu_pids()) == 2, "the second is on its way")
    daemon.terminate()
    assert daemon.wait(60) == 0
    assert client.wait(60) != 0
    home.assert_nothing_left()
    assert not (home.dir / "run" / "moat.sock").exists()


def test_end_with_sandboxes_and_the_daemon_after_it(home: Home) -> None:
    sandbox = home.up()
    assert "1 sandbox" in home.fails("serve", "--stop")
    assert home.ok("exec", sandbox, "--", "echo", "alive") == "alive"
    last = home.daemon_pid()
    os.kill(last, signal.SIGTERM)
    assert listed(home) == []  # at once, while the last one is still removing its sandbox
    assert daemons(home) != [last]
    home.ok("serve", "--stop", "--force")
    home.assert_nothing_left()
    assert not home.processes()


def test_a_command_says_that_the_daemon_was_stopped(home: Home) -> None:
    command = ("sh", "-c", "echo up; exec sleep 1000")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = home.start("exec", home.up(), "--", *command, **pipes)
    assert running.stdout
    assert running.stdout.readline() == b"up\n"
    home.ok("serve", "--stop", "--force")
    _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (125, b"moat: the daemon was stopped\n")
    home.assert_nothing_left()


def test_idle_daemon_leaves(home: Home) -> None:
    (home.dir / "config.yaml").write_text("idle_exit: 4\n")
    client = wire(home)
    # Another daemon, without a client, starts later, is more patient, and leaves all the same.
    other = Home("idle_exit: 6\n")
    try:
        other.ok("ls")
        until(lambda: not other.processes(), "the other daemon leaves", 60)
        assert "idle: leaving" in log_of(other)
    finally:
        other.close()
    assert client.final(client.request("ls", {}))["type"] == "result", "a client keeps it"
    client.sock.close()
    until(lambda: not home.processes(), "it leaves", 60)
    assert "idle: leaving" in log_of(home)
    home.ok("ls")


def test_gc_says_what_it_removed(home: Home) -> None:
    sandbox = home.up()
    # Guards let no QEMU outlive the daemon, so this stands in for one: it carries the stamp.
    survivor = [
        sys.executable,
        "-c",
        "import time; time.sleep(600)",
        "-name",
        f"moat-{sandbox}/default",
    ]
    with subprocess.Popen(survivor) as left_behind:
        try:
            home.kill_daemon()
            said = home.ok("gc")
            assert left_behind.wait(60) == -signal.SIGKILL
        finally:
            left_behind.kill()
    assert f"removed processes of sandbox {sandbox}" in said.splitlines()
    assert f"state/sandboxes/{sandbox}" in said
    home.assert_nothing_left()
    assert sandbox not in home.ok("gc"), "it is told once"


def test_gc_removes_the_rest_when_something_will_not_go(home: Home) -> None:
    sandbox = home.up()
    home.kill_daemon()
    journal = home.dir / "state" / "journal.db"
    riddle = (sandbox, "qemu", "riddle", "of the sphinx", "done")
    with contextlib.closing(sqlite3.connect(journal)) as db, db:
        db.execute(
            "INSERT INTO thing(sandbox, driver, kind, ref, state) VALUES (?, ?, ?, ?, ?)", riddle
        )
    done = home.run("gc")
    assert done.returncode == 1
    assert f"state/sandboxes/{sandbox}" in done.stdout
    why = f"riddle of sandbox {sandbox}: of the sphinx: the qemu driver knows no"
    assert f"moat: not removed: {why}" in done.stderr
    again = home.run("gc", "--json")
    assert again.returncode == 1, "it stays in the journal"
    answer = json.loads(again.stdout)
    assert answer["removed"] == []
    assert [why in text for text in answer["failed"]] == [True]
    home.ok("serve", "--stop")
    with contextlib.closing(sqlite3.connect(journal)) as db, db:
        db.execute("DELETE FROM thing WHERE kind = 'riddle'")
    home.ok("gc")
    home.assert_nothing_left()
