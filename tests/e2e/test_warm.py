"""Warm start: VMs from templates, their identities, and what becomes of damaged templates."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home

from tools import own_data, until

# A shape of its own, so that the tests have a template to themselves.
KIND: dict[str, Any] = {"vms": [{"name": "clone", "source": "tiny", "ram_mb": 160, "vcpus": 1}]}
CLONES = 8
DISK_GB = 20


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    with own_data() as own:
        yield own


@pytest.fixture(scope="module")
def warm(data: Path) -> Iterator[Home]:
    home = Home()
    home.env["MOAT_DATA_DIR"] = str(data)
    home.ok("image", "warm", home.spec(KIND), timeout=900)
    yield home
    home.close()


def vms(home: Home, sandbox: str) -> list[dict[str, Any]]:
    found = json.loads(home.ok("ls", "--json"))["sandboxes"]
    return next(s["vms"] for s in found if s["id"] == sandbox)


def templates(home: Home) -> list[dict[str, Any]]:
    return json.loads(home.ok("image", "templates", "--json"))["templates"]


# What a system does not have is empty.
IDENTITY = """
say() { echo "$1=$2"; }
say hostname "$(hostname)"
say mac "$(cat /sys/class/net/e*/address)"
say address "$(ip -4 addr show | sed -n 's/.*inet \\(10[0-9.]*\\).*/\\1/p')"
say machine_id "$(cat /etc/machine-id 2>/dev/null)"
say host_keys "$(cat /etc/ssh/ssh_host_*_key.pub 2>/dev/null | cut -d' ' -f2 | tr -d '\\n')"
say urandom "$(head -c 16 /dev/urandom | od -An -tx1)"
say uuid "$(cat /proc/sys/kernel/random/uuid)"
say clock "$(date +%s)"
"""


def identity(home: Home, sandbox: str, vm: str) -> dict[str, str]:
    said = home.ok("exec", "--vm", vm, sandbox, "--", "sh", "-c", IDENTITY)
    return dict(line.split("=", 1) for line in said.splitlines())


def subnet(name: str) -> dict[str, Any]:
    ranges = [{"start": "10.7.7.10", "end": "10.7.7.60"}]
    return {"alias": name, "subnets": [{"cidr": "10.7.7.0/24", "dhcp_ranges": ranges}]}


def log_in_by_ssh(warm: Home, sandbox: str, vm: str) -> None:
    """Through moat and the VM's own sshd, also as another user, and with bytes of any kind."""
    config = warm.dir / "ssh-config"
    config.write_text(warm.ok("ssh-config", sandbox))
    ssh = ["ssh", "-F", str(config), "-o", "BatchMode=yes"]
    host, sent = f"moat-{sandbox}-{vm}", bytes(range(256)) * 1000
    for user, command in (("user", f"user@{host}"), ("root", f"root@{host}"), ("user", host)):
        done = subprocess.run(
            [*ssh, command, "whoami"], capture_output=True, timeout=300, check=False
        )
        assert done.stdout.decode().strip() == user, done.stderr
    back = subprocess.run([*ssh, host, "cat"], input=sent, stdout=subprocess.PIPE, check=True)
    assert back.stdout == sent


@pytest.mark.parametrize(
    ("source", "size", "lacks"),
    [
        ("tiny", {"ram_mb": 160}, {"machine_id", "host_keys"}),
        ("debian12", {"ram_mb": 512, "disk_gb": DISK_GB}, set()),
    ],
)
def test_eight_clones_are_eight_machines(
    warm: Home, source: str, size: dict[str, int], lacks: set[str]
) -> None:
    """On one network, where two that are alike would be in each other's way."""
    kind = {"source": source, "vcpus": 1, "nics": [{"vnet": "lan"}], **size}
    names = [f"clone-{i}" for i in range(CLONES)]
    machines = [{**kind, "name": name} for name in names]
    spec = {"vms": machines, "networks": {"vnets": [subnet("lan")]}}
    warm.ok("image", "build", source, timeout=1800)
    sandbox = warm.ok("up", warm.spec(spec), timeout=1800)
    seen: dict[str, list[str]] = {}
    for vm in vms(warm, sandbox):
        assert vm["start"] == "warm", vm
        until(
            lambda vm=vm: identity(warm, sandbox, vm["name"])["address"], "it has an address", 300
        )
        found = identity(warm, sandbox, vm["name"])
        assert found["hostname"] == vm["name"]
        assert abs(int(found.pop("clock")) - time.time()) < 30
        for item, value in found.items():
            seen.setdefault(item, []).append(value)
    for item, values in seen.items():
        if item in lacks:
            assert not any(values), (item, values)
        else:
            assert len(set(values)) == CLONES, (item, values)
            assert all(values), (item, values)

    if source == "debian12":
        log_in_by_ssh(warm, sandbox, names[0])
    if "disk_gb" in size:  # the file system has grown with the disk, which the image has smaller
        kilobytes = warm.ok("exec", "--vm", names[0], sandbox, "--", "df", "-k", "/").split()[-5]
        assert int(kilobytes) > (DISK_GB - 1) * 1024 * 1024

    # What one writes, to memory or to its disk, the others do not have.
    write = "echo mine >/tmp/mark; echo mine >~/m; sync"
    warm.ok("exec", "--vm", names[0], sandbox, "--", "sh", "-c", write)
    for name in names[1:]:
        done = warm.run("exec", "--vm", name, sandbox, "--", "sh", "-c", "cat /tmp/mark ~/m")
        assert done.returncode != 0
        assert "mine" not in done.stdout
    # They are there for each other, under their own addresses.
    peer = seen["address"][-1]
    warm.ok(
        "exec", "-u", "root", "--vm", names[0], sandbox, "--", "ping", "-c", "1", "-W", "30", peer
    )
    warm.ok("rm", sandbox)
    warm.assert_nothing_left()
    for template in templates(warm):  # the tests below have one
        if template["name"] != "tiny":
            warm.ok("image", "cool", template["key"])


def test_a_reboot_leads_back_into_the_same_machine(warm: Home) -> None:
    sandbox = warm.up(KIND)
    mac = warm.ok("exec", sandbox, "--", "cat", "/sys/class/net/eth0/address")
    warm.run("exec", "-u", "root", sandbox, "--", "reboot")
    deadline = time.monotonic() + 120
    script = "cut -d. -f1 /proc/uptime; cat /sys/class/net/eth0/address"
    while True:
        done = warm.run("exec", sandbox, "--", "sh", "-c", script)
        if done.returncode == 0 and done.stdout.endswith(mac + "\n"):
            break
        assert time.monotonic() < deadline, done
        time.sleep(0.5)
    warm.ok("rm", sandbox)


def test_obstacles_are_told(warm: Home) -> None:
    """test_driver.py has VMs that are started nevertheless."""
    off = {"vms": [{**KIND["vms"][0], "warm": False}]}
    assert "warm: false" in warm.fails("image", "warm", warm.spec(off))
    assert len(templates(warm)) == 1


def test_a_recorded_network_is_no_obstacle(warm: Home) -> None:
    record = warm.dir / "record.pcap"
    networks = {"vnets": [{"alias": "lan", "capture": str(record)}]}
    # Another kind than the other tests': its template is made by the sandbox that is recorded.
    before = [template["key"] for template in templates(warm)]
    spec = warm.spec({"vms": [{**KIND["vms"][0], "ram_mb": 168}], "networks": networks})
    assert warm.fails("up", "--timeout", "0.5", spec)
    assert not record.exists(), "nothing is left of one that was not made"
    sandbox = warm.ok("up", spec, timeout=900)
    assert vms(warm, sandbox)[0]["start"] == "warm"
    warm.ok("rm", sandbox)
    assert record.stat().st_size >= 24, "what was recorded stays"
    assert "is there already" in warm.fails("up", spec)
    assert record.exists()
    made = [template["key"] for template in templates(warm) if template["key"] not in before]
    warm.ok("image", "cool", *made)


def test_what_is_in_use_cannot_be_removed(warm: Home) -> None:
    sandbox = warm.up(KIND)
    (template,) = templates(warm)
    assert template["in_memory"]
    assert template["size"] > 10 << 20
    assert "VMs run from" in warm.fails("image", "cool", template["key"][:8])
    assert "no template" in warm.fails("image", "cool", "00000000")
    warm.ok("exec", sandbox, "--", "true")
    warm.ok("rm", sandbox)


def test_a_damaged_template_is_made_anew(warm: Home, data: Path) -> None:
    (before,) = templates(warm)
    warm.ok("serve", "--stop", "--force")  # what is in memory is not looked at again
    file = data / "templates" / before["key"] / "ram"
    with file.open("r+b") as f:
        f.seek(file.stat().st_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 0x40]))
    sandbox = warm.up(KIND)
    assert vms(warm, sandbox)[0]["start"] == "warm"
    assert warm.ok("exec", sandbox, "--", "echo", "fine") == "fine"
    warm.ok("rm", sandbox)
    (after,) = templates(warm)
    assert after["key"] == before["key"]
    assert after["created"] > before["created"]


def test_killing_the_maker_leaves_nothing(warm: Home, data: Path) -> None:
    kind = {"vms": [{**KIND["vms"][0], "ram_mb": 164}]}
    up = warm.start("up", warm.spec(kind))
    deadline = time.monotonic() + 120
    while not (list((data / "templates").glob("tmp-*")) and warm.qemu_pids()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    warm.kill_daemon()
    up.wait(timeout=60)
    deadline = time.monotonic() + 60
    while warm.qemu_pids():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    warm.ok("gc")
    warm.assert_nothing_left()
    assert not list((data / "templates").glob("tmp-*"))
    assert len(templates(warm)) == 1


def test_the_least_used_goes_first_and_images_take_theirs_along(warm: Home, data: Path) -> None:
    (first,) = templates(warm)
    warm.ok("serve", "--stop", "--force")
    config = warm.dir / "config.yaml"
    config.write_text(f"idle_exit: 0\ntemplates_max_mb: {(first['size'] >> 20) + 20}\n")
    second = {"vms": [{**KIND["vms"][0], "ram_mb": 168}]}
    warm.ok("image", "warm", warm.spec(second), timeout=900)
    (left,) = templates(warm)
    assert left["ram_mb"] == 168
    assert "freed" in warm.run("image", "rm", "tiny").stderr
    assert templates(warm) == []
    with sqlite3.connect(warm.dir / "state" / "journal.db") as db:
        assert db.execute("SELECT count(*) FROM thing").fetchone() == (0,)
