"""Guests that misbehave: each hurts its own sandbox at most, and the error says what happened."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest
from home import Home, Wire, kill

from tools import until

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


@pytest.mark.parametrize("delay", [1.0, 1.6, 1.9, 3.5])
def test_command_after_the_runner_was_killed(victim: Home, delay: float) -> None:
    """Whenever it comes, it runs on a new runner, or says that the old one has ended."""
    # The script is below the runner, and dies with it.
    in_guest(victim, "sleep 1; touch /tmp/struck; killall -9 moat-guest")
    time.sleep(delay)  # the instant is the attack
    done = victim.run("exec", victim.sandbox, "--", "echo", "back", timeout=60)
    assert done.stdout == "back\n" or "runner ended" in done.stderr
    struck = ("exec", victim.sandbox, "--", "test", "-e", "/tmp/struck")
    until(lambda: victim.run(*struck).returncode == 0, "the runner was killed", 120)


def test_frozen_qemu_is_an_error(template: None) -> None:
    """A guest is given a fifth of boot_timeout; what ran before goes on when QEMU does."""
    home = Home("idle_exit: 0\nboot_timeout: 150\n")
    try:
        box = home.up()
        (home.dir / "big").write_bytes(bytes(4_000_000))
        for pid in home.qemu_pids():
            os.kill(pid, signal.SIGSTOP)
        said = home.fails("cp", str(home.dir / "big"), f"{box}:/tmp/big", timeout=120)
        assert "said nothing for 30 seconds" in said
        for pid in home.qemu_pids():
            os.kill(pid, signal.SIGCONT)
        assert home.ok("exec", box, "--", "echo", "again") == "again"
        home.ok("cp", str(home.dir / "big"), f"{box}:/tmp/big")
    finally:
        home.close()


def test_commands_while_processes_run_short(victim: Home) -> None:
    """A supervisor is used again: there need be room for one process more, and no second."""
    limit = (
        "read -r _ _ _ threads _ </proc/loadavg; echo $((${threads#*/} + (%d)))"
        " >/proc/sys/kernel/threads-max"
    )
    victim.ok("exec", "-u", "root", victim.sandbox, "--", "sh", "-c", limit % 1)
    wire = Wire(victim)
    args = {"sandbox": victim.sandbox, "argv": ["sleep", "0.05"], "capture": True}
    said = []
    for _ in range(60):
        answer = wire.final(wire.request("exec", args))
        said.append(answer.get("result", answer))
    assert not [one for one in said if one.get("signal")], said
    # Some find the room taken by the guest's own processes; without another use, all would.
    assert sum(one.get("exit_code") == 0 for one in said) > 20, said
    victim.ok("exec", "-u", "root", victim.sandbox, "--", "sh", "-c", limit % 1000)


def test_rubbish_on_the_runners_port(victim: Home) -> None:
    rubbish = f"head -c 10000000 /dev/urandom > {RUNNER_PORT}"  # fails while a runner has the port
    in_guest(victim, f"until killall -9 moat-guest; {rubbish}; do :; done; touch /tmp/struck")
    struck = ("exec", victim.sandbox, "--", "test", "-e", "/tmp/struck")
    until(lambda: victim.run(*struck).returncode == 0, "commands run again after the rubbish", 180)


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
    client = victim.start("exec", victim.sandbox, "--", "sleep", "4323", stderr=-1)
    listing = ("exec", victim.sandbox, "--", "ps")
    until(lambda: "sleep 4323" in victim.ok(*listing), "the command runs", 60)
    for pid in victim.qemu_pids():
        kill(pid)
    _, stderr = client.communicate(timeout=30)
    assert b"signal 9" in stderr
    assert victim.ok("ls").splitlines()[1].split()[:2] == [victim.sandbox, "dead"]


def test_console_cannot_fill_the_disk(victim: Home) -> None:
    flood = "stty -F /dev/ttyS0 raw; cat /dev/zero > /dev/ttyS0"
    client = victim.start("exec", "-u", "root", victim.sandbox, "--", "sh", "-c", flood)
    logs = victim.dir / "state" / "sandboxes" / victim.sandbox
    until((logs / "default.console.log.1").exists, "the log is full and begins anew", 600)
    client.terminate()
    client.wait(60)
    assert sum(p.stat().st_size for p in logs.glob("*.log*")) <= 4 * 8 * 1024 * 1024
    assert victim.ok("exec", victim.sandbox, "--", "echo", "fine") == "fine"


def test_names_of_a_guest_do_not_reach_the_terminal(victim: Home) -> None:
    victim.ok("exec", victim.sandbox, "--", "mkdir", "-p", "/tmp/d/../d/\x1b[31mred")
    out = victim.dir / "out"
    done = victim.run("cp", f"{victim.sandbox}:/tmp/d", str(out))
    assert "\x1b" not in done.stderr
