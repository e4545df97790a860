"""The test server's quick VMs: a real agent and serial ports without a machine around them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from client import Client, WebSocket
from server import PveServer

QEMU = "/nodes/pve/qemu"
COUNT = 6


@pytest.fixture(scope="module")
def quick() -> Iterator[Client]:
    with PveServer(vms="container", time_scale=0.1, task_time=0.05) as server:
        client = Client(server)
        given = {"vmid": 100, "agent": "1", "serial0": "socket", "serial1": "socket"}
        assert client.task("POST", QEMU, given) == "OK"
        assert client.task("POST", f"{QEMU}/100/template") == "OK"
        yield client


def test_many_at_once(quick: Client) -> None:
    failed: list[str] = []

    def work(vmid: int) -> None:
        try:
            client = Client(quick.server)
            given = {"newid": vmid, "full": 0, "name": f"vm{vmid}"}
            assert client.task("POST", f"{QEMU}/100/clone", given) == "OK"
            assert client.task("POST", f"{QEMU}/{vmid}/status/start") == "OK"
            assert client.run(vmid, "hostname")["out-data"] == f"vm{vmid}\n"
            assert client.run(vmid, "sh", "-c", "echo $$; exit 4")["exitcode"] == 4
            assert client.run(vmid, "cloud-init", "status")["out-data"] == "status: done\n"
            if vmid > 101:
                assert client.task("POST", f"{QEMU}/{vmid}/status/stop") == "OK"
                assert client.task("DELETE", f"{QEMU}/{vmid}") == "OK"
        except Exception as why:  # shown by the assertion below
            failed.append(repr(why))

    threads = [threading.Thread(target=work, args=(101 + n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_serial_port_carries_every_byte_but_one(quick: Client) -> None:
    socket = WebSocket(quick, 101)
    assert socket.login() == b"OK"
    socket.until(b"\r\n")
    line = "setsid sh -c 'stty raw -echo; echo ready; exec cat' </dev/ttyS1 >/dev/ttyS1 &"
    given = {"command": ["sh", "-c", line]}
    assert quick.call("POST", f"{QEMU}/101/agent/exec", given).status == 200
    socket.until(b"ready\n")
    data = bytes(byte for byte in range(256) if byte != 0x0F) * 4 + b"end"
    socket.type(data)
    assert socket.until(b"end") + b"end" == data
    socket.close()


def test_snapshot(quick: Client) -> None:
    base = f"{QEMU}/101"
    quick.run(101, "sh", "-c", "echo before > /root/state")
    assert quick.task("POST", f"{base}/snapshot", {"snapname": "one", "vmstate": 1}) == "OK"
    quick.run(101, "sh", "-c", "echo after > /root/state")
    assert quick.task("POST", f"{base}/snapshot/one/rollback") == "OK"
    assert quick.run(101, "cat", "/root/state")["out-data"] == "before\n"
    assert quick.task("POST", f"{base}/status/stop") == "OK"
    assert quick.task("DELETE", base) == "OK"
