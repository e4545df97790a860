"""What those who watch are told: the operation `watch`, and `moat ls --watch`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from home import TINY, Home, Wire, kill

from tools import listed, until, wire


class Watcher:
    """A connection that watches."""

    def __init__(self, home: Home, **args: Any) -> None:
        self.wire: Wire = wire(home)
        self.id = self.wire.request("watch", args)

    def next(self, what: str) -> dict[str, Any]:
        """The next event of that kind; others are passed over."""
        while True:
            message, _ = self.wire.receive()
            assert message["type"] == "event", message
            if message["event"]["what"] == what:
                return dict(message["event"])

    def sandbox(self, state: str) -> dict[str, Any]:
        while (sandbox := self.next("sandbox")["sandbox"])["state"] != state:
            pass
        return dict(sandbox)

    def figures(self, **wanted: Any) -> dict[str, Any]:
        """Those of the only VM, when they have these values."""
        while True:
            (one,) = self.next("figures")["vms"]
            if all(one[name] == value for name, value in wanted.items()):
                return dict(one)

    def end(self) -> dict[str, Any]:
        self.wire.send({"type": "cancel", "id": self.id})
        return self.wire.final(self.id)


def test_the_life_of_a_sandbox_is_told(home: Home) -> None:
    watcher = Watcher(home)
    watcher.next("listed")
    box = home.up(TINY, "-n", "demo", "-l", "task=ctf")
    told = watcher.sandbox("running")
    while not told["detached"]:
        told = watcher.sandbox("running")
    assert (told["id"], told["name"], told["labels"]["task"]) == (box, "demo", "ctf")
    assert "age" not in told
    later = Watcher(home, sandbox="demo")
    assert later.sandbox("running") == told
    later.next("listed")
    kill(home.qemu_pids(box)[0])
    while watcher.sandbox("running")["vms"][0]["state"] != "dead":
        pass
    home.ok("rm", box)
    assert watcher.next("gone")["id"] == box
    assert later.next("gone")["id"] == box
    assert later.wire.final(later.id)["type"] == "result"  # there is nothing left to watch
    assert watcher.end()["error"]["kind"] == "cancelled"


LOOP = "i=0; while [ ! -e /tmp/end ]; do i=$((i+1)); done"


@pytest.mark.needs_root("it makes networks")
def test_figures_tell_what_a_vm_does(home: Home) -> None:
    box = home.up()
    busy = home.start("exec", box, "sh", "-c", LOOP)
    watcher = Watcher(home, figures=1)
    first = watcher.figures(command=f"sh -c {LOOP}", running=1)
    assert first["memory"] > 20 << 20
    later = watcher.figures()
    assert later["at_us"] > first["at_us"]
    assert later["cpu_us"] > first["cpu_us"]
    home.ok("exec", box, "touch", "/tmp/end")
    assert busy.wait(60) == 0
    before = watcher.figures(command="touch /tmp/end", running=0)
    # moat's own address answers no ping; the question leaves the VM nevertheless.
    home.run("exec", "-u", "root", box, "ping", "-c1", "-W1", "10.77.0.1")
    after = watcher.figures(command="ping -c1 -W1 10.77.0.1", running=0)
    assert after["sent"] > before["sent"]
    assert watcher.end()["error"]["kind"] == "cancelled"


def test_what_watch_refuses(home: Home) -> None:
    client = wire(home)
    for args in ({"figures": 0.1}, {"figures": 1e9}, {"figures": "1"}, {"more": 1}):
        assert client.final(client.request("watch", args))["error"]["kind"] == "invalid"
    error = client.final(client.request("watch", {"sandbox": "nobody"}))["error"]
    assert error["kind"] == "not_found"


@contextlib.contextmanager
def watching(home: Home, *more: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    client = subprocess.Popen(
        [home.binary, "ls", "--watch", *more],
        env=home.env,
        stdin=how.pop("stdin", subprocess.DEVNULL),
        stdout=how.pop("stdout", subprocess.PIPE),
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield client
    finally:
        client.kill()
        client.wait()


def test_lines_where_there_is_no_terminal(home: Home) -> None:
    home.ok("ls")
    with watching(home) as lines, watching(home, "--json") as documents:
        assert json.loads(documents.stdout.readline()) == {"what": "listed"}
        box = home.up(TINY, "-n", "demo")
        # Its time, its id, its name, its state.
        words = lines.stdout.readline().split()
        assert words[1:3] == [box, "demo"]
        event = json.loads(documents.stdout.readline())
        while event["what"] != "sandbox" or event["sandbox"]["state"] != "running":
            event = json.loads(documents.stdout.readline())
        home.ok("rm", box)
        while words[3] != "gone":
            words = lines.stdout.readline().split()
            assert words[1:3] == [box, "demo"]
        while event["what"] != "gone":
            event = json.loads(documents.stdout.readline())
        assert event["id"] == box
        lines.terminate()
        assert lines.wait(30) == 0


def test_a_table_on_a_terminal(home: Home) -> None:
    box = home.up(TINY, "-l", "task=a-task-with-a-name", "-l", "sample=7")
    home.ok("exec", box, "echo", "a command that is longer than there is room for in a row")
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    cooked = termios.tcgetattr(theirs)
    shown = b""

    def complete() -> list[str]:
        nonlocal shown
        shown += os.read(ours, 65536)
        drawings = shown.decode().split("\x1b[J")[:-1]
        return [d for d in drawings if "%" in d and "echo" in d]

    try:
        with watching(home, stdin=theirs, stdout=theirs) as client:
            drawing = until(complete, "the table has figures")[-1]
            os.write(ours, b"q")
            assert client.wait(30) == 0
    finally:
        after = termios.tcgetattr(theirs)
        os.close(ours)
        os.close(theirs)
    assert after == cooked
    for colour in ("\x1b[1m", "\x1b[32m", "\x1b[0m", "\x1b[K", "\x1b[1A", "\x1b[2A"):
        drawing = drawing.replace(colour, "")
    head, row = drawing.strip().split("\r\n")
    columns = ["SANDBOX", "VM", "STATE", "CPU", "MEMORY", "IN", "OUT", "FOR", "COMMAND"]
    assert head.split() == columns
    assert row.split()[:3] == [box, "default", "running"]
    assert max(len(head), len(row)) <= 80


def test_what_people_do_is_recorded(home: Home) -> None:
    box = home.up(TINY, "-n", "demo")
    home.ok("exec", box, "true")
    assert "touched" not in listed(home)[0]  # a program may have done that
    assert "TOUCHED" not in home.ok("ls")
    watcher = Watcher(home, sandbox=box)
    watcher.next("listed")
    person = wire(home, person="a test")
    for op, args in (
        ("exec", {"argv": ["true"]}),
        ("exec", {"argv": ["true"], "tty": {"rows": 24, "cols": 80}}),
        ("write", {"path": "/tmp/a"}),
        ("read", {"path": "/tmp/a"}),
    ):
        blob = {"input": "blob"} if op == "write" else {}
        answer = person.final(person.request(op, {"sandbox": box, **args}, **blob))
        assert answer["type"] == "result", answer
    told = watcher.sandbox("running")
    while len(told.get("touched", [])) < 3:
        told = watcher.sandbox("running")
    assert [one["what"] for one in told["touched"]] == ["typed", "ran", "wrote"]
    assert {one["by"] for one in told["touched"]} == {"a test"}
    client = wire(home)
    terminal = {"sandbox": box, "argv": ["true"], "tty": {"rows": 24, "cols": 80}}
    client.final(client.request("exec", terminal))
    (typed, *_) = listed(home)[0]["touched"]
    assert (typed["what"], typed["count"], typed["by"]) == ("typed", 2, "terminal")
    assert "typed,ran,wrote" in home.ok("ls").replace(", ", ",")
    fork = home.ok("fork", box).split()[0]
    assert [one["what"] for one in listed(home) if one["id"] == fork for one in one["touched"]] == [
        "typed",
        "ran",
        "wrote",
    ]
