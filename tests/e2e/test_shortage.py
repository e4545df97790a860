"""The daemon runs out of open files for a while: what asks then is refused, all else goes on."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator

from home import TINY, Home, kill

from tools import until, wire


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


def test_a_request_is_refused_and_its_connection_goes_on(home: Home) -> None:
    client = wire(home)
    box = client.final(client.request("up", {"spec": TINY}))["result"]
    with no_more_files(home.daemon_pid()):
        refused = client.final(client.request("ls", {}))
    assert "Too many open files" in refused["error"]["message"]
    # The sandbox is the connection's: it would have gone with it.
    told = client.final(client.request("ls", {}))["result"]["sandboxes"]
    assert [sandbox["id"] for sandbox in told] == [box["sandbox"]]


def test_a_vm_goes_on_after_a_snapshot_that_failed(home: Home) -> None:
    box = home.up()
    client = wire(home)
    pid = home.daemon_pid()
    saving = client.answers(client.request("snapshot", {"sandbox": box, "name": "one"}))
    assert "saving" in next(saving)[0]["text"]
    with no_more_files(pid):
        time.sleep(2)  # one attempt to let the VM go on fails meanwhile
    assert "Too many open files" in list(saving)[-1][0]["error"]["message"]
    assert home.ok("exec", box, "--", "echo", "fine", timeout=60) == "fine"
    home.ok("snapshot", box, "two")


def test_a_sandbox_is_removed_when_there_are_files_again(home: Home) -> None:
    client = wire(home)
    client.final(client.request("up", {"spec": TINY}))
    with no_more_files(home.daemon_pid()):
        client.sock.close()
        until(lambda: not home.qemu_pids(), "its VM ends")
        time.sleep(0.3)
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
        time.sleep(6)  # it looks every two seconds, and removing takes two more
    while next(ready)["done"] == 0:
        pass
