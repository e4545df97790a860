"""SIGKILL of clients, daemon or QEMU while a sandbox is used; and a QEMU that is frozen."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time

import pytest
from home import TINY, Home, kill

from tools import own_data, until

ROUNDS_WHILE_USING = 8
KILLS_OF_CLIENTS = 7  # in each of those rounds, before the end of the daemon or QEMU

SEED = int(os.environ.get("MOAT_FAULT_SEED", str(time.time_ns() % 2**32)))


@pytest.fixture(scope="module")
def faulty(images: None):  # type: ignore[no-untyped-def]
    home = Home()
    print(f"MOAT_FAULT_SEED={SEED}")
    yield home
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


RECIPE = """#!/bin/sh
while [ ! -e "$MOAT_HOME/go" ]; do sleep 0.1; done
head -c 1048576 /dev/zero >"$1/disk"
echo '{"format":1,"arch":"x86_64","description":"d","disk":"disk","disk_format":"raw"}' \\
    >"$1/manifest.json"
"""


def test_a_stopped_guard_holds_no_build_up(images: None) -> None:
    """A build has no time limit, so nobody else would notice."""
    home = Home()
    with own_data() as data:
        home.env["MOAT_DATA_DIR"] = str(data)
        (data / "recipes").mkdir(exist_ok=True)
        (data / "recipes" / "slow.sh").write_text(RECIPE)
        client = home.start("image", "build", "slow")

        def guards() -> list[int]:
            return [p for p, line in home.processes().items() if "helper guard " in line]

        try:
            for pid in until(guards, "the recipe runs"):
                os.kill(pid, signal.SIGSTOP)
            (home.dir / "go").touch()
            assert client.wait(60) == 0
        finally:
            client.kill()
            client.wait()
            home.close()


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
