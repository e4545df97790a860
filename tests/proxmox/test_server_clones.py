"""What a clone has of its original, and who may make one when, as the genuine server does it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from client import Client

QEMU = "/nodes/pve/qemu"
ORIGINAL = 700
NEW = 701


@pytest.fixture
def original(client: Client) -> Iterator[str]:
    """A template with protection and a rule."""
    config = {"name": "original", "protection": 1, "scsi0": "local-lvm:base-700-disk-0,size=1G"}
    client.server.control("add_vm", vmid=ORIGINAL, template=True, config=config)
    base = f"{QEMU}/{ORIGINAL}"
    rule = {"type": "out", "action": "DROP", "enable": 1}
    assert client.call("POST", f"{base}/firewall/rules", rule).status == 200
    yield base
    client.server.clear()
    client.server.control("task_seconds", kind="qmclone", seconds=0.05)
    for vmid in (NEW, ORIGINAL):
        if str(vmid) in client.server.state()["vms"]:
            client.call("PUT", f"{QEMU}/{vmid}/config", {"protection": 0})
            assert client.task("DELETE", f"{QEMU}/{vmid}") == "OK"


def test_a_clone_is_protected_like_its_original(client: Client, original: str) -> None:
    assert client.task("POST", f"{original}/clone", {"newid": NEW, "full": 0}) == "OK"
    reply = client.call("DELETE", f"{QEMU}/{NEW}")
    assert (reply.status, reply.reason) == (
        500,
        f"can't remove VM {NEW} - protection mode enabled",
    )
    assert client.call("PUT", f"{QEMU}/{NEW}/config", {"protection": 0}).status == 200
    assert client.task("DELETE", f"{QEMU}/{NEW}") == "OK"


def test_a_clone_has_the_rules_of_its_original_below_new_ones(
    client: Client, original: str
) -> None:
    assert client.task("POST", f"{original}/clone", {"newid": NEW, "full": 0}) == "OK"
    rules = f"{QEMU}/{NEW}/firewall/rules"
    for dest in ("192.0.2.1", "192.0.2.2"):
        # The position is taken and ignored.
        given = {"type": "out", "action": "ACCEPT", "enable": 1, "dest": dest, "pos": 1}
        assert client.call("POST", rules, given).status == 200
    assert [rule.get("dest") for rule in client.get(rules)] == ["192.0.2.2", "192.0.2.1", None]
    assert len(client.get(f"{original}/firewall/rules")) == 1


def test_a_clone_holds_the_lock_of_its_number(client: Client, original: str) -> None:
    client.server.control("task_seconds", kind="qmclone", seconds=10)
    given = {"newid": NEW, "full": 0}
    # Both are asked for before either has begun.
    upids = [client.call("POST", f"{original}/clone", given).data for _ in range(2)]
    ends: list[str] = []
    while not ends:
        time.sleep(0.02)
        tasks = [t for t in client.server.control("tasks") if t["upid"] in upids]
        ends = [t["status"] for t in tasks if "endtime" in t]
    assert ends == [f"can't lock file '/var/lock/qemu-server/lock-{NEW}.conf' - got timeout"]
    for upid in upids:
        client.call("DELETE", f"/nodes/pve/tasks/{quote(upid, safe='')}")
        client.wait(upid)
    assert str(NEW) not in client.server.state()["vms"]


def test_a_clone_waits_for_its_original_only_so_long(client: Client, original: str) -> None:
    client.server.control("hold", vmid=ORIGINAL)
    end = client.task("POST", f"{original}/clone", {"newid": NEW, "full": 0})
    client.server.control("hold", vmid=ORIGINAL, held=False)
    assert end == f"can't lock file '/var/lock/qemu-server/lock-{ORIGINAL}.conf' - got timeout"
