"""The programs that read the disk of a base have nothing but that disk, whoever made it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, tool
from home import Home
from walls import SHOWN, capabilities, namespaces, probe, status

from tools import until

TOOLS = ("sfdisk", "dumpe2fs", "e2fsck", "debugfs", "mke2fs")
MARKS = 0x10000  # where on the disk nobody keeps anything

# Takes the place of a tool: gives up if anything works that should not, and marks the disk.
TAKEN = r"""#!/bin/sh
works() {
	echo "TAKEN $NAME: $1" >&2
	exit 99
}
! cat "$SECRET" 2>/dev/null || works "it reads files of others"
(echo x >"$SECRET.new") 2>/dev/null # in a directory of its own, or nowhere
! ls /etc/passwd 2>/dev/null || works "it sees the users of the host"
! kill -0 "$VICTIM" 2>/dev/null || works "it gets at other processes"
! chmod 666 /dev/null 2>/dev/null || works "it changes devices"
[ "$(wc -l </proc/self/net/dev)" -le 3 ] || works "it has a network"
[ -z "$(ls /proc/self/fd | grep -v -x -e '[0-5]' -e '1[0-9]')" ] || works "it has open files"
printf 'taken %s' "$NAME" | dd of=/proc/self/fd/4 bs=1 "seek=$AT" conv=notrunc 2>/dev/null
exec "/usr/sbin/$NAME" "$@"
"""


@pytest.fixture
def home(images: None, tmp_path: Path) -> Iterator[Home]:
    made = Home()
    made.env["MOAT_DATA_DIR"] = str(tmp_path / "data")
    yield made
    made.close()


def base_with_devices(home: Home, scratch: Path) -> None:
    """An image `base`, whose device files make debugfs necessary."""
    common = Home()
    disk = Disk(common, "tiny-disk", scratch)
    common.close()
    tool("debugfs", "-w", "-R", "mknod one c 1 3", disk.file_system)
    home.ok("image", "import", "--name", "base", str(disk.raw))
    disk.raw.unlink()


def test_tools_that_were_taken_over_get_at_nothing(home: Home, tmp_path: Path) -> None:
    secret, taken = tmp_path / "secret", tmp_path / "taken"
    secret.write_text("secret")
    taken.mkdir()
    for place, name in enumerate(TOOLS):
        values = {"SECRET": secret, "VICTIM": os.getpid(), "NAME": name, "AT": MARKS + 64 * place}
        lines = "".join(f"{key}='{value}'\n" for key, value in values.items())
        program = taken / name
        program.write_text(TAKEN.replace("\n", f"\n{lines}", 1))
        program.chmod(0o755)
    base_with_devices(home, tmp_path)
    home.env["PATH"] = f"{taken}:{home.env['PATH']}"
    home.ok("serve", "--stop", "--force")  # the next one has that PATH
    home.ok("image", "build", "base", "--name", "mine", "--disk-gb", "1", timeout=300)
    assert not Path(f"{secret}.new").exists(), "it writes"
    disk = Disk(home, "mine", tmp_path)
    gap = disk.raw.read_bytes()[MARKS : MARKS + 64 * len(TOOLS)]
    assert set(re.findall(rb"taken (\w+)", gap)) == {name.encode() for name in TOOLS}
    disk.check()
    assert "Type: character special" in disk.stat("/one")


@pytest.mark.needs_root("it takes the place of another process")
def test_what_unpacks_a_base_sees_nothing_else(tmp_path: Path) -> None:
    image, out, commands = tmp_path / "image", tmp_path / "out", tmp_path / "commands"
    out.mkdir()
    # It lists devices; nobody reads that, so that it is looked at in the middle of its work.
    names = [f"{'x' * 200}{number}" for number in range(600)]
    commands.write_text("".join(f"mknod {name} c 1 3\n" for name in names))
    tool("truncate", "-s", "16M", image)
    tool("mke2fs", "-q", "-F", "-t", "ext4", image)
    tool("debugfs", "-w", "-f", commands, image)
    program = Path(os.environ["MOAT_BIN"]).parent / "moat-disk"
    command = ["unshare", "--pid", "--fork", "--kill-child=KILL", program, "unpack"]
    with subprocess.Popen([*command, image, "0", out], stdout=subprocess.PIPE) as unpack:
        assert unpack.stdout
        children = Path(f"/proc/{unpack.pid}/task/{unpack.pid}/children")
        until(lambda: children.read_text(), "it was started")
        pid = int(children.read_text())
        until(lambda: status(pid)["Seccomp"] == "2", "it is confined")
        wchan = Path(f"/proc/{pid}/wchan")
        until(lambda: "pipe" in wchan.read_text(), "it waits for whoever reads")
        own, mine = namespaces(pid), namespaces(os.getpid())
        apart = {kind for kind in own if own[kind] != mine[kind]}
        assert apart == {"mnt", "pid", "net", "ipc", "uts"}
        rights = {f"capability {bit}" for bit in (0, 1, 3, 4, 31)}
        assert capabilities(pid) == rights
        assert status(pid)["NoNewPrivs"] == "1"
        open_files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert {str(image), str(out)} <= open_files
        inside = probe(0, [os.getpid()], inside=pid)
        assert inside["done"] == []
        assert set(inside["files"]) <= SHOWN
        assert inside["written"] == []
        listed = unpack.stdout.read()
    assert unpack.returncode == 0
    assert len(listed.splitlines()) == len(names)
