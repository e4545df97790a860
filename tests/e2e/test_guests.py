"""Guests that misbehave: each hurts its own sandbox at most, and the error says what happened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from home import Home, Wire, kill

RUNNER_PORT = "/dev/virtio-ports/org.moat.guest.0"


@pytest.fixture
def victim(template: None) -> Iterator[Home]:
    home = Home()
    try:
        home.sandbox = home.up()  # type: ignore[attr-defined]
        yield home
    finally:
        home.close()


def in_guest(home: Home, script: str) -> None:
    """Starts a script that outlives its exec, as root."""
    home.ok(
        "exec",
        "-u",
        "root",
        home.sandbox,
        "--",
        "sh",
        "-c",
        f"setsid sh -c '{script}' >/dev/null 2>&1 &",
    )


# A script waits for the command that it is to disturb.
WHEN_IT_RUNS = 'until ps | grep -q "[s]leep 60"; do sleep 0.2; done; sleep 0.5; '


def test_runner_killed_is_replaced(victim: Home) -> None:
    in_guest(victim, WHEN_IT_RUNS + "killall -9 moat-guest")
    cut = victim.fails("exec", victim.sandbox, "--", "sleep", "60")
    assert "runner ended" in cut
    assert victim.ok("exec", victim.sandbox, "--", "echo", "back") == "back"


def test_commands_while_processes_run_short(victim: Home) -> None:
    """What cannot be made ahead of need costs no command that could be started."""
    limit = (
        "read -r _ _ _ threads _ </proc/loadavg; echo $((${threads#*/} + (%d)))"
        " >/proc/sys/kernel/threads-max"
    )
    victim.ok("exec", "-u", "root", victim.sandbox, "--", "sh", "-c", limit % -2)
    wire = Wire(victim)
    args = {"sandbox": victim.sandbox, "argv": ["sleep", "0.05"], "capture": True}
    said = []
    for _ in range(60):
        answer = wire.final(wire.request("exec", args))
        said.append(answer.get("result", answer))
    assert not [one for one in said if one.get("signal")], said
    assert sum(one.get("exit_code") == 0 for one in said) > 50, said
    victim.ok("exec", "-u", "root", victim.sandbox, "--", "sh", "-c", limit % 1000)


def test_rubbish_on_the_runners_port(victim: Home) -> None:
    in_guest(victim, f"killall -9 moat-guest; cat /dev/urandom | head -c 10000000 > {RUNNER_PORT}")
    time.sleep(1)
    deadline = time.monotonic() + 90
    while (done := victim.run("exec", victim.sandbox, "--", "echo", "back")).returncode != 0:
        assert time.monotonic() < deadline, done.stderr
    assert done.stdout.strip() == "back"


def test_guest_that_powers_off(victim: Home) -> None:
    in_guest(victim, WHEN_IT_RUNS + "poweroff -f")
    assert "shut down from inside" in victim.fails("exec", victim.sandbox, "--", "sleep", "60")
    listed = json.loads(victim.ok("ls", "--json"))["sandboxes"]
    assert listed[0]["vms"][0]["state"] == "dead"
    assert "shut down" in victim.fails("exec", victim.sandbox, "--", "true")
    victim.ok("rm", victim.sandbox)
    victim.assert_nothing_left()


def test_guest_that_reboots_comes_back(victim: Home) -> None:
    in_guest(victim, WHEN_IT_RUNS + "reboot -f")
    assert victim.run("exec", victim.sandbox, "--", "sleep", "60").returncode != 0
    assert victim.ok("exec", victim.sandbox, "--", "echo", "again", timeout=600) == "again"


def test_killed_qemu_is_named(victim: Home) -> None:
    client = victim.start("exec", victim.sandbox, "--", "sleep", "60", stderr=-1)
    time.sleep(1)
    for pid in victim.qemu_pids():
        kill(pid)
    _, stderr = client.communicate(timeout=30)
    assert b"signal 9" in stderr
    assert victim.ok("ls").splitlines()[1].split()[:2] == [victim.sandbox, "dead"]


def test_console_cannot_fill_the_disk(victim: Home) -> None:
    victim.run(
        "exec",
        "--timeout",
        "8",
        "-u",
        "root",
        victim.sandbox,
        "--",
        "sh",
        "-c",
        "yes flood > /dev/ttyS0",
        timeout=60,
    )
    logs = (victim.dir / "state" / "sandboxes" / victim.sandbox).glob("*.log*")
    assert sum(p.stat().st_size for p in logs) <= 4 * 8 * 1024 * 1024


def test_names_of_a_guest_do_not_reach_the_terminal(victim: Home) -> None:
    victim.ok("exec", victim.sandbox, "--", "mkdir", "-p", "/tmp/d/../d/\x1b[31mred")
    out = victim.dir / "out"
    done = victim.run("cp", f"{victim.sandbox}:/tmp/d", str(out))
    assert "\x1b" not in done.stderr
