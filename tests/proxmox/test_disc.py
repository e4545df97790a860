"""Large files go into a VM on discs, which are gone afterwards, whatever happens."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client import Client
from lives import SPEC, WAIT_SECONDS, Lives, a_server
from probe import Probe

DRIVE = "sata5"
EMPTY = "none,media=cdrom"
FILE = os.urandom(1300 * 1024)  # little enough to go in pieces where there is no other way
MORE_THAN_PIECES = 50 << 20


class Sandbox:
    """A sandbox, and what its server sees of it."""

    def __init__(self, lives: Lives, **vm: Any) -> None:
        self.server, self.home = lives.server, lives.home
        self.server.clear()
        self.home.run("pool", "clean")
        spec = {**SPEC, "vms": [{**SPEC["vms"][0], **vm}]}
        self.id = self.home.ok("up", self.home.spec(spec), timeout=WAIT_SECONDS)
        self.vmid = next(
            int(vmid)
            for vmid, entry in self.state()["vms"].items()
            if self.id in entry["config"].get("tags", "")
        )
        self.home.ok("exec", self.id, "--", "true")  # the runner is in

    def send(self, data: bytes) -> str:
        """What the user is told if the file did not get there."""
        self.server.control("clear_log")
        path = self.home.dir / "file"
        path.write_bytes(data)
        done = self.home.run("cp", str(path), f"{self.id}:/root/file", timeout=WAIT_SECONDS)
        return done.stderr if done.returncode else ""

    def digest(self) -> str:
        return self.home.ok("exec", self.id, "--", "sha256sum", "/root/file").split()[0]

    def asked(self, end: str) -> int:
        """How many calls there were of a kind."""
        return sum(entry["path"].endswith(end) for entry in self.server.log())

    def discs(self) -> list[str]:
        return [name for name in self.state()["volumes"] if self.id in name]

    def state(self) -> dict[str, Any]:
        """The state as it is now, without waiting for tasks: a kept line is a task that lasts."""
        return dict(self.server.control("state"))

    def assert_empty(self) -> None:
        assert self.discs() == []
        assert self.state()["vms"][str(self.vmid)]["config"][DRIVE] == EMPTY


def sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with a_server() as server, Lives(server) as made:
        yield made


@pytest.fixture(scope="module")
def shared(lives: Lives) -> Iterator[Sandbox]:
    made = Sandbox(lives)
    yield made
    lives.server.clear()
    lives.home.ok("rm", made.id, timeout=WAIT_SECONDS)
    lives.assert_as_before("all of it")
    assert lives.home.left_over() == []


@pytest.fixture
def sandbox(shared: Sandbox) -> Sandbox:
    shared.server.clear()
    return shared


def test_a_large_file_goes_on_one_disc(sandbox: Sandbox) -> None:
    data = os.urandom(5 << 20)
    assert sandbox.send(data) == ""
    assert sandbox.digest() == sum_of(data)
    assert (sandbox.asked("/upload"), sandbox.asked("/agent/file-write")) == (1, 0)
    sandbox.assert_empty()


def test_a_small_file_does_not(sandbox: Sandbox) -> None:
    assert sandbox.send(b"x" * 100000) == ""
    assert sandbox.asked("/upload") == 0


def test_input_from_a_file_is_no_talk(shared: Sandbox) -> None:
    """The input has an end, so the command need not be interactive and use the serial port."""
    shared.server.control("clear_log")
    path = shared.home.dir / "input"
    path.write_bytes(b"line\n" + FILE)
    with path.open("rb") as given:
        os.lseek(given.fileno(), 5, os.SEEK_SET)
        words = ["exec", "-i", shared.id, "--", "sha256sum"]
        done = shared.home.ok(*words, stdin=given, timeout=WAIT_SECONDS)
    assert done.split()[0] == sum_of(FILE)
    assert shared.asked("/upload") == 1
    shared.assert_empty()


def test_input_of_any_size(sandbox: Sandbox) -> None:
    data = os.urandom(1 << 20) * (MORE_THAN_PIECES >> 20)
    sandbox.server.control("clear_log")
    with Probe(sandbox.server, sandbox.vmid, "disc") as probe:
        done = probe.sh("sha256sum; echo too >&2; exit 3", input=data)
        assert (done["code"], done["stderr"]) == (3, b"too\n"), done
        assert done["stdout"].split()[0].decode() == sum_of(data)
    assert sandbox.asked("/upload") == 2
    spool = "ls /var/lib/moat/moat-spool | grep [.] || true"
    assert sandbox.home.ok("exec", sandbox.id, "--", "sh", "-c", spool) == ""
    sandbox.assert_empty()


# Each of these calls may fail: the file gets there all the same, on the disc or in pieces.
STEPS = {
    "upload": {"path": "/upload$", "method": "POST"},
    "insert": {"path": "/config$", "method": "PUT"},
    "copy": {"path": "/agent/exec$", "method": "POST"},
    "poll": {"path": "/agent/exec-status$", "method": "GET"},
    "remove": {"path": "/content/", "method": "DELETE"},
}
WAYS: dict[str, dict[str, Any]] = {
    "lost": {"action": "drop"},
    "answer lost": {"action": "drop", "when": "after"},
    "refused": {"status": 500, "times": 2},
    "front end": {"status": 596},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", WAYS)
def test_faults_on_the_way(sandbox: Sandbox, step: str, way: str) -> None:
    rule = sandbox.server.fault(**STEPS[step], **WAYS[way])
    told = sandbox.send(FILE)
    assert sandbox.server.struck(rule)
    sandbox.server.clear()
    # A server that refuses for no reason may be believed, in words.
    assert told == "" or (way == "refused" and told.startswith("moat: ")), told
    if not told:
        assert sandbox.digest() == sum_of(FILE)
    assert sandbox.send(FILE) == ""
    assert sandbox.digest() == sum_of(FILE)
    sandbox.assert_empty()


def test_a_disc_that_cannot_be_removed_is_removed_later(lives: Lives) -> None:
    sandbox = Sandbox(lives)
    lives.server.fault(path="/content/", method="DELETE", status=500, times=-1)
    assert sandbox.send(FILE) == ""
    assert len(sandbox.discs()) == 1
    lives.server.clear()
    lives.home.ok("rm", sandbox.id, timeout=WAIT_SECONDS)
    assert sandbox.discs() == []


def test_without_a_drive_it_goes_in_pieces(lives: Lives) -> None:
    sandbox = Sandbox(lives, native={DRIVE: None})
    assert sandbox.send(FILE) == ""
    assert sandbox.digest() == sum_of(FILE)
    assert sandbox.asked("/upload") == 0
    assert sandbox.asked("/agent/file-write") > 20
    lives.home.ok("rm", sandbox.id, timeout=WAIT_SECONDS)


def test_a_guest_that_does_not_see_its_disc_gets_pieces(lives: Lives) -> None:
    sandbox = Sandbox(lives)
    # A disc whose content was altered is no disc of ours, and neither is none at all.
    lives.home.ok("exec", sandbox.id, "--", "sh", "-c", "rm /dev/sr*; mkdir /dev/sr0")
    assert sandbox.send(FILE) == ""
    assert sandbox.digest() == sum_of(FILE)
    assert sandbox.asked("/agent/file-write") > 20
    assert sandbox.send(FILE) == ""
    assert sandbox.asked("/upload") == 0  # it is remembered
    lives.home.ok("rm", sandbox.id, timeout=WAIT_SECONDS)


def test_the_guest_checks_what_it_copies(sandbox: Sandbox) -> None:
    """Discs of the guest's own making, given to the runner as the host does."""
    content, name, number = b"abc" * 1000, "F" * 32, "a" * 32
    head = bytearray(25 * 2048)
    head[32768 : 32768 + 6] = b"\x01CD001"
    head[32768 + 40 : 32768 + 72] = name.encode()
    disc = sandbox.home.dir / "disc"
    disc.write_bytes(bytes(head) + content)
    sandbox.home.ok("cp", str(disc), f"{sandbox.id}:/dev/sr9")
    runner = "/var/lib/moat/moat-guest"

    def take(*words: str, runner: str = runner) -> tuple[int, str]:
        done = sandbox.home.run("exec", sandbox.id, "--", runner, "take", *words)
        return done.returncode, done.stderr

    size = str(len(content))
    assert take(name, number, "0", size, sum_of(content)) == (0, "")
    spool = f"/var/lib/moat/moat-spool/{number}.0"
    told = sandbox.home.ok("exec", sandbox.id, "--", "sha256sum", spool)
    assert told.split()[0] == sum_of(content)
    code, words = take(name, number, "0", size, sum_of(b"something else"))
    assert code == 2
    assert "disc: Illegal byte sequence" in words
    assert sandbox.home.run("exec", sandbox.id, "--", "ls", spool).returncode == 1
    assert take("E" * 32, number, "0", size, sum_of(content))[0] == 4
    for bad in (("-1", size), ("0", "99999999999999999999"), ("x", size)):
        assert take(name, number, *bad, sum_of(content))[0] == 2
    assert take(name, "../x", "0", size, sum_of(content))[0] == 2
    # The spool is beside the runner: here on a full file system.
    fill = (
        "mkdir /tmp/full && mount -t tmpfs -o size=1m tmpfs /tmp/full && "
        f"cp {runner} /tmp/full && cat /dev/zero >/tmp/full/zeros"
    )
    sandbox.home.run("exec", sandbox.id, "--", "sh", "-c", fill)
    code, words = take(name, number, "0", size, sum_of(content), runner="/tmp/full/moat-guest")
    assert (code, "No space left" in words) == (5, True)
    sandbox.home.ok("exec", sandbox.id, "--", "umount", "/tmp/full")
    sandbox.home.ok("exec", sandbox.id, "--", "rm", "/dev/sr9")


def test_a_killed_daemon_leaves_no_disc() -> None:
    with a_server() as server, Lives(server) as lives:
        for name, step in STEPS.items():
            sandbox = Sandbox(lives)
            rule = server.fault(**step, action="latency", seconds=0.3)
            with ThreadPoolExecutor(1) as one:
                sent = one.submit(sandbox.send, FILE)
                while not server.struck(rule) and not sent.done():
                    time.sleep(0.005)
                lives.home.kill_daemon()
                sent.result()
            server.clear()
            lives.assert_as_before(f"killed at {name}")
        lives.home.assert_nothing_left()  # a journal entry goes after what it names


def test_a_snapshot_has_no_disc_in_it(lives: Lives) -> None:
    sandbox = Sandbox(lives)
    rule = lives.server.fault(path="/agent/exec$", action="latency", seconds=1)
    with ThreadPoolExecutor(1) as one:
        sent = one.submit(sandbox.send, FILE)
        while not lives.server.struck(rule):
            time.sleep(0.005)
        lives.home.ok("snapshot", sandbox.id, "now", timeout=WAIT_SECONDS)
        assert sent.result() == ""
    path = f"/nodes/{lives.server.node}/qemu/{sandbox.vmid}/snapshot/now/config"
    config = Client(lives.server).call("GET", path).data
    assert config[DRIVE] == EMPTY
    lives.home.ok("restore", sandbox.id, "now", timeout=WAIT_SECONDS)
    assert sandbox.send(FILE) == ""
    lives.home.ok("rm", sandbox.id, timeout=WAIT_SECONDS)
