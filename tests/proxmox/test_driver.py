"""The Proxmox driver against the test server, without real VMs: what users and servers see."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import (
    SPEC,
    TEMPLATE,
    PveHome,
    add_decoys,
    add_template,
    instance,
    unpack_ovas,
    wait_for,
)

SCALE = 0.1


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05) as server:
        add_template(server)
        add_decoys(server)
        unpack_ovas(server)
        yield server


def spec(**more: Any) -> dict[str, Any]:
    return {**SPEC, **more}


def vm(name: str, **more: Any) -> dict[str, Any]:
    return {**SPEC["vms"][0], "name": name, **more}


NIC = {"vnet": "default"}
NETTED = spec(vms=[vm("default", nics=[NIC])])


def vms_of(server: PveServer, sandbox: str) -> dict[str, dict[str, Any]]:
    return {
        entry["config"]["name"]: entry
        for entry in server.state()["vms"].values()
        if sandbox in entry["config"].get("tags", "")
    }


def checks_of(home: PveHome) -> dict[str, dict[str, str]]:
    return {
        c["name"]: c for c in json.loads(home.run("doctor", "proxmox", "--json").stdout)["checks"]
    }


def test_doctor_sees_a_good_server(home: PveHome, clean: PveServer) -> None:
    client = Client(clean)
    options, rules = "/cluster/firewall/options", "/cluster/firewall/rules"
    assert client.call("PUT", options, {"enable": 1}).status == 200
    for port in (53, 67):
        rule = {"type": "in", "action": "ACCEPT", "enable": 1, "proto": "udp", "dport": str(port)}
        assert client.call("POST", rules, rule).status == 200
    checks = json.loads(home.ok("doctor", "proxmox", "--json"))["checks"]
    for _ in range(2):
        assert client.call("DELETE", f"{rules}/0").status == 200
    told = checks_of(home)["firewall"]
    assert told["state"] == "warn"
    assert "refuses DHCP (udp 67)" in told["detail"]
    assert client.call("PUT", options, {"enable": 0}).status == 200
    assert "is off" in checks_of(home)["firewall"]["detail"]
    assert {c["name"] for c in checks} >= {
        "login",
        "version",
        "privileges",
        "node",
        "storage",
    }
    assert all(c["state"] == "ok" for c in checks), checks


def test_doctor_names_what_is_wrong(clean: PveServer) -> None:
    clean.control(
        "user",
        user="weak@pve",
        password="weak",
        grants={"/": ["VM.Audit", "Sys.Audit"]},
    )
    served = clean.fingerprint.replace(":", "").lower()
    weak = instance(clean, user="weak", user_realm="pve", password="weak", image_storage="nowhere")
    for case, name, text in (
        (instance(clean, node="other"), "node", "there are: pve"),
        (instance(clean, password="wrong"), "login", "authentication"),
        (instance(clean, fingerprint="00" * 32), "login", "fingerprint"),
        (instance(clean, fingerprint=None), "login", "certificate"),
        (weak, "privileges", "VM.Allocate"),
        # The last of the list: none is cut off.
        (weak, "privileges", "SDN.Use"),
        (weak, "storage", "Datastore.Audit on /storage/nowhere is missing"),
        # The one that is served, whole.
        (instance(clean, fingerprint="00" * 32), "login", served),
    ):
        other = PveHome(case)
        try:
            done = other.run("doctor", "proxmox", "--json")
            assert done.returncode == 1, done.stdout
            bad = [c for c in json.loads(done.stdout)["checks"] if c["state"] == "missing"]
            assert any(c["name"] == name and text in c["detail"] and c["fix"] for c in bad), bad
        finally:
            other.close()


def test_doctor_counts_memory_as_the_pool_does(home: PveHome, clean: PveServer) -> None:
    """What a running VM was promised and has not touched is not free."""
    sandbox = home.up(spec(vms=[vm("a", ram_mb=2048)]))
    (left,) = re.findall(r", (\d+) MB left", checks_of(home)["node"]["detail"])
    waiting = home.start("up", home.spec(spec(vms=[vm("b", ram_mb=63000)])), stderr=PIPE)
    assert waiting.stderr is not None
    assert f"one has {left} MB left of the 63000 needed" in waiting.stderr.readline().decode()
    waiting.terminate()
    waiting.wait()
    home.ok("rm", sandbox)


def test_doctor_knows_a_node_that_does_not_report(home: PveHome, clean: PveServer) -> None:
    clean.control("node", node="pve", reports=False)
    told = checks_of(home)["node"]
    clean.control("node", node="pve", reports=True)
    assert told["state"] == "missing"
    assert "does not report" in told["detail"]
    assert "restart pvestatd" in told["fix"]


def test_doctor_cuts_nothing_off_in_a_terminal(clean: PveServer) -> None:
    home = PveHome(instance(clean, fingerprint="00" * 32))
    try:
        terminal, other_end = pty.openpty()
        doctor = home.start("doctor", "proxmox", stdout=other_end)
        os.close(other_end)
        shown = ""
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while piece := os.read(terminal, 4096):
                shown += piece.decode()
        os.close(terminal)
        assert doctor.wait() == 1
        assert clean.fingerprint.replace(":", "").lower() in shown
    finally:
        home.close()


@pytest.mark.parametrize("tags", [[], ["evals", "of_kim"]])
def test_an_instance_chooses_the_tags(clean: PveServer, tags: list[str]) -> None:
    """The older plugin's cleanup deletes all VMs with the tag that ours have otherwise."""
    other = PveHome(instance(clean, tags=tags))
    try:
        sandbox = other.up(spec(vms=[vm("web")]))
        found = set(vms_of(clean, sandbox)["web"]["config"]["tags"].split(";"))
        assert "inspect" not in found
        assert found >= set(tags)
        other.ok("rm", sandbox)
        other.use(instance(clean, tags=["Not A Tag"]))
        assert "tags[0]" in other.fails("up", other.spec(spec(vms=[vm("web")])))
    finally:
        other.close()


def test_a_vm_is_what_the_spec_says(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(
        spec(
            vms=[
                vm(
                    "web",
                    ram_mb=768,
                    vcpus=3,
                    disk_gb=10,
                    nics=[{"vnet": "lan", "mac": "52:54:00:aa:bb:cc", "ipv4": "10.7.0.77"}],
                    native={"balloon": 0},
                    cloud_init={"user_data": "#cloud-config\n"},
                ),
                vm("db", nics=[{"vnet": "lan"}], is_sandbox=False),
            ],
            networks={
                "vnets": [
                    {
                        "alias": "lan",
                        "subnets": [
                            {
                                "cidr": "10.7.0.0/24",
                                "gateway": "10.7.0.1",
                                "snat": True,
                                "dhcp_ranges": [{"start": "10.7.0.50", "end": "10.7.0.99"}],
                            }
                        ],
                    }
                ]
            },
        )
    )
    state = clean.state()
    made = vms_of(clean, sandbox)
    web, db = made["web"]["config"], made["db"]["config"]
    assert (str(web["memory"]), int(web["cores"]), int(web["balloon"])) == ("768", 3, 0)
    assert set(web["tags"].split(";")) >= {"inspect", "base"}
    assert sandbox in web["tags"]
    assert "size=10G" in web["scsi0"]
    assert web["serial1"] == "socket"
    assert made["web"]["running"]
    assert made["db"]["running"]
    assert db["agent"].startswith("enabled=0")
    vnet = next(name for name, v in state["vnets"].items() if sandbox in v["alias"])
    assert f"bridge={vnet}" in web["net0"]
    assert "52:54:00:AA:BB:CC" in web["net0"]
    assert any("10.7.0.77" in json.dumps(entry) for entry in state["ipam"].values()) or (
        "10.7.0.77" in json.dumps(state["ipam"])
    )
    seed = next(v for v in state["volumes"] if sandbox in v)
    assert seed in web["ide2"]
    shown = json.loads(home.ok("ls", "--json", sandbox))["sandboxes"][0]["vms"][0]
    assert shown["console"].startswith(f"https://{clean.host}:{clean.port}/?console=kvm")
    home.ok("rm", sandbox)
    home.assert_nothing_left()


def test_auto_networks_do_not_overlap(home: PveHome, clean: PveServer) -> None:
    sandboxes = [home.up(NETTED) for _ in range(3)]
    subnets = {s.get("cidr", name) for name, s in clean.state()["subnets"].items()}
    assert len(subnets) == 4
    home.ok("rm", *sandboxes)


def test_networks_that_nobody_is_in_are_not_made(home: PveHome, clean: PveServer) -> None:
    """A VM without NICs in the spec has those of its template."""
    subnet = {"cidr": "10.97.0.0/24", "gateway": "10.97.0.1"}
    given = {"vnets": [{"alias": "x", "subnets": [subnet]}]}
    applies = clean.control("figures")["applies"]
    zones = clean.state()["zones"]
    sandboxes = [home.up(SPEC), home.up(spec(networks=given)), home.up(spec(networks=given))]
    assert clean.state()["zones"] == zones
    assert clean.control("figures")["applies"] == applies
    home.ok("rm", *sandboxes)


def zones_of(server: PveServer) -> set[str]:
    """Those that the node has ever had: it keeps a directory for each."""
    return set(server.state()["dnsmasq"][server.node])


def test_names_of_zones_are_used_again(home: PveHome, clean: PveServer) -> None:
    home.ok("rm", home.up(NETTED))
    before = zones_of(clean)
    for _ in range(3):
        home.ok("rm", home.up(NETTED))
    assert zones_of(clean) == before
    together = [home.up(NETTED) for _ in range(3)]
    home.ok("rm", *together)
    home.ok("rm", home.up(NETTED))
    assert len(zones_of(clean) - before) <= 2
    assert len({zone[:6] for zone in zones_of(clean) if zone.startswith("moat")}) == 1


def test_names_of_zones_are_never_those_of_others(clean: PveServer) -> None:
    """Another installation may choose from the same names."""
    home = PveHome(instance(clean))
    try:
        before = set(clean.state()["zones"])
        sandbox = home.up(NETTED)
        (first,) = set(clean.state()["zones"]) - before
        home.ok("rm", sandbox)
        clean.control("add_zone", zone=first, vnets={f"m{first[4:]}00": {"alias": "theirs"}})
        # And one that another makes after we have looked.
        taken = f"create sdn zone object failed: sdn zone object ID '{first}' already defined"
        clean.fault(method="POST", path="/sdn/zones$", message=taken)
        theirs = clean.state()["zones"][first]
        sandbox = home.up(NETTED)
        assert len(set(clean.state()["zones"]) - before) == 2
        home.ok("rm", sandbox)
        assert clean.state()["zones"][first] == theirs
        client = Client(clean)
        assert client.call("DELETE", f"/cluster/sdn/vnets/m{first[4:]}00").status == 200
        assert client.call("DELETE", f"/cluster/sdn/zones/{first}").status == 200
        assert client.task("PUT", "/cluster/sdn") == "OK"
    finally:
        home.close()


def test_concurrent_sandboxes_share_an_apply(home: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="reloadnetworkall", seconds=5.0)
    applies = clean.control("figures")["applies"]
    sandboxes: list[str] = []
    threads = [threading.Thread(target=lambda: sandboxes.append(home.up(NETTED))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sandboxes) == 6
    assert clean.control("figures")["applies"] - applies <= 4
    ids = [
        v for v in clean.state()["vms"].values() if any(b in v["config"]["tags"] for b in sandboxes)
    ]
    assert len(ids) == 6
    clean.control("task_seconds", kind="reloadnetworkall", seconds=0.05)
    home.ok("rm", *sandboxes)


def test_a_node_that_did_not_reload_is_noticed(home: PveHome, clean: PveServer) -> None:
    """The next apply comes at once, and the node's own words are shown."""
    reason = "command 'ifreload -a' failed: exit code 1 (its log: error: "
    clean.control("reload_fails", node="pve", times=1)
    done = home.run("up", home.spec(NETTED), timeout=50)
    assert done.returncode == 0
    assert f"applying networks again: {reason}" in done.stderr
    home.ok("rm", done.stdout.strip())
    clean.control("reload_fails", node="pve", times=20)
    said = home.fails("up", home.spec(NETTED), timeout=50)
    assert "did not take over" in said.splitlines()[-1]
    assert reason in said.splitlines()[-1]
    clean.control("reload_fails", node="pve", times=0)
    home.ok("gc")
    home.assert_nothing_left()


def test_start_order_and_dependencies(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(spec(vms=[vm("a", depends_on=["b"]), vm("b"), vm("c", depends_on=["a"])]))
    ids = {name: v["config"] for name, v in vms_of(clean, sandbox).items()}
    starts = [
        entry["path"].split("/")[4]
        for entry in clean.log()
        if entry["path"].endswith("/status/start")
    ]
    numbers = {
        number: v["config"]["name"]
        for number, v in clean.state()["vms"].items()
        if number in starts
    }
    assert [numbers[s] for s in starts] == ["b", "a", "c"]
    assert len(ids) == 3
    home.ok("rm", sandbox)


def test_ids_that_others_take_are_tried_again(home: PveHome, clean: PveServer) -> None:
    taken = "unable to create VM 100: config file already exists"
    rule = clean.fault(path="/clone$", method="POST", status=500, message=taken)
    clean.control("fail_task", kind="qmclone", status=taken)
    home.ok("rm", home.up(SPEC))
    assert clean.struck(rule) == 1
    ended = [t.get("status") for t in clean.control("tasks") if t["type"] == "qmclone"]
    assert f"clone failed: {taken}" in ended, "that is what was overcome"


def test_an_id_that_somebody_else_is_cloning_to_is_left_to_them(
    home: PveHome, clean: PveServer
) -> None:
    """Who clones holds the lock of the new number: we are told so by a task that fails."""
    clean.control("hold", vmid=100)
    try:
        sandbox = home.up(SPEC)
        clones = [e["params"]["newid"] for e in clean.log() if e["path"].endswith("/clone")]
        assert [int(newid) == 100 for newid in clones] == [True] + [False] * (len(clones) - 1)
        home.ok("rm", sandbox)
    finally:
        clean.control("hold", vmid=100, held=False)
    assert "100" not in clean.state()["vms"]


def test_a_template_that_is_being_changed_is_waited_for(home: PveHome, clean: PveServer) -> None:
    clean.control("hold", vmid=TEMPLATE)
    held = True
    try:
        process = home.start("up", home.spec(SPEC))
        while process.poll() is None:
            ended = [t.get("status") for t in clean.control("tasks") if t["type"] == "qmclone"]
            if held and any(f"lock-{TEMPLATE}.conf" in status for status in ended if status):
                clean.control("hold", vmid=TEMPLATE, held=False)
                held = False
            time.sleep(0.02)
    finally:
        clean.control("hold", vmid=TEMPLATE, held=False)
    assert process.returncode == 0
    assert not held
    clones = [e["params"]["newid"] for e in clean.log() if e["path"].endswith("/clone")]
    assert len(clones) > 1
    assert len(set(clones)) == 1
    home.ok("rm", "--all")


def test_secrets_stay_secret(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(SPEC)
    logins = home.dir / "state" / "proxmox-logins.json"
    assert logins.stat().st_mode & 0o777 == 0o600
    others = [
        p
        for p in home.dir.rglob("*")
        if p.is_file() and p.name not in ("servers.json", logins.name)
    ]
    assert others
    for path in others:
        assert clean.password.encode() not in path.read_bytes(), path
    assert clean.password not in home.ok("ls", "--json") + home.ok("pool", "ls", "--json")
    for pid in home.processes():
        assert clean.password not in Path(f"/proc/{pid}/cmdline").read_text()
    home.ok("rm", sandbox)
    assert not logins.exists()


def test_a_killed_daemon_leaves_nothing(clean: PveServer) -> None:
    other = PveHome(instance(clean))
    try:
        other.up(SPEC)
        other.kill_daemon()
        other.ok("gc")
        other.assert_nothing_left(60)
    finally:
        other.close()


def test_an_unreachable_server_does_not_hold_the_daemon(clean: PveServer) -> None:
    other = PveHome(instance(clean))
    try:
        other.up(SPEC)
        other.kill_daemon()
        rule = clean.fault(path=".*", action="drop", times=-1)
        other.ok("ls", timeout=60)
        # The new daemon tries to remove what is left.
        wait_for(lambda: clean.struck(rule))
        clean.clear()
        other.ok("pool", "clean")
        other.assert_nothing_left(90)
    finally:
        other.close()


def test_interrupted_while_being_made(home: PveHome, clean: PveServer) -> None:
    clean.control("task_seconds", kind="qmclone", seconds=3.0)
    process = home.start("up", home.spec(SPEC))
    while not any(entry["path"].endswith("/clone") for entry in clean.log()):
        time.sleep(0.02)
    process.terminate()
    assert process.wait() == 130, "it was interrupted"
    home.assert_nothing_left(120)
    clean.control("task_seconds", kind="qmclone", seconds=0.05)


def test_snapshots_go_back(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(SPEC)
    home.ok("snapshot", sandbox, "clean state")
    made = next(iter(vms_of(clean, sandbox).values()))
    assert any(name.startswith("moat_") for name in made["snapshots"])
    home.ok("restore", sandbox, "clean state")
    assert "no snapshot" in home.fails("restore", sandbox, "other")
    home.ok("rm", sandbox)


def test_snapshots_soon_after_each_other(home: PveHome, clean: PveServer) -> None:
    """A rollback leaves the VM's file locked for longer than the next call waits for it."""
    sandbox = home.up(SPEC)
    home.ok("snapshot", sandbox, "again")
    clean.control("rollback_hold", seconds=25)
    try:
        for verb in ("restore", "restore", "snapshot"):
            home.ok(verb, sandbox, "again")
    finally:
        clean.control("rollback_hold", seconds=2)
    ended = [
        t["status"] for t in clean.control("tasks") if t["type"] in ("qmrollback", "qmdelsnapshot")
    ]
    assert any("can't lock file" in status for status in ended), "that is what was overcome"
    home.ok("rm", sandbox)


def test_existing_networks_by_alias(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(
        spec(
            vms=[vm("a", nics=[{"vnet": "default moat-00000000-0123456789"}])],
            networks=None,
        )
    )
    assert "bridge=mzzzzz00" in vms_of(clean, sandbox)["a"]["config"]["net0"]
    assert "no network" in home.fails(
        "up", home.spec(spec(vms=[vm("a", nics=[{"vnet": "missing"}])], networks=None))
    )
    home.ok("rm", sandbox)


def test_clear_errors(home: PveHome, clean: PveServer) -> None:
    missing = {"existing_vm_template_tag": "nosuch"}
    assert "nosuch" in home.fails("up", home.spec(spec(vms=[vm("a", source=missing)])))
    assert "no server of pool x" in home.fails("up", home.spec(spec(pool="x")))
    taken = {
        "vnets": [
            {
                "alias": "x",
                "subnets": [{"cidr": "10.99.0.0/24", "gateway": "10.99.0.1"}],
            }
        ]
    }
    there = spec(networks=taken, vms=[vm("a", nics=[{"vnet": "x"}])])
    assert "overlaps" in home.fails("up", home.spec(there))
    clean.control("fail_task", kind="qmstart", status="start failed: no memory")
    told = home.fails("up", home.spec(SPEC))
    assert "start failed: no memory" in told
    assert told.splitlines()[-1].count("default") == 1  # no layer repeats what another has said
    home.assert_nothing_left()


@pytest.mark.parametrize("key", ["zone", "type"])
def test_what_names_a_zone_is_ours(home: PveHome, clean: PveServer, key: str) -> None:
    """A zone whose name is not in the journal would stay for ever."""
    told = home.fails("up", home.spec(spec(native={"zone": {"mtu": 1400, key: "evpn"}})))
    assert f"native.zone.{key}: moat sets this itself" in told
    assert clean.log() == []
    home.ok("rm", home.up({**NETTED, "native": {"zone": {"mtu": 1400}}}))


def test_lists_of_destinations_are_refused_at_once(home: PveHome, clean: PveServer) -> None:
    """The server could not hold a VM to them, so nothing is made."""
    subnet = {"cidr": "10.98.0.0/24", "gateway": "10.98.0.1", "snat": True}
    allow = {"egress": {"allow": {"domains": ["example.org"]}}}
    networks = {"vnets": [{"alias": "x", "subnets": [subnet], **allow}]}
    clean.control("clear_log")
    told = home.fails("up", home.spec(spec(networks=networks)))
    assert "networks.vnets[0].egress: a list of what may be reached cannot be enforced" in told
    assert clean.log() == []


def test_addresses_where_the_server_gives_none(home: PveHome, clean: PveServer) -> None:
    """One network has a DHCP range. A NIC in the other has no address that could be exchanged."""

    def net(n: int, **more: Any) -> dict[str, Any]:
        subnet = {"cidr": f"10.97.{n}.0/24", "gateway": f"10.97.{n}.1", **more}
        return {"alias": f"net{n}", "subnets": [subnet]}

    ranges = {"dhcp_ranges": [{"start": "10.97.1.50", "end": "10.97.1.99"}]}
    fixed = {"vnet": "net2", "mac": "52:54:00:aa:bb:02", "ipv4": "10.97.2.9"}
    networks = {"vnets": [net(1, **ranges), net(2)]}
    sandbox = home.up(spec(vms=[vm("a", nics=[{"vnet": "net1"}, fixed])], networks=networks))
    assert "10.97.2.9" in json.dumps(clean.state()["ipam"])
    home.ok("rm", sandbox)
    clean.control("clear_log")
    del networks["vnets"][0]["subnets"][0]["gateway"]
    told = home.fails("up", home.spec(spec(networks=networks)))
    assert "networks.vnets[0].subnets[0].gateway: missing" in told
    assert clean.log() == []


def test_a_second_factor_is_named(clean: PveServer) -> None:
    clean.control("second_factor")
    other = PveHome(instance(clean))
    try:
        assert "a second factor is asked for: use an API token" in other.fails(
            "up", other.spec(SPEC)
        )
    finally:
        clean.control("second_factor", asked=False)
        other.close()


def test_tokens_work_without_a_ticket(clean: PveServer) -> None:
    clean.control("token", user="root@pam", name="moat", secret="s3cret")
    logins = clean.control("figures")["logins"]
    other = PveHome(instance(clean, password=None, token="moat=s3cret"))
    try:
        other.ok("rm", other.up(SPEC))
        assert clean.control("figures")["logins"] == logins
    finally:
        other.close()


def test_tickets_are_renewed(home: PveHome, clean: PveServer) -> None:
    sandbox = home.up(SPEC)
    logins = clean.control("figures")["logins"]
    clean.control("expire_tickets")
    time.sleep(0.2)
    home.ok("rm", sandbox)
    assert clean.control("figures")["logins"] > logins, "the old ticket was of no use"
    home.ok("rm", home.up(SPEC))


def test_connections_are_kept(home: PveHome, clean: PveServer) -> None:
    before = clean.control("figures")
    home.ok("rm", home.up(SPEC))
    after = clean.control("figures")
    assert (
        after["connections"] - before["connections"] <= (after["requests"] - before["requests"]) / 4
    )
