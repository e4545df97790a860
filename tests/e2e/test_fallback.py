"""Without the runner, commands and files go through the plain guest agent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import TINY, Home

RECIPES = Path(__file__).parents[2] / "share" / "recipes"


@pytest.fixture(scope="module")
def lone(images: None) -> Iterator[Home]:
    """A moat that was installed without moat-guest."""
    home = Home("idle_exit: 0\nboot_timeout: 150\n")
    prefix = home.dir / "prefix"
    (prefix / "libexec" / "moat").mkdir(parents=True)
    (prefix / "libexec" / "moat" / "recipes").symlink_to(RECIPES)
    home.copy_programs(prefix / "bin")
    home.sandbox = home.up(TINY)  # type: ignore[attr-defined]
    yield home
    home.close()


def test_it_says_so(lone: Home) -> None:
    vm = json.loads(lone.ok("ls", "--json"))["sandboxes"][0]["vms"][0]
    assert vm["way"] == "agent"
    assert "moat-guest-x86_64 is missing" in lone.run("doctor").stdout
    log = (lone.dir / "state" / "daemon.log").read_text()
    assert log.count("using the plain guest agent") == 1


def test_commands(lone: Home) -> None:
    done = lone.run("exec", lone.sandbox, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert lone.ok("exec", lone.sandbox, "--", "id", "-un") == "user"
    assert lone.ok("exec", "-u", "root", lone.sandbox, "--", "id", "-un") == "root"
    assert (
        lone.ok("exec", "-w", "/etc", "-e", "A=b c", lone.sandbox, "--", "sh", "-c", "pwd; echo $A")
        == "/etc\nb c"
    )
    assert lone.ok("exec", "-i", lone.sandbox, "--", "cat", input="in\n") == "in"
    assert lone.run("exec", "--timeout", "2", lone.sandbox, "--", "sleep", "60").returncode == 124
    assert lone.run("exec", lone.sandbox, "--", "no-such-program").returncode == 127


def test_files(lone: Home) -> None:
    here = lone.dir / "file"
    here.write_bytes(os.urandom(300_000))
    lone.ok("cp", str(here), f"{lone.sandbox}:/tmp/there")
    lone.ok("cp", f"{lone.sandbox}:/tmp/there", str(lone.dir / "back"))
    assert (lone.dir / "back").read_bytes() == here.read_bytes()
    assert "No such file" in lone.fails("cp", f"{lone.sandbox}:/tmp/nowhere", str(lone.dir / "x"))


def test_frozen_qemu_is_an_error(lone: Home) -> None:
    """An answer of the agent may take a fifth of boot_timeout."""
    for pid in lone.qemu_pids():
        os.kill(pid, signal.SIGSTOP)
    said = lone.fails("exec", lone.sandbox, "--", "true", timeout=120)
    assert "the guest agent has said nothing for 30 seconds" in said
    for pid in lone.qemu_pids():
        os.kill(pid, signal.SIGCONT)
    assert lone.ok("exec", lone.sandbox, "--", "echo", "again") == "again"


def test_going_back_waits_for_no_runner(lone: Home) -> None:
    lone.ok("snapshot", lone.sandbox, "here")
    began = time.monotonic()
    lone.ok("restore", lone.sandbox, "here")
    assert time.monotonic() - began < 40, "it waited for one that was not saved"
    assert lone.ok("exec", lone.sandbox, "--", "echo", "fine") == "fine"
    (told,) = json.loads(lone.ok("snapshots", "--json", lone.sandbox))["snapshots"]
    assert set(told) == {"name", "created_us", "size"}


def test_no_terminal(lone: Home) -> None:
    assert "terminal" in lone.fails("exec", "-t", lone.sandbox, "--", "true")
