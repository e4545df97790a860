"""The calls of the older plugin, with its parameters, in its order: a life of a sandbox by it."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client import API, Client, Connection
from server import PveServer

NODE = "/nodes/pve"
WAIT_SECONDS = 120
LARGE = 4 << 20


@pytest.fixture(scope="module")
def plugin() -> Iterator[Client]:
    with PveServer(vms="container", time_scale=0.02, task_time=0.02, rollback_hold=0) as server:
        client = Client(server)
        template = {"vmid": 100, "agent": "1", "tags": "inspect;lab"}
        assert client.task("POST", f"{NODE}/qemu", template) == "OK"
        assert client.task("POST", f"{NODE}/qemu/100/template") == "OK"
        yield client


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def act(client: Client, verb: str, path: str, given: dict[str, Any] | None = None) -> None:
    """It does not wait for its own task, but until no new one is open in the cluster's list."""

    def open_tasks() -> set[str]:
        return {row["upid"] for row in client.get("/cluster/tasks") if not row.get("endtime")}

    before = open_tasks()
    assert client.call(verb, path, given).status == 200
    until(lambda: not open_tasks() - before, f"{verb} {path}")


def read(client: Client, vm: str, file: str) -> bytes:
    """As base64, of which each piece may have its own end."""
    found = client.get(f"{vm}/agent/file-read", file=file, count=10 << 20, decode=0)
    pieces = found["content"].replace("=", "= ").replace("= =", "==").split()
    return b"".join(base64.b64decode(piece) for piece in pieces)


def write(client: Client, vm: str, file: str, content: bytes) -> None:
    given = {"content": base64.b64encode(content).decode(), "file": file, "encode": 0}
    assert client.call("POST", f"{vm}/agent/file-write", given).status == 200


def network(client: Client) -> None:
    zone = {"type": "simple", "zone": "tas123z", "ipam": "pve", "dhcp": "dnsmasq"}
    assert client.call("POST", "/cluster/sdn/zones", zone).status == 200
    client.call("POST", "/cluster/sdn/vnets", {"vnet": "tas123v0", "zone": "tas123z"})
    subnet = {
        "subnet": "192.168.77.0/24",
        "type": "subnet",
        "vnet": "tas123v0",
        "gateway": "192.168.77.1",
        "snat": True,
        "dhcp-range": ["start-address=192.168.77.50,end-address=192.168.77.100"],
    }
    assert client.call("POST", "/cluster/sdn/vnets/tas123v0/subnets", subnet).status == 200
    act(client, "PUT", "/cluster/sdn")


def vm_of_template(client: Client) -> str:
    """The configuration that it has when the eval says nothing: nulls, and no name."""
    number = client.get("/cluster/nextid")
    clone = {"newid": number, "full": 0, "name": None}
    act(client, "POST", f"{NODE}/qemu/100/clone", clone)
    vm = f"{NODE}/qemu/{number}"
    act(client, "POST", f"{vm}/config", {"tags": "lab,inspect"})
    settings = {"agent": "enabled=1", "memory": None, "cores": None, "sata5": "none,media=cdrom"}
    act(client, "POST", f"{vm}/config", settings)
    assert client.get(f"{vm}/config")["tags"] == "inspect;lab"
    assert "memory" not in client.get(f"{vm}/config")
    act(client, "POST", f"{vm}/status/start")
    assert client.get(f"{vm}/status/current")["status"] == "running"
    until(lambda: client.call("POST", f"{vm}/agent/ping").status == 200, "the agent")
    return vm


def test_a_life(plugin: Client) -> None:
    before = {part: plugin.server.state()[part] for part in ("vms", "zones", "vnets", "subnets")}
    network(plugin)
    vm = vm_of_template(plugin)
    lock = b"exec 9>/tmp/lock\nflock -n 9 || exit\n"
    script = lock + b"echo hi >/tmp/out\necho -n $? >/tmp/code\nsync\n"
    write(plugin, vm, "/tmp/script.sh", script)
    started = plugin.call("POST", f"{vm}/agent/exec", {"command": ["sh", "/tmp/script.sh"]}).data
    status = f"{vm}/agent/exec-status"
    until(lambda: plugin.get(status, pid=started["pid"])["exited"] == 1, "the command")
    assert (read(plugin, vm, "/tmp/out"), read(plugin, vm, "/tmp/code")) == (b"hi\n", b"0")
    act(plugin, "POST", f"{vm}/snapshot", {"snapname": "inspect1", "vmstate": 1})
    write(plugin, vm, "/tmp/out", b"changed")
    act(plugin, "POST", f"{vm}/snapshot/inspect1/rollback")
    until(lambda: plugin.call("POST", f"{vm}/agent/ping").status == 200, "the agent")
    assert read(plugin, vm, "/tmp/out") == b"hi\n"
    assert plugin.call("POST", f"{vm}/status/stop").status == 200
    until(lambda: plugin.get(f"{vm}/status/current")["status"] == "stopped", "its end")
    assert plugin.call("DELETE", vm).status == 200
    until(lambda: plugin.call("GET", f"{vm}/status/current").status == 500, "its removal")
    vnet = "/cluster/sdn/vnets/tas123v0"
    (subnet,) = plugin.get(f"{vnet}/subnets")
    for path in (f"{vnet}/subnets/{subnet['subnet']}", vnet, "/cluster/sdn/zones/tas123z"):
        assert plugin.call("DELETE", path).status == 200
    act(plugin, "PUT", "/cluster/sdn")
    assert {part: plugin.server.state()[part] for part in before} == before


def test_a_large_answer_of_the_agent_does_not_pass_when_it_is_packed(plugin: Client) -> None:
    assert plugin.task("POST", f"{NODE}/qemu/100/clone", {"newid": 300}) == "OK"
    vm = f"{NODE}/qemu/300"
    assert plugin.task("POST", f"{vm}/status/start") == "OK"
    plugin.run(300, "sh", "-c", f"head -c {LARGE} /dev/urandom >/tmp/large")
    path = f"{API}{vm}/agent/file-read?file=/tmp/large"
    for packing, status in (("gzip", 596), ("gzip, deflate, br", 596), ("identity", 200)):
        connection = Connection(plugin.server)
        headers = {**plugin.headers, "Accept-Encoding": packing}
        reply = connection.request("GET", path, headers, b"")
        assert (packing, reply.status) == (packing, status)
        assert (len(reply.body) > LARGE) == (status == 200)
        connection.close()
    assert plugin.task("POST", f"{vm}/status/stop") == "OK"
    assert plugin.task("DELETE", vm) == "OK"
