"""`moat image commit`: VMs become images, and go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home

from tools import until

DISK: dict[str, Any] = {"source": "tiny-disk", "ram_mb": 192, "vcpus": 1, "nics": []}
# What makes a machine recognisable, and something to find again.
MARK = """
echo well-done >/flag
mkdir -p /etc/ssh
echo 00000000000000000000000000000001 >/etc/machine-id
echo old >/etc/ssh/ssh_host_ed25519_key
"""


def as_root(home: Home, sandbox: str, script: str, *options: str, **more: Any) -> str:
    return home.ok("exec", "-u", "root", *options, sandbox, "--", "sh", "-c", script, **more)


def spec(home: Home, source: str = "tiny-disk", **members: Any) -> str:
    return home.spec({"vms": [{**DISK, "source": source, **members}], "networks": "none"})


# A shell that is killed in freeze.sh when everything is frozen, and otherwise works.
KILLED = """#!/bin/busybox ash
case $4:$2 in thaw:*) ;; *fsfreeze*) sync; fsfreeze --freeze /; echo frozen; kill -9 $$ ;; esac
exec /bin/busybox sh "$@"
"""
# A file system that cannot be frozen, as /boot/efi, and one that need not be.
OTHERS = """
modprobe loop && modprobe vfat && mkdir /fat /read
dd if=/dev/zero of=/fat.img bs=1M count=2 && mkdosfs /fat.img && mount -o loop /fat.img /fat
dd if=/dev/zero of=/read.img bs=1M count=2 && mkdosfs /read.img && mount -o loop,ro /read.img /read
mount | grep -c " /fat type vfat (rw\\| /read type vfat (ro"
"""


def drafts(home: Home) -> list[Path]:
    """Commits under way, of all who use these images."""
    images = Path(os.environ["MOAT_DATA_DIR"], "images")
    return [path.parent.parent for path in images.glob("tmp-*/work/overlay")]


@pytest.fixture(scope="module")
def used() -> Iterator[Home]:
    """A home with a running VM on a disk, which all tests leave running."""
    home = Home()
    try:
        home.ok("image", "build", "tiny-disk", timeout=1800)
        home.sandbox = home.ok("up", spec(home), timeout=600)  # type: ignore[attr-defined]
        as_root(home, home.sandbox, MARK)
        yield home
    finally:
        for name in home.ok("image", "ls", "--names").split():
            if name.startswith("commit-"):
                home.run("image", "rm", name)
        home.close()


def test_running(used: Home) -> None:
    """The disk is clean, the copy has an identity of its own, and the VM goes on."""
    as_root(
        used,
        used.sandbox,
        "(until [ -e /done ]; do echo >>/log; sleep 0.05; done) >/dev/null 2>&1 &",
    )
    done = used.run("image", "commit", "--user", "daemon", used.sandbox, "commit-running")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "commit-running\n"
    assert "paused" not in done.stderr
    before = int(as_root(used, used.sandbox, "wc -l </log"))
    until(lambda: int(as_root(used, used.sandbox, "wc -l </log")) > before, "the VM writes on")
    as_root(used, used.sandbox, "touch /done")

    ids = set()
    for warm in (True, False):
        copy = used.ok("up", spec(used, "commit-running", warm=warm), timeout=600)
        assert used.ok("exec", copy, "--", "id", "-un") == "daemon"
        assert as_root(used, copy, "cat /flag") == "well-done"
        assert "recovery" not in as_root(used, copy, "dmesg | grep vda2")
        ids.add(as_root(used, copy, "cat /etc/machine-id"))
        assert as_root(used, copy, "head -n 1 /etc/ssh/ssh_host_ed25519_key").startswith("-----")
        used.ok("rm", copy)
    assert len(ids) == 2, "each has its own machine id"
    assert "00000000000000000000000000000001" not in ids
    assert as_root(used, used.sandbox, "cat /etc/machine-id").endswith("1"), "the VM keeps its own"


def test_what_cannot_be_frozen(used: Home) -> None:
    """It does not keep the others from being frozen."""
    assert as_root(used, used.sandbox, OTHERS).split()[-1] == "2"
    done = used.run("image", "commit", used.sandbox, "commit-others")
    as_root(used, used.sandbox, "umount /fat /read")
    assert done.returncode == 0, done.stderr
    assert "paused" not in done.stderr
    copy = used.ok("up", spec(used, "commit-others", warm=False), timeout=600)
    assert "recovery" not in as_root(used, copy, "dmesg | grep vda2")
    used.ok("rm", copy)


def test_script_killed(used: Home) -> None:
    """By the guest, while its file systems are frozen: they do not stay so."""
    install = "cat >/sh.new && chmod 755 /sh.new && mv /sh.new /bin/sh"
    as_root(used, used.sandbox, install, "-i", input=KILLED)
    used.ok("image", "commit", used.sandbox, "commit-killed-script")
    assert as_root(used, used.sandbox, "echo on >/on; cat /on", timeout=30) == "on"
    as_root(used, used.sandbox, "ln -sf /bin/busybox /bin/sh")


def test_off(used: Home) -> None:
    """A VM that has powered itself off."""
    sandbox = used.ok("up", spec(used), timeout=600)
    as_root(used, sandbox, "echo later >/flag; sync; poweroff")
    until(lambda: "dead" in used.ok("ls", sandbox), "the VM is off", seconds=60)
    assert "paused" not in used.run("image", "commit", sandbox, "commit-off").stderr
    used.ok("rm", sandbox)
    copy = used.ok("up", spec(used, "commit-off", warm=False), timeout=600)
    assert as_root(used, copy, "cat /flag") == "later"
    used.ok("rm", copy)


def test_without_the_runner(used: Home) -> None:
    """Nobody looks into it: it is paused, and that is said."""
    both = {
        "vms": [{**DISK, "source": "tiny"}, {**DISK, "name": "target", "is_sandbox": False}],
        "networks": "none",
    }
    sandbox = used.ok("up", used.spec(both), timeout=600)
    done = used.run("image", "commit", "--vm", "target", sandbox, "commit-paused")
    assert done.returncode == 0, done.stderr
    assert "as after a power cut" in done.stderr
    used.ok("rm", sandbox)


def test_refused(used: Home) -> None:
    sandbox = used.up()
    said = used.fails("image", "commit", sandbox, "commit-memory")
    assert "runs from memory" in said
    assert "recipe" in said
    assert "commit-memory" not in used.ok("image", "ls", "--names").split()
    assert "has no VM" in used.fails("image", "commit", "--vm", "no", sandbox, "x")
    assert "cannot be the name" in used.fails("image", "commit", used.sandbox, "../x")
    used.ok("rm", sandbox)


def stop_qemu_img(home: Home) -> int:
    """Waits until the disk is being merged, and lets that stand still."""

    def stopped() -> int:
        for pid, line in home.processes().items():
            if line.startswith("qemu-img convert"):
                os.kill(pid, signal.SIGSTOP)
                return pid
        return 0

    return until(stopped, "qemu-img runs", seconds=60)


def test_cancelled(used: Home) -> None:
    as_root(used, used.sandbox, "dd if=/dev/urandom of=/large bs=1M count=64")
    commit = used.start("image", "commit", used.sandbox, "commit-cancelled")
    stop_qemu_img(used)
    assert as_root(used, used.sandbox, "echo goes on >/on; cat /on") == "goes on"
    commit.send_signal(signal.SIGINT)
    assert commit.wait(30) == 130
    until(lambda: not drafts(used), "nothing is left")
    assert "commit-cancelled" not in used.ok("image", "ls", "--names").split()


def test_daemon_killed() -> None:
    home = Home()
    try:
        sandbox = home.ok("up", spec(home), timeout=600)
        as_root(home, sandbox, "dd if=/dev/urandom of=/large bs=1M count=64")
        commit = home.start("image", "commit", sandbox, "commit-killed")
        stop_qemu_img(home)
        assert drafts(home)
        home.kill_daemon()
        assert commit.wait(30) != 0
        assert "commit-killed" not in home.ok("image", "ls", "--names").split()
        assert not drafts(home), "the next daemon removes what was left"
        home.assert_nothing_left()
    finally:
        home.close()
