"""The link into a real VM behind the test server: agent calls, and the kept line."""

from __future__ import annotations

import hashlib
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from client import WAIT_SECONDS, Client
from probe import RUNNER, Probe, start_vm
from server import PveServer

VM = 101
AGENT = f"/qemu/{VM}/agent/"


@pytest.fixture(scope="module")
def running() -> Iterator[PveServer]:
    with PveServer(vms="qemu", time_scale=0.1, task_time=0.05) as server:
        start_vm(Client(server), VM)
        yield server


@pytest.fixture
def server(running: PveServer) -> Iterator[PveServer]:
    running.clear()
    yield running
    running.clear()


@pytest.fixture(scope="module")
def module_rest(running: PveServer) -> Iterator[Probe]:
    with Probe(running, VM) as probe:
        assert probe.exec("true")["code"] == 0
        yield probe


@pytest.fixture
def rest(server: PveServer, module_rest: Probe) -> Probe:
    """Agent calls only, and the runner is in the guest."""
    return module_rest


def calls(server: PveServer) -> list[str]:
    return [f"{row['method']} {row['path'].rsplit('/', 1)[1]}" for row in server.log()]


def test_a_small_command_takes_two_calls(server: PveServer, rest: Probe) -> None:
    # With calls that take their time, as the genuine server's do, even on a machine that is busy.
    server.fault(path=AGENT, action="latency", seconds=1, times=-1)
    server.control("clear_log")
    done = rest.sh("echo out; echo err >&2; exit 3")
    assert (done["code"], done["stdout"], done["stderr"]) == (3, b"out\n", b"err\n")
    seen = calls(server)
    assert seen[0] == "POST exec"
    assert set(seen[1:]) == {"GET exec-status"}
    assert len(seen) <= 3


def test_bytes_arrive_as_they_are(rest: Probe) -> None:
    given = bytes(range(256)) * 4
    assert rest.exec("cat", input=given)["stdout"] == given
    word = "é☃ '\"$x` \\ \n end"
    assert rest.exec("printf", "%s", word)["stdout"] == word.encode()
    done = rest.sh('printf %s "$NAME"; pwd; id -u', env=["NAME=ü"], cwd="/tmp", user="nobody")
    assert done["stdout"].startswith("ü/tmp\n".encode())
    assert done["stdout"].split()[-1] != b"0"


def test_much_input_and_output(rest: Probe) -> None:
    given = os.urandom(300_000)
    done = rest.exec("cat", input=given)
    assert done["stdout"] == given
    done = rest.exec("head", "-c", "4000000", "/dev/urandom")
    assert len(done["stdout"]) == 4_000_000
    done = rest.exec("head", "-c", "9000000", "/dev/zero", capture=1000)
    assert (len(done["stdout"]), done["stdout_bytes"]) == (1000, 9_000_000)
    words = ["x" * 1000] * 200
    assert len(rest.exec("echo", *words)["stdout"]) == 200 * 1001


def test_what_does_not_run(rest: Probe) -> None:
    assert rest.exec("/no/such/program")["code"] == 127
    done = rest.exec("true", user="nobody-at-all")
    assert "no such user" in done["message"]
    assert rest.exec("true", cwd="/nowhere")["code"] == 126


def test_timeouts_end_the_tree(rest: Probe) -> None:
    assert rest.sh("sleep 1001 & sleep 1002", timeout=0.5)["timed_out"]
    done = rest.sh("sleep 1003 & sleep 1004", deadline=3)
    assert done["kind"] == "timeout"
    left = rest.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 100[1-4]'")
    assert left["stdout"] == b"0\n"


def test_files(rest: Probe) -> None:
    for size in (0, 5, 60_000, 200_000):
        content = os.urandom(size)
        done = rest.do("write", path="/root/a/b", content=content)
        assert done.get("error") is None
        assert done["size"] == size
        assert rest.do("read", path="/root/a/b")["body"] == content
    assert rest.do("read", path="/root/none")["kind"] == "not_found"
    assert rest.do("read", path="/root")["kind"] == "is_directory"
    assert rest.do("read", path="/root/a/b", max=100)["kind"] == "limit"
    assert rest.do("write", path="/etc/x", content=b"", user="nobody")["kind"] == "permission"
    assert rest.do("list", path="/root/a")["entries"] == 1


def test_a_large_file_in_chunks(rest: Probe) -> None:
    digest = rest.sh("head -c 13000000 /dev/urandom >/tmp/big; md5sum /tmp/big")["stdout"][:32]
    body = rest.do("read", path="/tmp/big")["body"]
    assert hashlib.md5(body).hexdigest().encode() == digest
    assert rest.do("read", path="/tmp/big", max=12_999_999)["kind"] == "limit"
    # Nothing stays behind in the guest.
    rest.sh("rm /tmp/big")
    assert int(rest.sh("du -sk /var/lib/moat/moat-spool | cut -f1")["stdout"]) < 100


FAULTS = [
    {"action": "drop", "when": "before"},
    {"action": "drop", "when": "after"},
    {"action": "status", "status": 502, "when": "before"},
    {"action": "status", "status": 596, "when": "before"},
    {"action": "status", "status": 596, "when": "after"},
    {"action": "status", "status": 401, "when": "before"},
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", ["exec", "exec-status"])
def test_lost_calls_do_not_run_a_command_twice(
    server: PveServer, rest: Probe, call: str, fault: dict[str, object]
) -> None:
    rest.sh("rm -f /tmp/count")
    server.fault(path=f"{AGENT}{call}$", **fault)
    done = rest.sh("echo x >>/tmp/count; cat /tmp/count")
    assert done.get("error") is None
    assert (done["code"], done["stdout"]) == (0, b"x\n")


def test_an_agent_that_goes_away_for_a_while(server: PveServer, rest: Probe) -> None:
    rest.start("exec", argv=["sh", "-c", "sleep 2; echo yes"], capture=100)
    time.sleep(0.3)
    server.control("agent", vmid=VM, gone=True)
    time.sleep(2)
    server.control("agent", vmid=VM, gone=False)
    assert rest.finish()["stdout"] == b"yes\n"


def test_the_runner_is_put_back(rest: Probe) -> None:
    rest.sh("rm -rf /var/lib/moat")
    assert rest.exec("echo", "again")["stdout"] == b"again\n"


def test_without_the_runner(server: PveServer) -> None:
    with Probe(server, VM, runner="-") as plain:
        given = bytes(range(256)) * 300
        done = plain.sh("cat; echo é >&2; exit 4", input=given)
        assert (done["code"], done["stdout"], done["stderr"]) == (4, given, "é\n".encode())
        assert plain.do("write", path="/tmp/plain", content=given).get("error") is None
        assert plain.do("read", path="/tmp/plain")["body"] == given
        assert plain.do("read", path="/tmp/none")["kind"] == "not_found"
        assert plain.sh("sleep 1000", timeout=0.5)["timed_out"]


def test_a_guest_gets_the_runner_for_its_architecture(
    server: PveServer, rest: Probe, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Which one it has is known by its size. Both of these would run there."""
    other = tmp_path / "moat-guest-aarch64"
    other.write_bytes(RUNNER.read_bytes() + b"for others")
    rest.sh("rm -rf /var/lib/moat")
    with Probe(server, VM, runner_aarch64=other) as probe:
        size = probe.sh("stat -c %s /var/lib/moat/moat-guest")["stdout"]
        assert int(size) == RUNNER.stat().st_size
    with Probe(server, VM, runner="-", runner_aarch64=other) as probe:
        # There is none for it: the plain agent does it, and it is said what is missing.
        assert probe.exec("echo", "anyway")["stdout"] == b"anyway\n"
    assert "moat-guest-x86_64 is not installed with moat" in capfd.readouterr().err


# --- the kept line ---


@pytest.fixture
def kept(server: PveServer) -> Iterator[Probe]:
    """A guest that has been used often, so that its kept line is open."""
    with Probe(server, VM, "kept-line") as probe:
        wait_for_kept_line(probe)
        yield probe


def wait_for_kept_line(probe: Probe) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while probe.exec("true")["requests"]:
        assert time.monotonic() < deadline, "no kept line was opened"


def test_the_kept_line(server: PveServer, kept: Probe) -> None:
    server.control("clear_log")
    given = bytes(range(256)) * 4
    done = kept.sh("cat; echo err >&2; exit 5", input=given)
    assert (done["code"], done["stdout"], done["stderr"]) == (5, given, b"err\n")
    assert kept.do("write", path="/root/small", content=given).get("error") is None
    assert kept.do("read", path="/root/small")["body"] == given
    assert kept.do("read", path="/root/none")["kind"] == "not_found"
    assert kept.exec("sleep", "1000", timeout=0.3)["timed_out"]
    done = kept.exec("tty", tty=True, capture=0)
    assert done["stdout"].startswith(b"/dev/pts/")
    assert server.log() == []  # not one call
    # What is large takes agent calls.
    done = kept.exec("head", "-c", "400000", "/dev/urandom")
    assert len(done["stdout"]) == 400_000
    assert done["requests"] == 1
    given = os.urandom(100_000)
    assert kept.exec("cat", input=given)["stdout"] == given
    assert kept.do("write", path="/root/large", content=given).get("error") is None
    assert kept.do("read", path="/root/large")["body"] == given


def test_rubbish_on_the_port_is_skipped(kept: Probe) -> None:
    noise = "head -c 3000 /dev/urandom >/dev/ttyS1; echo 'login: ' >/dev/ttyS1; echo ok"
    assert kept.sh(noise)["stdout"] == b"ok\n"
    assert kept.exec("echo", "on")["stdout"] == b"on\n"


def test_a_port_that_is_flooded_hurts_only_the_kept_line(server: PveServer, kept: Probe) -> None:
    # Whole lines of ours with wrong numbers: the conversation is over, the VM is not.
    data = bytes(3)
    forged = f"^{zlib.crc32(struct.pack('<H', 999) + data):08x}{999:04x}AAAA"
    kept.sh(f"(for i in $(seq 200); do echo '{forged}'; done) >/dev/ttyS1")
    deadline = time.monotonic() + WAIT_SECONDS
    while kept.exec("echo", "there").get("stdout") != b"there\n":
        assert time.monotonic() < deadline


def test_a_kept_line_that_breaks_is_opened_again(server: PveServer, kept: Probe) -> None:
    server.control("cut")
    deadline = time.monotonic() + WAIT_SECONDS
    while kept.exec("true").get("error"):
        assert time.monotonic() < deadline
    wait_for_kept_line(kept)


def test_without_a_second_port_there_is_no_terminal(rest: Probe) -> None:
    done = rest.exec("tty", tty=True, capture=0)
    assert done["kind"] == "unsupported"
    assert "serial port" in done["error"]
