"""Calls that fail because other clients use the server too: that passes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import SPEC, TEMPLATE, PveHome, add_template, instance, wait_for

SCALE = 0.1
WAIT_SECONDS = 120
# With a NIC in a network of the sandbox's own, which has DHCP.
SANDBOX: dict[str, Any] = {**SPEC, "vms": [{**SPEC["vms"][0], "nics": [{"vnet": "default"}]}]}
NO_BRIDGE = "start failed: QEMU exited with code 1"


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05, rollback_hold=0) as server:
        add_template(server)
        yield server


@pytest.fixture(autouse=True)
def quick(clean: PveServer) -> Iterator[None]:
    """Tasks that a test has made slow are quick again after it."""
    yield
    for kind in ("reloadnetworkall", "qmclone", "qmstart", "qmrollback"):
        clean.control("task_seconds", kind=kind, seconds=0.05)


def ended(server: PveServer, kind: str) -> list[str]:
    return [t.get("status", "") for t in server.control("tasks") if t["type"] == kind]


def wait_for_call(server: PveServer, ending: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(e["path"].endswith(ending) for e in server.log()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def meanwhile(server: PveServer, home: PveHome, call: str, *words: str) -> None:
    """Another client applies its networks while the server is busy with this call of ours."""
    server.control("clear_log")
    process = home.start(*words)
    wait_for_call(server, call)
    assert Client(server).call("PUT", "/cluster/sdn").status == 200
    assert process.wait(WAIT_SECONDS) == 0


# --- networks that are being applied ---


def test_a_vm_starts_once_networks_have_been_applied(home: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="qmstart", seconds=0.8)
    clean.control("task_seconds", kind="reloadnetworkall", seconds=2.0)
    meanwhile(clean, home, "/status/start", "up", home.spec(SANDBOX))
    assert NO_BRIDGE in ended(clean, "qmstart"), "that is what was overcome"
    home.ok("rm", "--all")


def test_a_vm_is_taken_back_once_networks_have_been_applied(
    home: PveHome, clean: PveServer
) -> None:
    sandbox = home.up(SANDBOX)
    home.ok("snapshot", sandbox, "here")
    clean.control("task_seconds", kind="qmrollback", seconds=0.8)
    clean.control("task_seconds", kind="reloadnetworkall", seconds=2.0)
    meanwhile(clean, home, "/rollback", "restore", sandbox, "here")
    assert NO_BRIDGE in ended(clean, "qmrollback"), "that is what was overcome"
    assert [vm for vm in clean.state()["vms"].values() if vm["running"]]
    home.ok("rm", sandbox)


def test_networks_of_others_that_are_being_applied_are_waited_for(
    home: PveHome, clean: PveServer
) -> None:
    """Every zone is pending while anybody's apply runs: ours is fine all the same."""
    clean.control("task_seconds", kind="reloadnetworkall", seconds=1.0)
    client = Client(clean)
    process = home.start("up", home.spec(SANDBOX))
    wait_for_call(clean, "/cluster/sdn")
    ours = len([e for e in clean.log() if e["path"] == "/cluster/sdn"])
    theirs = 12
    for _ in range(theirs):
        assert client.call("PUT", "/cluster/sdn").status == 200
        time.sleep(0.5)
    assert process.wait(WAIT_SECONDS) == 0
    assert len([e for e in clean.log() if e["path"] == "/cluster/sdn"]) == ours + theirs
    clean.control("task_seconds", kind="reloadnetworkall", seconds=0.05)
    home.ok("rm", "--all")


def test_a_vm_that_cannot_start_is_given_up(home: PveHome, clean: PveServer) -> None:
    clean.control("fail_task", kind="qmstart", status=NO_BRIDGE, times=100)
    assert NO_BRIDGE in home.fails("up", home.spec(SANDBOX), timeout=WAIT_SECONDS)
    home.assert_nothing_left()


HOST_CPU = "kvm: CPU model 'host' requires KVM or HVF"


def test_a_setting_that_qemu_refuses_is_tried_once_and_named(
    home: PveHome, clean: PveServer
) -> None:
    before = ended(clean, "qmstart").count(NO_BRIDGE)
    log = ["net0 is on vmbr0", "\x1b[1mgenerating\x1b[0m", "", HOST_CPU]
    clean.control("fail_task", kind="qmstart", status=NO_BRIDGE, times=100, log=log)
    said = home.fails("up", home.spec(SANDBOX), timeout=WAIT_SECONDS)
    assert f"{NO_BRIDGE} (its log: " in said
    assert f"; {HOST_CPU})" in said
    assert "\x1b" not in said
    assert ended(clean, "qmstart").count(NO_BRIDGE) == before + 1
    home.assert_nothing_left()


def test_the_end_of_a_long_log_is_shown(home: PveHome, clean: PveServer) -> None:
    log = [f"transferred {i} MiB" for i in range(1200)] + ["no space left"]
    clean.control("fail_task", kind="qmclone", status="clone failed", log=log)
    said = home.fails("up", home.spec(SANDBOX), timeout=WAIT_SECONDS)
    assert "clone failed (its log: transferred 1198 MiB; transferred 1199 MiB; no space" in said
    home.assert_nothing_left()


def test_a_vm_that_cannot_be_removed_is_left_to_the_cleaner(
    home: PveHome, clean: PveServer
) -> None:
    """What is no lock and no timeout does not pass by itself."""
    sandbox = home.up(SANDBOX)
    clean.control("fail_task", kind="qmdestroy", status="disk is broken", times=5)
    assert "disk is broken" in home.fails("rm", sandbox, timeout=60)
    home.ok("pool", "clean")
    home.assert_nothing_left(WAIT_SECONDS)


def test_a_task_that_takes_long_is_named(home: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="qmclone", seconds=6)
    done = home.run("up", home.spec(SANDBOX), timeout=WAIT_SECONDS)
    assert "waiting for task qmclone of node pve" in done.stderr
    home.ok("rm", done.stdout.strip())


# --- locks of the server that others hold ---

STORAGE = "can't lock file '/var/lock/pve-manager/pve-storage-local-lvm' - got timeout"
CLUSTER = "cfs-lock 'file-sdn_zones_cfg' error: got lock request timeout"
SLOW = "command '/sbin/lvs --separator : --noheadings' failed: got timeout"


@pytest.mark.parametrize("text", [STORAGE, CLUSTER, SLOW])
@pytest.mark.parametrize("kind", ["qmclone", "resize"])
def test_tasks_wait_for_a_storage(home: PveHome, clean: PveServer, kind: str, text: str) -> None:
    clean.control("fail_task", kind=kind, status=f"{kind} failed: {text}", times=3)
    sandbox = home.up({**SANDBOX, "vms": [{**SANDBOX["vms"][0], "disk_gb": 8}]})
    assert len([status for status in ended(clean, kind) if text in status]) >= 3
    home.ok("rm", sandbox)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/cluster/sdn/(zones|vnets)$"),
        ("POST", "/subnets$"),
        ("PUT", "/cluster/sdn$"),
        ("POST", "/clone$"),
        ("PUT", "/qemu/[0-9]+/config$"),
    ],
)
def test_calls_wait_for_the_cluster(
    home: PveHome, clean: PveServer, method: str, path: str
) -> None:
    rule = clean.fault(method=method, path=path, message=CLUSTER, times=7)
    sandbox = home.up(SANDBOX)
    assert clean.struck(rule) == 7
    home.ok("rm", sandbox)


def test_a_snapshot_waits_for_a_storage(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(SANDBOX)
    clean.control("fail_task", kind="qmsnapshot", status=STORAGE, times=3)
    home.ok("snapshot", sandbox, "here")
    assert ended(clean, "qmsnapshot").count(STORAGE) == 3, "that is what was overcome"
    home.ok("rm", sandbox)


def test_a_cluster_without_quorum_is_not_waited_for(home: PveHome, clean: PveServer) -> None:
    text = "cfs-lock 'file-sdn_zones_cfg' error: no quorum!"
    rule = clean.fault(method="POST", path="/cluster/sdn/zones$", message=text, times=-1)
    assert "no quorum!" in home.fails("up", home.spec(SANDBOX))
    assert clean.struck(rule) == 1
    clean.clear_faults()
    home.assert_nothing_left()


@pytest.mark.parametrize("times", [1, 3])
def test_disks_that_outlive_their_vm_are_removed(
    home: PveHome, clean: PveServer, times: int
) -> None:
    """The server ends such a removal with a warning: the VM is gone, and its number is free."""
    sandbox = home.up(SANDBOX)
    clean.control("storage", node=clean.node, storage="local-lvm", locked=times)
    home.ok("rm", sandbox, timeout=WAIT_SECONDS)
    assert [status for status in ended(clean, "qmdestroy") if status.startswith("WARNINGS")]
    home.assert_nothing_left()


# --- addresses of cards ---


def test_a_card_waits_for_the_one_with_the_same_address(home: PveHome, clean: PveServer) -> None:
    """The server knows one IP address for a MAC, in whatever network its NIC is."""
    nic = {"vnet": "default", "mac": "52:54:00:aa:bb:05"}
    same = {**SANDBOX, "vms": [{**SANDBOX["vms"][0], "nics": [nic]}]}
    first = home.up(same)
    process = home.start("up", home.spec(same))
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        assert process.poll() is None
        cards = [v for v in clean.state()["vms"].values() if "AA:BB:05" in str(v["config"])]
        assert len(cards) == 1
        time.sleep(0.1)
    home.ok("rm", first)
    assert process.wait(WAIT_SECONDS) == 0
    home.ok("rm", "--all")


def test_sandboxes_that_want_the_same_come_one_after_the_other(
    home: PveHome, clean: PveServer
) -> None:
    """Also when all of them ask at the same time."""
    subnet = {"cidr": "10.96.0.0/24", "gateway": "10.96.0.1"}
    networks = {"vnets": [{"alias": "default", "subnets": [subnet]}]}
    nic = {"vnet": "default", "mac": "52:54:00:aa:bb:06"}
    same = {**SANDBOX, "networks": networks, "vms": [{**SANDBOX["vms"][0], "nics": [nic]}]}

    def live() -> None:
        home.ok("rm", home.up(same))

    def creating() -> int:
        listed = json.loads(home.ok("ls", "--json"))["sandboxes"]
        return len([one for one in listed if one["state"] == "creating"])

    clean.control("clear_log")
    clean.control("hold", vmid=TEMPLATE)  # the first one is being made until all have asked
    with ThreadPoolExecutor(4) as pool:
        lives = [pool.submit(live) for _ in range(4)]
        try:
            wait_for_call(clean, "/clone")
            wait_for(lambda: creating() == 4)
            clones = [e["params"]["newid"] for e in clean.log() if e["path"].endswith("/clone")]
        finally:
            clean.control("hold", vmid=TEMPLATE, held=False)
        for done in lives:
            done.result()
    assert len(set(clones)) == 1


def test_a_network_that_is_still_to_be_removed_is_waited_for(clean: PveServer) -> None:
    """A daemon was killed, and the next one is told to make the same again at once."""
    subnet = {"cidr": "10.95.0.0/24", "gateway": "10.95.0.1"}
    same = {**SANDBOX, "networks": {"vnets": [{"alias": "default", "subnets": [subnet]}]}}
    other = PveHome(instance(clean))
    try:
        other.up(same)
        other.kill_daemon()
        rule = clean.fault(path="/status/stop$", action="latency", seconds=2)
        process = other.start("up", other.spec(same))
        while process.poll() is None:
            assert len(clean.state()["subnets"]) <= 1
            time.sleep(0.02)
        assert process.returncode == 0
        assert clean.struck(rule) == 1
        other.ok("rm", "--all")
    finally:
        other.close()
