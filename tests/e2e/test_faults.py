"""SIGKILL of client, daemon or QEMU at any instant: nothing is left after the next start."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from home import COLD, TINY, Home, kill

RUNS_WHILE_MAKING = int(os.environ.get("MOAT_FAULT_RUNS", "150"))
ROUNDS_WHILE_USING = 8
HOMES = 4  # in which sandboxes are made at the same time
KILLS_OF_CLIENTS = 7  # in each of those rounds, before the end of the daemon or QEMU

SEED = int(os.environ.get("MOAT_FAULT_SEED", str(time.time_ns() % 2**32)))


@pytest.fixture(scope="module")
def faulty(images: None):  # type: ignore[no-untyped-def]
    home = Home()
    print(f"MOAT_FAULT_SEED={SEED}")
    yield home
    home.close()


def instant(rng: random.Random) -> float:
    """Mostly in the first moments, when most is made; sometimes while the guest boots."""
    return rng.choice([rng.uniform(0, 0.08), rng.uniform(0, 0.4), rng.uniform(0, 4)])


def strike(home: Home, rng: random.Random, client_pid: int) -> str:
    victim = rng.choice(["client", "daemon", "qemu"])
    if victim == "client":
        kill(client_pid)
    elif victim == "daemon":
        home.kill_daemon()
    else:
        for pid in home.qemu_pids():
            kill(pid)
    return victim


def kill_while_making(faulty: Home, seed: int, runs: int) -> None:
    rng = random.Random(seed)
    specs = [faulty.spec(TINY), faulty.spec(COLD)]
    for run in range(runs):
        client = faulty.start("up", specs[run % 2], stdout=subprocess.PIPE)
        time.sleep(instant(rng))
        victim = strike(faulty, rng, client.pid)
        if victim == "qemu" and rng.random() < 0.9:
            # It may have been too early for QEMU; the daemon is killed too, so that the run ends.
            time.sleep(rng.uniform(0, 0.1))
            faulty.kill_daemon()
        said, _ = client.communicate(timeout=300)
        if said:
            # Too early for anything: the client found, or started, a daemon that served it. Or too
            # late: who has told the id need not live to the end.
            faulty.ok("rm", "--all")
        faulty.ok("ls")  # the next daemon, if the last one is gone
        try:
            faulty.assert_nothing_left(120)
        except AssertionError as ex:
            raise AssertionError(f"run {run}, {victim} killed, seed {seed}: {ex}") from ex


def test_kill_while_making(images: None) -> None:
    """Several homes at once: most of a run is waiting for the instant."""
    homes = [Home() for _ in range(HOMES)]
    share = -(-RUNS_WHILE_MAKING // HOMES)
    try:
        with ThreadPoolExecutor(HOMES) as pool:
            done = [
                pool.submit(kill_while_making, home, SEED + 1000 * number, share)
                for number, home in enumerate(homes)
            ]
        for one in done:
            one.result()
    finally:
        for home in homes:
            home.close()


def use(home: Home, rng: random.Random, sandbox: str, big: str) -> list[str]:
    return rng.choice(
        [
            ["exec", sandbox, "--", "sleep", "3000"],
            ["exec", sandbox, "--", "sh", "-c", "yes | head -c 20000000"],
            ["exec", "-i", sandbox, "--", "sh", "-c", "cat > /dev/null; sleep 9"],
            ["cp", big, f"{sandbox}:/tmp/big"],
            ["cp", f"{sandbox}:/bin/busybox", f"{home.dir}/copied"],
            ["ls"],
        ]
    )


@pytest.mark.parametrize("round_number", range(ROUNDS_WHILE_USING))
def test_kill_while_using(faulty: Home, round_number: int) -> None:
    rng = random.Random(SEED + 1 + round_number)
    sandbox = faulty.up()
    big = faulty.dir / "big"
    big.write_bytes(os.urandom(8_000_000))
    for _ in range(KILLS_OF_CLIENTS):
        client = faulty.start(*use(faulty, rng, sandbox, str(big)))
        time.sleep(rng.uniform(0, 0.4))
        kill(client.pid)
        client.wait(30)
    # What the killed clients ran is dead too, and the sandbox is as good as before.
    deadline = time.monotonic() + 120
    while "sleep 3000" in faulty.ok("exec", "-u", "root", sandbox, "--", "ps", "aux"):
        assert time.monotonic() < deadline, "a command outlived its client"
        time.sleep(0.2)
    client = faulty.start(*rng.choice([use(faulty, rng, sandbox, str(big)), ["rm", sandbox]]))
    time.sleep(rng.uniform(0, 0.3))
    victim = rng.choice(["daemon", "qemu"])
    if victim == "daemon":
        faulty.kill_daemon()
    else:
        for pid in faulty.qemu_pids():
            kill(pid)
    client.wait(60)
    faulty.ok("ls")
    faulty.ok("rm", "--all")
    faulty.assert_nothing_left()


def test_frozen_qemu_is_not_saved(faulty: Home) -> None:
    """Nor does whoever wanted that wait for ever. When QEMU goes on, so does the VM."""
    sandboxes = [faulty.up(TINY) for _ in range(2)]
    for pid in faulty.qemu_pids():
        os.kill(pid, signal.SIGSTOP)
    clients = [
        faulty.start("snapshot", sandboxes[0], "one", stderr=subprocess.PIPE),
        faulty.start("fork", sandboxes[1], stderr=subprocess.PIPE),
    ]
    for client in clients:
        assert b"timed out" in client.communicate(timeout=300)[1]
        assert client.returncode != 0
    for pid in faulty.qemu_pids():
        os.kill(pid, signal.SIGCONT)
    for sandbox in sandboxes:
        assert faulty.ok("exec", sandbox, "--", "echo", "on") == "on"
        faulty.ok("snapshot", sandbox, "one")
    faulty.ok("rm", "--all")
