"""The daemon runs out of open files for a while: what asks then is refused, all else goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator

from home import TINY, Home, kill

from tools import listed, log_of, until, wire


@contextlib.contextmanager
def no_more_files(pid: int) -> Iterator[None]:
    few = 10  # below that are those that it has from its start, and keeps
    assert {str(n) for n in range(few)} <= set(os.listdir(f"/proc/{pid}/fd"))
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def await_shortage(home: Home, what: str) -> None:
    """Waits until the daemon has failed to do that for want of files, and has logged it."""
    until(
        lambda: any(
            what in line and "Too many open files" in line for line in log_of(home).splitlines()
        ),
        f"{what}: Too many open files",
        90,
    )


def test_a_request_is_refused_and_its_connection_goes_on(home: Home) -> None:
    client = wire(home)
    sandbox = client.final(client.request("up", {"spec": TINY}))["result"]
    with no_more_files(home.daemon_pid()):
        refused = client.final(client.request("ls", {}))
    assert "Too many open files" in refused["error"]["message"]
    # The sandbox is the connection's: it would have gone with it.
    told = client.final(client.request("ls", {}))["result"]["sandboxes"]
    assert [one["id"] for one in told] == [sandbox["sandbox"]]


def test_a_vm_goes_on_after_a_snapshot_that_failed(home: Home) -> None:
    sandbox = home.up()
    client = wire(home)
    pid = home.daemon_pid()
    (qemu,) = home.qemu_pids(sandbox)
    # A QEMU that stands still keeps the daemon waiting in the middle of the snapshot.
    os.kill(qemu, signal.SIGSTOP)
    saving = client.request("snapshot", {"sandbox": sandbox, "name": "one"})
    draft = home.dir / "state" / "sandboxes" / sandbox / "snapshots" / ".new"
    until(draft.exists, "the snapshot begins")
    with no_more_files(pid):
        os.kill(qemu, signal.SIGCONT)
        await_shortage(home, f"{sandbox}/default: cont")
    assert "Too many open files" in client.final(saving)["error"]["message"]
    assert home.ok("exec", sandbox, "--", "echo", "fine", timeout=60) == "fine"
    home.ok("snapshot", sandbox, "two")


def test_a_sandbox_is_removed_when_there_are_files_again(home: Home) -> None:
    client = wire(home)
    sandbox = client.final(client.request("up", {"spec": TINY}))["result"]["sandbox"]
    with no_more_files(home.daemon_pid()):
        client.sock.close()
        await_shortage(home, f"sandbox {sandbox} cannot be removed yet")
    home.assert_nothing_left()


def test_standby_goes_on(home: Home) -> None:
    client = wire(home)
    news = client.answers(client.request("standby", {"spec": TINY}))
    ready = (told for told, _ in news if told.get("text") == "in standby")
    while next(ready)["done"] == 0:
        pass
    pid = home.daemon_pid()
    with no_more_files(pid):
        kill(*home.qemu_pids())
        # The shortage is so long that the daemon leaves the rest of the dead sandbox to gc.
        await_shortage(home, "cannot remove what was in standby")
        await_shortage(home, "cannot make a sandbox for standby")
    while next(ready)["done"] == 0:
        pass
    home.ok("gc")
    left = os.listdir(home.dir / "state" / "sandboxes")
    assert left == [sandbox["id"] for sandbox in listed(home)]
