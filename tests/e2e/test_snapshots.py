"""Snapshots and forks of running sandboxes: two VMs, a connection between them, a counter."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from home import Home

from tools import in_guest, until

PAIR: dict[str, Any] = {
    "vms": [
        {"name": "alice", "source": "tiny", "ram_mb": 192, "vcpus": 1},
        {"name": "bob", "source": "tiny", "ram_mb": 192, "vcpus": 1},
    ],
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "subnets": [
                    {
                        "cidr": "10.9.8.0/24",
                        "dhcp_ranges": [{"start": "10.9.8.10", "end": "10.9.8.40"}],
                    }
                ],
            }
        ]
    },
}

# bob answers each line that alice sends with the next number; alice keeps the last one.
SERVER = "i=0; while read x; do i=$((i+1)); echo $i; done"
START_SERVER = (
    "rm -f /tmp/in; mkfifo /tmp/in; "
    f"(nc -l -p 7000 </tmp/in | sh -c '{SERVER}' >/tmp/in) >/dev/null 2>&1 &"
)
START_CLIENT = (
    "mkfifo /tmp/up; "
    "(while :; do echo x; usleep 200000; done >/tmp/up) >/dev/null 2>&1 & "
    "(nc {} 7000 </tmp/up | while read n; do echo $n >/tmp/.n; mv /tmp/.n /tmp/n; done)"
    " >/dev/null 2>&1 &"
)


class Pair(Home):
    def __init__(self) -> None:
        super().__init__()
        self.sandbox = self.ok("up", self.spec(PAIR), timeout=900)
        self.bob = self.address("bob")
        self.sh("bob", START_SERVER)
        until(lambda: ":1B58 " in self.sh("bob", "cat /proc/net/tcp*"), "bob listens at port 7000")
        self.sh("alice", START_CLIENT.format(self.bob))
        until(lambda: self.count() > 3, "bob answers alice")

    def sh(self, vm: str, script: str, sandbox: str = "") -> str:
        return in_guest(self, sandbox or self.sandbox, script, "--vm", vm)

    def address(self, vm: str, sandbox: str = "") -> str:
        show = "ip -4 -o addr show eth0"
        until(lambda: "inet " in self.sh(vm, show, sandbox), "an address")
        return self.sh(vm, show, sandbox).split("inet ")[1].split("/")[0]

    def count(self, sandbox: str = "") -> int:
        return int(self.sh("alice", "cat /tmp/n 2>/dev/null || echo 0", sandbox))


@pytest.fixture(scope="module")
def pair(images: None) -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def names(home: Pair) -> list[str]:
    listed = json.loads(home.ok("snapshots", home.sandbox, "--json"))["snapshots"]
    return [s["name"] for s in sorted(listed, key=lambda s: s["created_us"])]


def test_connections_and_programs_survive(pair: Pair) -> None:
    pair.sh("bob", "echo before >/home/user/file")
    pair.ok("snapshot", pair.sandbox, "one")
    at_snapshot = pair.count()
    until(lambda: pair.count() > at_snapshot + 3, "it goes on after the snapshot")
    later = pair.count()
    pair.sh("bob", "echo after >/home/user/file")
    pair.sh("alice", "echo gone >/tmp/gone")
    pair.ok("restore", pair.sandbox, "one")
    back = pair.count()
    assert back <= later
    assert pair.sh("bob", "cat /home/user/file") == "before"
    assert pair.sh("alice", "ls /tmp/gone 2>&1 || true") != "/tmp/gone"
    until(lambda: pair.count() > back + 3, "the connection lives")
    assert abs(int(pair.sh("alice", "date +%s")) - time.time()) < 30
    assert pair.address("bob") == pair.bob


def test_randomness_does_not_repeat(pair: Pair) -> None:
    pair.ok("snapshot", pair.sandbox, "dice")
    seen = set()
    for _ in range(2):
        pair.ok("restore", pair.sandbox, "dice")
        seen.add(pair.sh("alice", "head -c 16 /dev/urandom | od -An -tx1"))
    assert len(seen) == 2
    pair.ok("snapshot", "--remove", pair.sandbox, "dice")


def test_names_nest_and_are_listed(pair: Pair) -> None:
    pair.sh("alice", "echo 2 >/tmp/level")
    pair.ok("snapshot", pair.sandbox, "two")
    pair.sh("alice", "echo 3 >/tmp/level")
    assert names(pair) == ["one", "two"]
    pair.ok("restore", pair.sandbox, "one")
    assert "No such file" in pair.sh("alice", "cat /tmp/level 2>&1 || true")
    pair.ok("restore", pair.sandbox, "two")
    assert pair.sh("alice", "cat /tmp/level") == "2"
    assert "no snapshot three" in pair.fails("restore", pair.sandbox, "three")
    assert "no snapshot three" in pair.fails("snapshot", "--remove", pair.sandbox, "three")
    precious = pair.dir / "precious"
    precious.mkdir()
    for bad in ("../../../../precious", "..", "a/b", ".hidden", "", "x" * 65, "-x y"):
        for verb in (["snapshot"], ["restore"], ["snapshot", "--remove"]):
            assert "name" in pair.fails(*verb, "--", pair.sandbox, bad)
    assert precious.exists()
    pair.ok("snapshot", "--remove", pair.sandbox, "two")
    assert names(pair) == ["one"]


def test_a_command_that_runs_is_told(pair: Pair) -> None:
    running = pair.start("exec", pair.sandbox, "--", "sleep", "600", stderr=-1)
    until(lambda: "sleep 600" in pair.sh("alice", "ps"), "it runs")
    pair.ok("restore", pair.sandbox, "one")
    said = running.communicate(timeout=60)[1].decode()
    assert running.returncode != 0
    assert "went back to a snapshot" in said
    assert "sleep 600" not in pair.sh("alice", "ps")


def test_fork_into_three(pair: Pair) -> None:
    copies = pair.ok("fork", "-n", "3", pair.sandbox, timeout=300).split()
    try:
        assert len(set(copies)) == 3
        everyone = [pair.sandbox, *copies]
        for copy in copies:
            assert pair.address("bob", copy) == pair.bob
        before = [pair.count(sandbox) for sandbox in everyone]
        until(
            lambda: all(pair.count(b) > n + 2 for b, n in zip(everyone, before, strict=True)),
            "all four go on counting",
            300,
        )
        for i, sandbox in enumerate(everyone):
            pair.sh("alice", f"echo {i} >/tmp/who", sandbox)
        assert [pair.sh("alice", "cat /tmp/who", b) for b in everyone] == ["0", "1", "2", "3"]
        dice = {pair.sh("bob", "cat /proc/sys/kernel/random/uuid", b) for b in everyone}
        assert len(dice) == 4
        assert names(pair) == ["one"]
    finally:
        pair.ok("rm", *copies)
    assert pair.count() > 0


def test_the_rest_of_a_snapshot_is_no_obstacle(pair: Pair) -> None:
    where = pair.dir / "state" / "sandboxes" / pair.sandbox / "snapshots"
    draft = where / ".new"
    draft.mkdir()
    (draft / "x").mkdir()
    pair.ok("snapshot", pair.sandbox, "again")
    assert sorted(os.listdir(where)) == ["again", "one"]
    assert "not between" in pair.fails("fork", "-n", "0", pair.sandbox)


def test_a_sandbox_that_could_not_go_back_says_so(home: Home) -> None:
    vm = {"source": "tiny", "ram_mb": 192, "vcpus": 1, "vga": "std"}
    sandbox = home.up({"vms": [vm]})
    home.ok("snapshot", sandbox, "broken")
    where = home.dir / "state" / "sandboxes" / sandbox / "snapshots" / "broken"
    os.truncate(where / "default.state", 1000)
    why = "going back to snapshot broken failed"
    assert home.fails("restore", sandbox, "broken")
    pid = home.daemon_pid()
    assert why in home.fails("exec", sandbox, "true")
    assert why in home.fails("screenshot", sandbox, str(home.dir / "shot.png"))
    assert why in home.fails("snapshot", sandbox, "another")
    assert why in home.fails("fork", sandbox)
    assert home.daemon_pid() == pid
    home.ok("rm", sandbox)
    home.assert_nothing_left()


def test_nothing_is_left_after_a_kill(pair: Pair) -> None:
    saving = pair.start("snapshot", pair.sandbox, "cut", stderr=subprocess.PIPE)
    assert saving.stderr
    assert b"saving" in saving.stderr.readline()
    pair.kill_daemon()
    saving.communicate(timeout=60)
    assert saving.returncode != 0
    until(lambda: not pair.qemu_pids(), "the VMs end with the daemon")
    pair.ok("gc")
    pair.assert_nothing_left()
