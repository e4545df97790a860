"""The test server's real VMs: QEMU processes with a real agent and a real serial port."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from client import WAIT_SECONDS, Client, WebSocket
from server import PveServer

QEMU = "/nodes/pve/qemu"
VM = 101


@pytest.fixture(scope="module")
def real() -> Iterator[Client]:
    """A server with a template, and a clone of it that runs."""
    with PveServer(vms="qemu", time_scale=0.1, task_time=0.05) as server:
        client = Client(server)
        vnets = {"lanv0": {"alias": "lan", "subnet": "10.79.0.0/24"}}
        server.control("add_zone", zone="lanz", vnets=vnets)
        given = {
            "vmid": 100,
            "name": "base",
            "memory": 192,
            "agent": "enabled=1",
            "scsihw": "virtio-scsi-single",
            "scsi0": "local-lvm:1",
            "net0": "virtio,bridge=lanv0",
            "serial0": "socket",
            "serial1": "socket",
        }
        assert client.task("POST", QEMU, given) == "OK"
        assert client.task("POST", f"{QEMU}/100/template") == "OK"
        assert client.task("POST", f"{QEMU}/100/clone", {"newid": VM, "full": 0}) == "OK"
        assert client.task("POST", f"{QEMU}/{VM}/status/start") == "OK"
        wait_for_agent(client)
        yield client


def wait_for_agent(client: Client) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while client.call("POST", f"{QEMU}/{VM}/agent/ping").status != 200:
        assert time.monotonic() < deadline, "no agent"
        time.sleep(0.2)


def test_commands_run_in_the_guest(real: Client) -> None:
    result = real.run(VM, "sh", "-c", "cat; echo oops >&2; exit 3", input_data="in \u00e9")
    assert result == {"exited": 1, "exitcode": 3, "out-data": "in \u00e9", "err-data": "oops\n"}
    assert real.run(VM, "sh", "-c", "kill -9 $$")["signal"] == 9
    reply = real.call("POST", f"{QEMU}/{VM}/agent/exec", {"command": ["/no/such/program"]})
    assert (reply.status, reply.reason, reply.body) == (596, "Broken pipe", b"")
    assert real.run(VM, "cloud-init", "status", "--wait")["out-data"] == "status: done\n"
    assert "Linux" in real.run(VM, "uname", "-a")["out-data"]


def test_the_guest_has_its_address_from_the_ipam(real: Client) -> None:
    rows = real.get("/cluster/sdn/ipams/pve/status")
    address = next(row["ip"] for row in rows if row.get("vmid") == VM)
    found = f"ip -4 addr | grep -q 'inet {address}/24'"
    look = f"for i in $(seq 600); do {found} && break; sleep 0.1; done"
    result = real.run(VM, "sh", "-c", f"{look}; ip -4 route; ping -c 1 -W 60 10.79.0.1")
    assert "default via 10.79.0.1" in result["out-data"]
    assert result["exitcode"] == 0


def test_files_of_the_guest(real: Client) -> None:
    base = f"{QEMU}/{VM}/agent"
    given = {"file": "/root/x", "content": "one\n"}
    assert real.call("POST", f"{base}/file-write", given).status == 200
    assert real.get(f"{base}/file-read", file="/root/x") == {"content": "one\n", "bytes-read": 4}
    reply = real.call("GET", f"{base}/file-read", {"file": "/root/none"})
    assert reply.reason.endswith("(mode: 'r'): No such file or directory")
    assert real.run(VM, "head", "-c", "3000000", "/dev/zero")["exited"] == 1
    real.run(VM, "sh", "-c", "head -c 3000000 /dev/urandom > /root/big; sync")
    read = real.get(f"{base}/file-read", file="/root/big", offset=2999990)
    assert read["bytes-read"] == 10


def test_snapshot_and_rollback_with_memory(real: Client) -> None:
    base = f"{QEMU}/{VM}"
    real.run(VM, "sh", "-c", "echo before > /root/state")
    assert real.task("POST", f"{base}/snapshot", {"snapname": "one", "vmstate": 1}) == "OK"
    real.run(VM, "sh", "-c", "echo after > /root/state")
    assert real.task("POST", f"{base}/snapshot/one/rollback") == "OK"
    wait_for_agent(real)
    assert real.run(VM, "cat", "/root/state")["out-data"] == "before\n"
    assert real.task("DELETE", f"{base}/snapshot/one") == "OK"


def test_second_serial_port(real: Client) -> None:
    socket = WebSocket(real, VM)
    assert socket.login() == b"OK"
    assert b"serial1" in socket.until(b"\r\n")
    echo = "stty -F /dev/ttyS1 raw -echo; echo ready; exec cat"
    line = f"setsid sh -c '{echo}' </dev/ttyS1 >/dev/ttyS1 2>/dev/null &"
    given = {"command": ["sh", "-c", line]}
    assert real.call("POST", f"{QEMU}/{VM}/agent/exec", given).status == 200
    # From then on the port is raw: a byte that comes too early would come back changed.
    socket.until(b"ready\n")
    socket.type(b"ping 1\n")
    assert socket.until(b"ping 1\n") == b""
    socket.close()
    # The port is free again, and what nobody reads is lost.
    again = WebSocket(real, VM)
    assert again.login() == b"OK"
    again.until(b"\r\n")
    again.type(b"ping 2\n")
    assert again.until(b"ping 2\n") == b""
    again.close()


def test_discs_come_and_go(real: Client) -> None:
    upload = real.upload("disc.iso", b"DISC" + b"\0" * 65532, [("content", "iso")])
    assert real.wait(upload.data) == "OK"
    given = {"scsi5": "local:iso/disc.iso,media=cdrom"}
    assert real.call("PUT", f"{QEMU}/{VM}/config", given).status == 200
    look = "for i in $(seq 300); do head -c 4 /dev/sr0 2>/dev/null && break; sleep 0.1; done"
    script = f"modprobe sr_mod; modprobe virtio_scsi; {look}"
    assert real.run(VM, "sh", "-c", script)["out-data"] == "DISC"
    assert real.call("PUT", f"{QEMU}/{VM}/config", {"delete": "scsi5"}).status == 200
    assert "scsi5" not in real.get(f"{QEMU}/{VM}/config")


def test_shutdown_and_removal(real: Client) -> None:
    assert real.task("POST", f"{QEMU}/{VM}/status/shutdown") == "OK"
    assert real.get(f"{QEMU}/{VM}/status/current")["status"] == "stopped"
    assert real.task("DELETE", f"{QEMU}/{VM}") == "OK"
    assert list(real.server.state()["vms"]) == ["100"]
