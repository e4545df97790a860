"""What things cost on a server whose calls, tasks and applies are dear."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from lives import SPEC, WAIT_SECONDS, Lives, a_server
from server import PveServer

from driver import wait_for

MIB = 1 << 20


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with a_server() as server, Lives(server) as made:
        yield made


def agent_calls(server: PveServer) -> list[str]:
    calls = [e for e in server.log() if "/agent/" in e["path"]]
    return [f"{e['method']} {e['path'].rsplit('/', 1)[1]}" for e in calls]


def test_the_first_command_costs_two_more_calls(lives: Lives) -> None:
    """The runner comes with the call that looks for it."""
    server, home = lives.server, lives.home
    server.clear()
    box = home.up(SPEC)
    server.fault(path="/agent/", action="latency", seconds=0.5, times=-1)
    server.control("clear_log")
    home.ok("exec", box, "--", "true")
    seen = agent_calls(server)
    assert seen.count("POST exec") == 2
    assert set(seen) == {"POST exec", "GET exec-status"}
    home.ok("rm", box)


def test_servers_and_guests_that_take_no_large_call_get_pieces(lives: Lives) -> None:
    server, home = lives.server, lives.home
    server.clear()
    box = home.up(SPEC)
    refused = server.fault(path="/agent/exec$", method="POST", status=501, skip=0, times=1)
    server.control("clear_log")
    assert home.ok("exec", box, "--", "echo", "hi") == "hi"
    assert server.struck(refused) == 1
    assert "POST file-write" in agent_calls(server)
    home.ok("rm", box)


def test_older_servers_get_pieces(lives: Lives) -> None:
    with (
        PveServer(vms="container", time_scale=0.02, task_time=0.02, pve_version="8.3") as old,
        Lives(old) as there,
    ):
        box = there.home.up(SPEC)
        assert there.home.ok("exec", box, "--", "echo", "hi") == "hi"
        assert "POST file-write" in agent_calls(old)
        there.home.ok("rm", box)


def test_large_files_come_in_pieces_two_at_a_time(lives: Lives) -> None:
    server, home = lives.server, lives.home
    server.clear()
    box = home.up(SPEC)
    make = f"head -c {9 * MIB + 5} /dev/urandom >/root/large; sha256sum </root/large"
    expected = home.ok("exec", box, "--", "sh", "-c", make).split()[0]
    server.control("clear_log")
    rule = server.fault(path="/agent/file-read$", action="latency", seconds=3, times=-1)

    def being_read() -> int:
        return len([e for e in server.log() if "/file-read" in e["path"] and not e["status"]])

    copying = home.start("cp", f"{box}:/root/large", str(home.dir / "large"))
    wait_for(lambda: being_read() == 2 or copying.poll() is not None)
    assert copying.poll() is None
    assert copying.wait(WAIT_SECONDS) == 0
    assert server.struck(rule) == 3
    assert hashlib.sha256((home.dir / "large").read_bytes()).hexdigest() == expected
    home.ok("rm", box)
