"""Whoever takes over one process of moat gets at no other, and at no file of the host."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest
from home import TINY, Home
from walls import ALL, SHOWN, Taken, check_row, namespaces, probe, rows, status, user_of

from tools import until

pytestmark = pytest.mark.needs_root("it takes the place of other processes")


RANGES = [{"start": "10.9.0.100", "end": "10.9.0.110"}]
SUBNET = {"cidr": "10.9.0.0/24", "gateway": "10.9.0.1", "snat": True, "dhcp_ranges": RANGES}
VNET = {"alias": "lan", "egress": "open", "subnets": [SUBNET]}
EGRESS = {"networks": {"vnets": [VNET]}, **TINY}


@pytest.fixture(scope="module")
def two(images: None) -> Iterator[Home]:
    home = Home()
    home.first = home.up()  # type: ignore[attr-defined]
    home.second = home.up()  # type: ignore[attr-defined]
    home.third = home.up(EGRESS)  # type: ignore[attr-defined]
    yield home
    home.close()


def qemus(home: Home) -> tuple[int, int]:
    (first,), (second,) = home.qemu_pids(home.first), home.qemu_pids(home.second)
    return first, second


def test_no_qemu_gets_at_another(two: Home) -> None:
    first, second = qemus(two)
    # By its rights alone, as if it had left all namespaces.
    assert probe(user_of(first), [second])["done"] == []
    assert probe(user_of(second), [second])["done"] == ALL, "the probe works"


def test_qemu_sees_no_other_process(two: Home) -> None:
    first, second = qemus(two)
    # By its namespaces alone, with all rights of root.
    inside = probe(0, [second], inside=first)
    assert inside["done"] == []
    assert len(inside["processes"]) == 2, "QEMU and the probe"
    assert 1 in inside["processes"]


def test_qemu_sees_no_file_of_the_host(two: Home) -> None:
    first, _ = qemus(two)
    inside = probe(user_of(first), [], inside=first)
    assert set(inside["files"]) <= SHOWN
    assert inside["written"] == []
    outside = probe(user_of(first), [])
    assert "passwd" in outside["files"], "the probe works"


def test_each_qemu_has_its_own(two: Home) -> None:
    first, second = (namespaces(pid) for pid in qemus(two))
    mine = namespaces(os.getpid())
    for kind in ("mnt", "pid", "net", "ipc", "uts"):
        assert len({first[kind], second[kind], mine[kind]}) == 3, kind


def role(pid: int, line: str) -> str:
    """What the table of docs/security.md calls a process."""
    if " guard " in line:
        return "guard"
    if " net-holder " in line:
        return "holder" if status(pid)["NSpid"].endswith("\t1") else "outside"
    if " net-dns " in line:
        return "DNS"
    words = {"moat-daemon": "daemon", "qemu-system": "QEMU", "dnsmasq": "dnsmasq", "pasta": "pasta"}
    program = os.path.basename(line.split()[0])
    return next((name for word, name in words.items() if program.startswith(word)), "daemon")


def test_no_holder_has_rights_on_the_host(two: Home) -> None:
    by_role = {role(pid, line): pid for pid, line in two.processes().items()}
    (qemu, _), holder = qemus(two), by_role["holder"]
    # By its rights alone, as if it had left all namespaces.
    assert probe(user_of(holder), [qemu, two.daemon_pid()])["done"] == []
    inside = probe(0, [qemu], inside=holder)
    assert inside["done"] == []
    assert set(inside["files"]) <= SHOWN
    assert inside["written"] == []


def test_processes_are_as_the_table_says(two: Home) -> None:
    table = {row["process"]: row for row in rows("Which processes are there?")}
    users: dict[int, int] = {}
    found: dict[str, int] = {}
    for pid, line in two.processes().items():
        what = role(pid, line)
        found[what] = pid
        check_row(pid, line, table[what], table["holder"])
        if table[what]["user"] == "its own":
            assert users.setdefault(user_of(pid), pid) == pid, f"shared with {line}"
    # Of images that are made; a running sandbox has none of these.
    of_builds = {name for name in table if "`image build BASE`" in name}
    of_builds |= {"skopeo", "buildah, and `RUN` in a Dockerfile", "moat-disk, for container images"}
    assert set(found) == set(table) - {"qemu-img", "moat-ssh", "moat-web"} - of_builds
    assert probe(0, [], inside=found["holder"])["files"], "it can be looked into"
    # What dnsmasq may do it may do to no network: these belong to the holder's user namespace.
    assert namespaces(found["dnsmasq"])["user"] != namespaces(found["DNS"])["user"]


def test_qemu_img_is_as_the_table_says(two: Home) -> None:
    table = {row["process"]: row for row in rows("Which processes are there?")}
    disk = two.dir / "disk.raw"
    disk.write_bytes(b"\0" * 510 + b"\x55\xaa" + os.urandom(192 << 20))
    client = two.start("image", "import", "--name", "walls", str(disk))

    def stopped() -> list[tuple[int, str]]:
        """One that works on a disk, held there to be looked at."""
        for pid, line in two.processes().items():
            if line.startswith("qemu-img "):
                with contextlib.suppress(OSError):  # it has just ended
                    os.kill(pid, signal.SIGSTOP)
                    if status(pid)["State"].startswith("T"):
                        return [(pid, line)]
        assert client.poll() is None, "no qemu-img was seen"
        return []

    try:
        ((pid, line),) = until(stopped, "qemu-img works")
        check_row(pid, line, table["qemu-img"], table["holder"])
        inside = probe(user_of(pid), [], inside=pid)
        assert set(inside["files"]) <= SHOWN
        assert inside["written"] == []
        assert set(os.listdir(f"/proc/{pid}/root/dev")) == {"null", "urandom"}
        os.kill(pid, signal.SIGCONT)
        assert client.wait(120) == 0
    finally:
        client.kill()
        client.wait()
        two.run("image", "rm", "walls")
        disk.unlink()


def test_no_network_but_its_own(two: Home) -> None:
    """By vsock and the like a process would reach the host from any network namespace."""
    for pid, line in two.processes().items():
        what = role(pid, line)
        if what in ("daemon", "guard", "pasta"):  # pasta's own list ends it for that
            continue
        with Taken(pid) as taken:
            # vsock, the kernel's ciphers, TIPC; and another door to the kernel.
            for family in (40, 38, 30):
                assert taken.call("socket", family, 1, 0) == -1, line
            assert taken.call("io_uring_setup", 1, taken.put(bytes(256))) == -1, line
            assert (taken.call("socket", 2, 2, 0) >= 0) == (what != "DNS"), "the calls are made"


def test_a_stopped_parent_of_a_holder_holds_nobody_up(two: Home) -> None:
    (outside,) = (
        pid
        for pid, line in two.processes().items()
        if f"moat-{two.third}/net" in line and role(pid, line) == "outside"
    )
    os.kill(outside, signal.SIGSTOP)
    try:
        # The holder asks it for a resolver when the guest asks for a name.
        has_address = "until ip -4 -o addr show eth0 | grep -q inet; do sleep 0.2; done"
        script = f"{has_address}; nslookup moat.example 10.9.0.1; true"
        two.ok("exec", two.third, "--", "sh", "-c", script)
        assert "10.9.0.0/24" in two.ok("net", two.third)
    finally:
        os.kill(outside, signal.SIGCONT)
