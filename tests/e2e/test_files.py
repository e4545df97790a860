"""`files` of a VM: they are there when it boots, whatever it boots from."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home

TINY: dict[str, Any] = {"source": "tiny", "ram_mb": 192, "vcpus": 1, "nics": []}
FLAG = {"path": "/root/flag", "content": "flag{one}\n", "mode": "0600"}
START_MB = 4  # of the partition


@pytest.fixture(scope="module")
def home(images: None) -> Iterator[Home]:
    made = Home()
    try:
        yield made
    finally:
        for name in made.ok("image", "ls", "--names").split():
            if name.startswith("files-"):
                made.run("image", "rm", name)
        made.close()


def spec(home: Home, *vms: dict[str, Any]) -> str:
    return home.spec({"vms": list(vms), "networks": "none"})


def as_root(home: Home, sandbox: str, script: str) -> str:
    return home.ok("exec", "-u", "root", sandbox, "--", "sh", "-c", script)


def disk(tmp: Path, label: str, tree: Path | None) -> Path:
    """A disk with one ext4 partition."""
    raw = tmp / "disk.raw"
    with raw.open("wb") as file:
        file.truncate(64 << 20)
    table = f"label: {label}\nstart={START_MB}MiB, size=48MiB, type=L\n"
    subprocess.run(["sfdisk", "-q", raw], input=table, text=True, check=True)
    options = ["-E", f"offset={START_MB << 20}", *(("-d", tree) if tree else ())]
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, raw, "48M"], check=True)
    return raw


def debugfs(raw: Path, command: str) -> str:
    where = f"{raw}?offset={START_MB << 20}"
    done = subprocess.run(
        ["debugfs", "-R", command, where], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_from_memory(home: Home, tmp_path: Path) -> None:
    """Also in VMs from a template, in forks and after going back. Others have others."""
    (tmp_path / "tool").write_bytes(b"#!/bin/sh\necho works\n")
    files = [
        FLAG,
        {"path": "/opt/a b/it's", "content_base64": "AAEC/w==", "owner": "1000:1001"},
        {"path": "/usr/bin/tool", "host_file": str(tmp_path / "tool"), "mode": "4755"},
        {"path": "/etc/motd", "content": ""},
    ]
    first = home.ok("up", spec(home, {**TINY, "files": files}), timeout=600)
    second = home.ok("up", spec(home, {**TINY, "files": files}), timeout=600)
    assert "warm" in home.ok("ls", "--json", second)
    home.ok("snapshot", second, "before")
    as_root(home, second, "echo gone >/root/flag")
    home.ok("restore", second, "before")
    fork = home.ok("fork", second)
    look = (
        "cat /root/flag; stat -c '%a %u:%g %s %n' /root /root/flag '/opt/a b' \"/opt/a b/it's\""
        " /usr/bin/tool /etc/motd; tool; od -An -tx1 /opt/a*/*"
    )
    for sandbox in (first, second, fork):
        assert as_root(home, sandbox, look).splitlines() == [
            "flag{one}",
            "700 0:0 60 /root",
            "600 0:0 10 /root/flag",
            "755 0:0 60 /opt/a b",
            "644 1000:1001 4 /opt/a b/it's",
            "4755 0:0 21 /usr/bin/tool",
            "644 0:0 0 /etc/motd",
            "works",
            " 00 01 02 ff",
        ]
    other = [{**FLAG, "content": "flag{two}\n"}, *files[1:]]
    third = home.ok("up", spec(home, {**TINY, "files": other}), timeout=600)
    assert as_root(home, third, "cat /root/flag") == "flag{two}"


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_onto_a_disk(home: Home, label: str, tmp_path: Path) -> None:
    """A victim that nobody looks into. What links on its disk say counts in its own system."""
    tree = tmp_path / "tree"
    for folder in ("etc", "srv", "dev"):
        (tree / folder).mkdir(parents=True)
    (tree / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tree / "opt").symlink_to("/srv")
    (tree / "etc/motd").write_text("old and long\n")
    home.ok("image", "import", "--name", f"files-{label}", str(disk(tmp_path, label, tree)))
    files = [
        {**FLAG, "path": "/opt/deep/flag", "owner": "7:8"},
        {"path": "/etc/motd", "content": "new\n"},
    ]
    victim = {**TINY, "name": "victim", "source": f"files-{label}", "is_sandbox": False}
    sandbox = home.ok("up", spec(home, TINY, {**victim, "files": files}), timeout=600)
    home.ok("image", "commit", "--vm", "victim", sandbox, f"files-{label}-out")
    raw = tmp_path / "out.raw"
    home.ok("image", "export", "-f", "raw", "-o", str(raw), f"files-{label}-out")
    assert debugfs(raw, "cat /srv/deep/flag") == "flag{one}\n"
    assert debugfs(raw, "cat /etc/motd") == "new\n"
    said = debugfs(raw, "stat /srv/deep/flag").split()
    assert {"0600", "7", "8"} <= set(said)
    assert "busybox" not in debugfs(raw, "ls /dev"), "nothing of ours stays"
    offset = f"offset={START_MB << 20}"
    check = subprocess.run(
        ["e2fsck", "-fn", f"{raw}?{offset}"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout
    home.ok("rm", sandbox)


def test_no_linux(home: Home, tmp_path: Path) -> None:
    """The sandbox fails before the VM boots, and leaves nothing."""
    home.ok("image", "import", "--name", "files-none", str(disk(tmp_path, "dos", None)))
    running = home.ok("ls", "--json")
    victim = {**TINY, "name": "victim", "source": "files-none", "is_sandbox": False}
    said = home.fails("up", spec(home, TINY, {**victim, "files": [FLAG]}), timeout=600)
    assert "no partition of the disk has a Linux system on ext4" in said
    assert "/dev/vda1" in said
    assert home.ok("ls", "--json").count('"id"') == running.count('"id"')


def test_refused(home: Home, tmp_path: Path) -> None:
    """What is known before, nothing is made for."""
    windows = {**TINY, "os_type": "win11", "files": [FLAG]}
    assert "only ext4" in home.fails("up", "--check", spec(home, windows))
    missing = {**TINY, "files": [{"path": "/x", "host_file": "/nowhere/at/all"}]}
    said = home.fails("up", "--check", spec(home, missing))
    assert "vms[0].files[0].host_file: /nowhere/at/all: No such file" in said
    alone = Home()
    try:
        alone.env["MOAT_DATA_DIR"] = str(alone.dir / "data")
        alone.ok("image", "import", "--name", "own", str(disk(tmp_path, "dos", None)))
        own = {**TINY, "source": "own", "files": [FLAG]}
        assert "moat image build tiny" in alone.fails("up", "--check", spec(alone, own))
    finally:
        alone.close()
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(65 << 20)
    too_much = {**TINY, "warm": False, "files": [{"path": "/x", "host_file": str(large)}]}
    assert "67108864" in home.fails("up", spec(home, too_much), timeout=600)
