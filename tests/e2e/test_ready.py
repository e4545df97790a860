"""When VMs that others wait for count as ready, seen from outside."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from home import COLD, TINY, Home, kill

pytestmark = pytest.mark.needs_root("it makes networks")

LAN = {
    "vnets": [
        {
            "alias": "lan",
            "subnets": [
                {
                    "cidr": "10.20.0.0/24",
                    "dhcp_ranges": [{"start": "10.20.0.100", "end": "10.20.0.200"}],
                }
            ],
        }
    ]
}
NAMED = {"vnet": "lan", "mac": "52:54:00:20:00:02", "ipv4": "10.20.0.2"}


def pair(nics: list[dict[str, Any]], **victim: Any) -> dict[str, Any]:
    """An attacker that starts quickly, and a victim that boots, which it waits for."""
    return {
        "networks": LAN,
        "vms": [
            {**TINY["vms"][0], "name": "attacker", "depends_on": ["victim"]},
            {**COLD["vms"][0], "name": "victim", "is_sandbox": False, "nics": nics, **victim},
        ],
    }


@pytest.mark.parametrize("nic", [{"vnet": "lan"}, NAMED], ids=["lease", "address"])
def test_a_victim_answers_before_its_attacker_starts(home: Home, nic: dict[str, Any]) -> None:
    done = home.run("up", home.spec(pair([nic])))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "starting" in line or "answer" in line]
    assert said[:3] == [
        "starting victim",
        "waiting for victim to answer on its network",
        "starting attacker",
    ]
    sandbox = done.stdout.strip()
    nics = json.loads(home.ok("net", "--json", sandbox))["nics"]
    (lease,) = (one["lease"] for one in nics if one["vm"] == "victim")
    assert lease
    ping = ("ping", "-c1", "-W1", lease)
    assert "1 packets received" in home.ok("exec", "-u", "root", sandbox, *ping)


def test_a_silent_victim_keeps_nobody_waiting_for_ever(home: Home, template: None) -> None:
    (home.dir / "config.yaml").write_text("idle_exit: 0\nboot_timeout: 8\n")
    # Without a processor that runs, nothing answers.
    done = home.run("up", home.spec(pair([NAMED], native={"args": ["-S"]})))
    assert done.returncode == 0, done.stderr
    assert "victim does not answer on its network: going on without" in done.stderr


def test_a_victim_that_ends_is_an_error(home: Home) -> None:
    spec = home.spec(pair([NAMED], native={"args": ["-S"]}))
    client = home.start("up", spec, stderr=subprocess.PIPE)
    try:
        while (
            line := client.stderr.readline()
        ) != b"waiting for victim to answer on its network\n":
            assert line, "it waits"
        (pid,) = home.qemu_pids()
        kill(pid)
        assert b"VM victim" in client.stderr.read()
        assert client.wait(60) == 4
    finally:
        client.kill()
    home.assert_nothing_left()


def test_nobody_waits_for_what_nobody_can_see(home: Home) -> None:
    done = home.run("up", home.spec(pair([], native={"args": ["-S"]})))
    assert done.returncode == 0, done.stderr
    assert "answer on its network" not in done.stderr


SERVE_LATER = "(sleep 3; exec httpd -p 8080 -h /etc) >/dev/null 2>&1 &"


def test_up_waits_for_a_port(home: Home) -> None:
    check = {"test": ["sh", "-c", SERVE_LATER]}
    box = home.up({"vms": [{**TINY["vms"][0], "healthcheck": check, "ready_port": 8080}]})
    url = "http://127.0.0.1:8080/hostname"
    assert home.ok("exec", box, "wget", "-q", "-O-", url) == "default"


def test_a_port_that_nobody_opens(home: Home, template: None) -> None:
    (home.dir / "config.yaml").write_text("idle_exit: 0\nboot_timeout: 5\n")
    said = home.fails("up", home.spec({"vms": [{**TINY["vms"][0], "ready_port": 8080}]}))
    assert "VM default takes no connections at port 8080" in said
    home.assert_nothing_left()


def test_a_port_where_moat_gives_no_address(home: Home) -> None:
    spec = {"networks": "none", "vms": [{**TINY["vms"][0], "ready_port": 8080}]}
    said = home.fails("up", "--check", home.spec(spec))
    assert "vms[0].ready_port: no NIC of the VM gets an address from moat" in said
