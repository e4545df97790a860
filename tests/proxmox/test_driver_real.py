"""Sandboxes on a test server with real VMs: networks and memory are what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from client import Client
from lives import TAG, WAIT_SECONDS, fill
from server import PveServer

from driver import PveHome, instance

SPEC: dict[str, Any] = {
    "driver": "proxmox",
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "subnets": [
                    {
                        "cidr": "10.20.0.0/24",
                        "gateway": "10.20.0.1",
                        "dhcp_ranges": [{"start": "10.20.0.100", "end": "10.20.0.200"}],
                    }
                ],
            },
            {"alias": "other", "subnets": [{"cidr": "10.21.0.0/24"}]},
        ]
    },
    "vms": [
        {"name": "attacker", "nics": [{"vnet": "lan"}], "depends_on": ["victim"]},
        {
            "name": "victim",
            "is_sandbox": False,
            "nics": [{"vnet": "lan", "mac": "52:54:00:20:00:02", "ipv4": "10.20.0.2"}],
        },
        {"name": "apart", "nics": []},
    ],
}
COMMON = {"source": {"existing_vm_template_tag": TAG}, "ram_mb": 192, "vcpus": 1}


class Lab:
    """A sandbox, and a client that reaches its VMs without moat."""

    def __init__(self, server: PveServer, home: PveHome) -> None:
        spec = {**SPEC, "vms": [{**COMMON, **vm} for vm in SPEC["vms"]]}
        self.home = home
        self.client = Client(server)
        self.sandbox = home.ok("up", home.spec(spec), timeout=2 * WAIT_SECONDS)
        self.ids = {
            entry["config"]["name"]: int(vmid)
            for vmid, entry in server.state()["vms"].items()
            if self.sandbox in entry["config"].get("tags", "")
        }

    def sh(self, vm: str, script: str) -> dict[str, Any]:
        return self.client.run(self.ids[vm], "sh", "-c", script)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with PveServer(vms="qemu", time_scale=0.1, task_time=0.05, rollback_hold=0.1) as server:
        fill(server)
        home = PveHome(instance(server))
        try:
            lab = Lab(server, home)
            yield lab
            home.ok("rm", lab.sandbox, timeout=WAIT_SECONDS)
            assert not [vmid for vmid in lab.ids.values() if str(vmid) in server.state()["vms"]]
        finally:
            home.close()


def until(condition: str) -> str:
    return f"for i in $(seq 600); do {condition} && break; sleep 0.1; done; "


def test_dhcp_gives_an_address_of_the_range(lab: Lab) -> None:
    has = "ip -4 addr | grep -q 'inet 10.20.0.1[0-9][0-9]/24'"
    routed = f"{has} && ip route | grep -q '^default'"  # the address comes first
    result = lab.sh("attacker", until(routed) + f"ip route; {has}")
    assert "default via 10.20.0.1" in result["out-data"]
    assert result["exitcode"] == 0


def test_a_fixed_address_is_the_one_that_a_card_has(lab: Lab) -> None:
    reach = "ping -c 1 -W 5 10.20.0.2 >/dev/null 2>&1"
    result = lab.sh("attacker", until(reach) + f"{reach} && cat /proc/net/arp")
    assert "52:54:00:20:00:02" in result["out-data"]


def test_no_cards_means_no_cards(lab: Lab) -> None:
    assert lab.sh("apart", "ls /sys/class/net")["out-data"].split() == ["lo"]


def test_a_snapshot_keeps_the_memory(lab: Lab) -> None:
    boot = lab.sh("attacker", "cat /proc/sys/kernel/random/boot_id")["out-data"]
    lab.sh("attacker", "echo before > /root/state")
    lab.home.ok("snapshot", lab.sandbox, "one", timeout=WAIT_SECONDS)
    lab.sh("attacker", "echo after > /root/state")
    lab.home.ok("restore", lab.sandbox, "one", timeout=WAIT_SECONDS)
    # Through moat: it waits for an agent that a busy machine keeps from answering.
    words = ["cat", "/root/state", "/proc/sys/kernel/random/boot_id"]
    result = lab.home.ok("exec", "--vm", "attacker", lab.sandbox, "--", *words)
    assert result == f"before\n{boot}".strip()


def test_a_vm_that_ended_lives_again_after_a_restore(lab: Lab) -> None:
    def attacker() -> dict[str, Any]:
        vms = json.loads(lab.home.ok("ls", lab.sandbox, "--json"))["sandboxes"][0]["vms"]
        return next(vm for vm in vms if vm["name"] == "attacker")

    true = ("exec", "--vm", "attacker", lab.sandbox, "--", "true")
    lab.home.ok("snapshot", lab.sandbox, "two", timeout=WAIT_SECONDS)
    lab.home.ok(*true)
    where = f"/nodes/{lab.client.server.node}/qemu/{lab.ids['attacker']}/status/stop"
    assert lab.client.task("POST", where) == "OK"
    assert "not running any more" in lab.home.fails(*true, timeout=WAIT_SECONDS)
    assert attacker()["state"] == "dead"
    lab.home.ok("restore", lab.sandbox, "two", timeout=WAIT_SECONDS)
    lab.home.ok(*true)
    assert attacker()["state"] == "running"
