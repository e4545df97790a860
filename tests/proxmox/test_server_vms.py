"""The test server's VMs, agents, storages and networks behave as the genuine ones."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import io
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from client import Client, WebSocket
from conftest import SCALE
from server import PveServer

QEMU = "/nodes/pve/qemu"


def make(client: Client, vmid: int, **more: object) -> None:
    given = {"vmid": vmid, "name": f"vm{vmid}", "agent": "enabled=1", "memory": 512, **more}
    assert client.task("POST", QEMU, given) == "OK"


def remove(client: Client, *vmids: int) -> None:
    for vmid in vmids:
        assert client.task("POST", f"{QEMU}/{vmid}/status/stop") == "OK"
        assert client.task("DELETE", f"{QEMU}/{vmid}") == "OK"


@pytest.fixture
def vm(client: Client) -> Iterator[int]:
    """A running VM with an agent."""
    make(client, 150, serial0="socket", serial1="socket")
    assert client.task("POST", f"{QEMU}/150/status/start") == "OK"
    yield 150
    client.server.clear()
    remove(client, 150)


# --- ids, locks, clones ---


def test_nextid_reserves_nothing(client: Client) -> None:
    first = client.get("/cluster/nextid")
    assert [client.get("/cluster/nextid") for _ in range(3)] == [first] * 3
    make(client, int(first))
    assert client.get("/cluster/nextid") != first
    reply = client.call("POST", QEMU, {"vmid": first})
    assert reply.status == 500
    assert reply.reason == f"unable to create VM {first} - VM {first} already exists on node 'pve'"
    assert client.call("GET", "/cluster/nextid", {"vmid": first}).status == 400
    remove(client, int(first))


def test_two_clones_of_one_id_race_in_their_tasks(client: Client) -> None:
    make(client, 160, scsi0="local-lvm:1")
    assert client.task("POST", f"{QEMU}/160/template") == "OK"
    client.server.control("task_seconds", kind="qmclone", seconds=0.5)
    given = {"newid": 161, "full": 0}
    upids = [client.call("POST", f"{QEMU}/160/clone", given).data for _ in range(2)]
    ends = sorted(client.wait(upid) for upid in upids)
    # As the second of them gets the lock in time, or not.
    assert ends[0] == "OK"
    assert ends[1] in (
        "unable to create VM 161: config file already exists",
        "can't lock file '/var/lock/qemu-server/lock-161.conf' - got timeout",
    )
    reply = client.call("POST", f"{QEMU}/160/clone", given)
    assert reply.reason == "unable to create VM 161: config file already exists"
    # The template's disk is in use as long as there is a clone.
    assert "still in use" in client.task("DELETE", f"{QEMU}/160")
    remove(client, 161, 160)


def test_only_templates_have_linked_clones(client: Client) -> None:
    make(client, 162, scsi0="local-lvm:1")
    reply = client.call("POST", f"{QEMU}/162/clone", {"newid": 163, "full": 0})
    volid = "local-lvm:vm-162-disk-0"
    assert reply.reason == f"Linked clone feature is not supported for '{volid}' (scsi0)"
    remove(client, 162)


def test_locked_vms(client: Client, vm: int) -> None:
    client.server.control("lock", vmid=vm)
    for verb, path, params in (
        ("PUT", "config", {"name": "x"}),
        ("POST", "config", {"name": "x"}),
        ("POST", "clone", {"newid": 170}),
    ):
        assert client.call(verb, f"{QEMU}/{vm}/{path}", params).reason == "VM is locked (backup)"
    assert client.task("POST", f"{QEMU}/{vm}/status/stop") == "VM is locked (backup)"
    assert (
        client.task("POST", f"{QEMU}/{vm}/snapshot", {"snapname": "s1"}) == "VM is locked (backup)"
    )
    client.server.control("lock", vmid=vm, lock="")


def test_put_is_at_once_and_post_is_a_task(client: Client, vm: int) -> None:
    assert client.call("PUT", f"{QEMU}/{vm}/config", {"description": "one"}).data is None
    assert client.task("POST", f"{QEMU}/{vm}/config", {"tags": "b,a"}) == "OK"
    config = client.get(f"{QEMU}/{vm}/config")
    assert (config["description"], config["tags"]) == ("one", "a;b")
    old = {"digest": "0" * 40, "name": "other"}
    assert (
        "detected modified configuration" in client.call("PUT", f"{QEMU}/{vm}/config", old).reason
    )
    good = {"digest": config["digest"], "name": "other"}
    assert client.call("PUT", f"{QEMU}/{vm}/config", good).status == 200
    # What a running VM cannot take waits for its next start.
    assert client.call("PUT", f"{QEMU}/{vm}/config", {"memory": 1024}).status == 200
    assert client.get(f"{QEMU}/{vm}/status/current")["maxmem"] == 512 << 20
    assert client.get(f"{QEMU}/{vm}/config", current=1)["memory"] == "512"


def test_a_running_vm_is_not_deleted(client: Client, vm: int) -> None:
    assert client.call("DELETE", f"{QEMU}/{vm}").reason == f"VM {vm} is running - destroy failed"


def test_rollback_of_a_running_vm_holds_the_lock(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}"
    assert (
        client.call("POST", f"{base}/agent/file-write", {"file": "/a", "content": "old"}).status
        == 200
    )
    assert client.task("POST", f"{base}/snapshot", {"snapname": "before", "vmstate": 1}) == "OK"
    assert (
        client.call("POST", f"{base}/agent/file-write", {"file": "/a", "content": "new"}).status
        == 200
    )
    client.server.control("rollback_hold", seconds=30)
    assert client.task("POST", f"{base}/snapshot/before/rollback") == "OK"
    reply = client.call("PUT", f"{base}/config", {"name": "x"})
    assert (reply.status, "can't lock file" in reply.reason) == (500, True)
    assert reply.reason.endswith("got timeout")
    assert client.get(f"{base}/agent/file-read", file="/a")["content"] == "old"
    assert [row["name"] for row in client.get(f"{base}/snapshot")] == ["before", "current"]
    client.server.control("rollback_hold", seconds=0, vmid=vm)
    assert client.task("DELETE", f"{base}/snapshot/before") == "OK"


# --- the agent ---


def test_agent_that_is_not_there(client: Client, vm: int) -> None:
    make(client, 151, agent="enabled=0")
    assert client.call("POST", f"{QEMU}/151/agent/ping").reason == "No QEMU guest agent configured"
    assert client.call("PUT", f"{QEMU}/151/config", {"agent": "enabled=1"}).status == 200
    assert client.call("POST", f"{QEMU}/151/agent/ping").reason == "VM 151 is not running"
    client.server.control("agent", vmid=vm, gone=True)
    before = time.monotonic()
    assert (
        client.call("POST", f"{QEMU}/{vm}/agent/ping").reason == "QEMU guest agent is not running"
    )
    assert time.monotonic() - before >= 3 * SCALE
    client.server.control("agent", vmid=vm, gone=False)
    assert client.call("POST", f"{QEMU}/{vm}/agent/ping").status == 200
    remove(client, 151)


def test_exec_results_are_given_once(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}/agent"
    pid = client.call("POST", f"{base}/exec", {"command": ["echo", "a", "b"]}).data["pid"]
    assert client.get(f"{base}/exec-status", pid=pid) == {
        "exited": 1,
        "exitcode": 0,
        "out-data": "a b\n",
    }
    reply = client.call("GET", f"{base}/exec-status", {"pid": pid})
    assert (reply.status, reply.reason) == (500, "Agent error: Invalid parameter 'pid'")
    assert client.run(vm, "kill") == {"exited": 1, "signal": 9}


def test_commands_are_lists_and_a_string_is_one_program(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}/agent"
    reply = client.call("POST", f"{base}/exec", {"command": "echo hi"})
    assert (reply.status, reply.reason, reply.body) == (596, "Broken pipe", b"")
    reply = client.call("POST", f"{base}/exec", {"command": ["echo", "x", "y"]}, form=True)
    assert client.get(f"{base}/exec-status", pid=reply.data["pid"])["out-data"] == "x y\n"
    before = time.monotonic()
    assert client.call("POST", f"{base}/exec", {"command": ["echo", "x" * 131072]}).status == 596
    assert time.monotonic() - before >= 5 * SCALE


def test_texts_go_to_the_guest_as_bytes(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}/agent"
    assert client.run(vm, "cat", input_data="\u00e9")["out-data"] == "\u00e9"
    reply = client.call("POST", f"{base}/exec", {"command": ["cat"], "input-data": "\u20ac"})
    assert (reply.status, reply.reason.startswith("Wide character")) == (500, True)
    reply = client.call("POST", f"{base}/exec", {"command": ["cat"], "input-data": "x" * 65537})
    assert reply.errors == {"input-data": "value may only be 65536 characters long"}
    data = base64.b64encode("\u20ac".encode()).decode()
    given = {"file": "/e", "content": data, "encode": 0}
    assert client.call("POST", f"{base}/file-write", given).status == 200
    # UTF-8 comes back as one character for each byte.
    assert client.run(vm, "cat", "/e")["out-data"] == "\u20ac".encode().decode("latin-1")
    assert (
        client.get(f"{base}/file-read", file="/e")["content"].encode("latin-1").decode() == "\u20ac"
    )


def test_output_that_is_too_large_is_lost(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}/agent"
    assert len(client.run(vm, "yes", str(2 << 20))["out-data"]) == 2 << 20
    pid = client.call("POST", f"{base}/exec", {"command": ["yes", str(4 << 20)]}).data["pid"]
    time.sleep(0.1)
    reply = client.call("GET", f"{base}/exec-status", {"pid": pid})
    assert (reply.status, reply.reason.endswith("got timeout")) == (500, True)
    reply = client.call("GET", f"{base}/exec-status", {"pid": pid})
    assert reply.reason == "Agent error: Invalid parameter 'pid'"


def test_files(client: Client, vm: int) -> None:
    base = f"{QEMU}/{vm}/agent"
    reply = client.call("GET", f"{base}/file-read", {"file": "/missing"})
    message = "Agent error: failed to open file '/missing' (mode: 'r'): No such file or directory"
    assert (reply.status, reply.reason) == (500, message)
    long = {"file": "/f", "content": "A" * 61441, "encode": 0}
    assert "61440" in client.call("POST", f"{base}/file-write", long).errors["content"]
    data = bytes(range(256)) * 180
    assert len(data) == 46080
    text = base64.b64encode(data).decode()
    given = {"file": "/f", "content": text, "encode": 0}
    assert client.call("POST", f"{base}/file-write", given).data is None
    read = client.get(f"{base}/file-read", file="/f")
    assert (read["bytes-read"], read["content"].encode("latin-1")) == (46080, data)
    assert "truncated" not in read
    assert client.get(f"{base}/file-read", file="/f", count=46080)["truncated"] == 1
    part = client.get(f"{base}/file-read", file="/f", offset=46000, decode=0)
    assert base64.b64decode(part["content"]) == data[46000:]
    # A second write replaces the first.
    client.call("POST", f"{base}/file-write", {"file": "/f", "content": "short"})
    assert client.get(f"{base}/file-read", file="/f")["content"] == "short"


# --- storages ---


def test_uploads(client: Client) -> None:
    data = b"x" * 300_000
    digest = hashlib.sha256(data).hexdigest()
    fields = [("content", "iso"), ("checksum-algorithm", "sha256"), ("checksum", digest)]
    assert client.wait(client.upload("one.iso", data, fields).data) == "OK"
    path = "/nodes/pve/storage/local/content"
    rows = client.get(path, content="iso")
    assert [(row["volid"], row["size"]) for row in rows] == [("local:iso/one.iso", 300_000)]
    wrong = [*fields[:2], ("checksum", "0" * 64)]
    assert "checksum mismatch" in client.wait(client.upload("two.iso", data, wrong).data)
    assert client.task("DELETE", f"{path}/local:iso/one.iso") == "OK"
    # Deleting what is not there is no error.
    assert client.task("DELETE", f"{path}/local:iso/one.iso") == "OK"
    assert client.get(path, content="iso") == []
    assert client.server.state()["uploads"] == []


def test_discs_change_in_a_drive_that_is_there(client: Client) -> None:
    vm = {"vmid": 410, "sata5": "none,media=cdrom", "memory": 64}
    assert client.task("POST", "/nodes/pve/qemu", vm) == "OK"
    assert client.task("POST", "/nodes/pve/qemu/410/status/start") == "OK"
    client.server.control("add_volume", volid="local:iso/a.iso", content="iso")
    path = "/nodes/pve/qemu/410/config"
    assert client.call("PUT", path, {"sata5": "local:iso/a.iso,media=cdrom"}).status == 200
    assert client.get(path, current=1)["sata5"].startswith("local:iso/a.iso,media=cdrom")
    # Another drive would have to be plugged in, which these buses cannot do.
    assert client.call("PUT", path, {"sata4": "local:iso/a.iso,media=cdrom"}).status == 200
    assert "sata4" not in client.get(path, current=1)
    assert "sata4" in client.get(path)
    missing = client.call("PUT", path, {"sata5": "local:iso/b.iso,media=cdrom"})
    assert (missing.status, "does not exist" in missing.reason) == (500, True)
    # An image in a drive can be deleted all the same.
    assert client.task("DELETE", "/nodes/pve/storage/local/content/local:iso/a.iso") == "OK"
    assert client.call("PUT", path, {"sata5": "none,media=cdrom"}).status == 200
    assert client.task("POST", "/nodes/pve/qemu/410/status/stop") == "OK"
    assert client.task("DELETE", "/nodes/pve/qemu/410") == "OK"


def test_settings_have_privileges_of_their_own(server: PveServer, client: Client) -> None:
    vm = {"vmid": 411, "sata5": "none,media=cdrom", "memory": 64}
    assert client.task("POST", "/nodes/pve/qemu", vm) == "OK"
    server.control("user", user="disc@pve", password="pw", grants={"/": ["VM.Config.CDROM"]})
    path = "/nodes/pve/qemu/411/config"
    other = Client(server, "disc@pve", "pw")
    assert other.call("PUT", path, {"sata5": "none,media=cdrom"}).status == 200
    refused = {
        "memory": (128, "VM.Config.Memory"),
        "cores": (2, "VM.Config.CPU"),
        "serial1": ("socket", "VM.Config.HWType"),
        "description": ("x", "VM.Config.Options"),
        "net0": ("virtio,bridge=vmbr0", "VM.Config.Network"),
        "scsi0": ("local-lvm:1", "VM.Config.Disk"),
    }
    for key, (value, privilege) in refused.items():
        reply = other.call("PUT", path, {key: value})
        assert (reply.status, f"(/vms/411, {privilege})" in reply.reason) == (403, True), key
    assert client.task("DELETE", "/nodes/pve/qemu/411") == "OK"


def test_upload_fields_have_one_order(client: Client) -> None:
    digest = hashlib.sha256(b"x").hexdigest()
    late = [("checksum", digest), ("content", "iso"), ("checksum-algorithm", "sha256")]
    reply = client.upload("a.iso", b"x", late)
    assert (reply.status, reply.body) == (400, b"")
    assert client.upload("a.iso", b"x", [("filename", ""), ("content", "iso")]).status == 400
    reply = client.upload("a.txt", b"x", [("content", "iso")])
    assert reply.errors == {"filename": "wrong file extension"}
    assert client.upload("a.iso", b"x", [("content", "iso")], storage="local-lvm").status == 500


def test_the_server_downloads(client: Client, tmp_path: Path) -> None:
    (tmp_path / "image.qcow2").write_bytes(b"QFI\xfb" + b"\0" * 996)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{web.server_address[1]}"
    path = "/nodes/pve/storage/local"
    given = {"content": "import", "filename": "got.qcow2", "url": f"{base}/image.qcow2"}
    assert client.task("POST", f"{path}/download-url", given) == "OK"
    rows = client.get(f"{path}/content", content="import")
    assert [(row["volid"], row["size"]) for row in rows] == [("local:import/got.qcow2", 1000)]
    given["url"] = f"{base}/none.qcow2"
    assert "download failed" in client.task("POST", f"{path}/download-url", given)
    assert client.task("DELETE", f"{path}/content/import/got.qcow2") == "OK"
    web.shutdown()
    web.server_close()


def test_importing_disks(client: Client) -> None:
    ovf = """<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"
        xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="r">
        <References><File ovf:id="f1" ovf:href="disk.vmdk"/></References>
        <DiskSection><Disk ovf:diskId="d1" ovf:fileRef="f1"/></DiskSection>
        <VirtualSystem ovf:id="victim"><VirtualHardwareSection>
        <Item><rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>768</rasd:VirtualQuantity></Item>
        <Item><rasd:HostResource>ovf:/disk/d1</rasd:HostResource>
        <rasd:ResourceType>17</rasd:ResourceType></Item>
        </VirtualHardwareSection></VirtualSystem></Envelope>"""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in (("victim.ovf", ovf.encode()), ("disk.vmdk", b"KDMV" + b"\0" * 5000)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    reply = client.upload("victim.ova", buffer.getvalue(), [("content", "import")])
    assert client.wait(reply.data) == "OK"
    path = "/nodes/pve/storage/local/import-metadata"
    assert client.call("GET", f"{path}?volume=local:import/victim.ova").status == 500
    found = client.get(path, volume="import/victim.ova")
    disk = found["disks"]["sata0"]["volid"]
    assert (disk, found["create-args"]["memory"]) == ("local:import/victim.ova/disk.vmdk", 768)
    given = {"vmid": 171, "scsi0": f"local-lvm:0,import-from={disk}"}
    refused = "does not support 'images' content type or is not file based."
    assert client.call("POST", QEMU, given).errors == {
        "scsi0": f"import working storage 'local' {refused}"
    }
    given["import-working-storage"] = "local-lvm"
    assert client.call("POST", QEMU, given).errors == {
        "import-working-storage": f"import working storage 'local-lvm' {refused}"
    }
    client.server.control("add_storage", node="pve", storage="files", kind="nfs", content="images")
    given["import-working-storage"] = "files"
    assert client.task("POST", QEMU, given) == "OK"
    client.server.control("remove_storage", node="pve", storage="files")
    assert client.get(f"{QEMU}/171/config")["scsi0"].startswith("local-lvm:vm-171-disk-0,size=")
    given = {"vmid": 172, "scsi0": "local-lvm:0,import-from=local:import/none.qcow2"}
    assert client.call("POST", QEMU, given).status == 400
    remove(client, 171)
    assert client.task("DELETE", "/nodes/pve/storage/local/content/local:import/victim.ova") == "OK"


# --- networks ---


def test_networks_are_pending_until_they_are_applied(client: Client) -> None:
    sdn = "/cluster/sdn"
    zone = {"zone": "tst1z", "type": "simple", "ipam": "pve", "dhcp": "dnsmasq"}
    assert client.call("POST", f"{sdn}/zones", zone).data is None
    assert "already defined" in client.call("POST", f"{sdn}/zones", zone).reason
    assert client.call("POST", f"{sdn}/vnets", {"vnet": "tst1v0", "zone": "tst1z"}).data is None
    subnet = {
        "subnet": "10.77.0.0/24",
        "type": "subnet",
        "gateway": "10.77.0.1",
        "snat": 1,
        "dhcp-range": ["start-address=10.77.0.50,end-address=10.77.0.51"],
    }
    path = f"{sdn}/vnets/tst1v0/subnets"
    assert client.call("POST", path, subnet).data is None
    assert {row["zone"]: row["status"] for row in client.get("/nodes/pve/sdn/zones")} == {
        "tst1z": "pending"
    }
    row = client.get(f"{sdn}/zones", pending=1)[0]
    assert (row["zone"], row["state"]) == ("tst1z", "new")
    address = {"zone": "tst1z", "ip": "10.77.0.9", "mac": "BC:24:11:00:00:09"}
    assert "can't find any subnet" in client.call("POST", f"{sdn}/vnets/tst1v0/ips", address).reason
    make(client, 180, net0="virtio,bridge=tst1v0")
    assert client.task("POST", f"{QEMU}/180/status/start") == "bridge 'tst1v0' does not exist"
    # An apply whose reload fails on a node ends well all the same.
    client.server.control("reload_fails", node="pve")
    assert client.task("PUT", sdn) == "OK"
    assert client.get("/nodes/pve/sdn/zones") == [{"zone": "tst1z", "status": "pending"}]
    assert client.task("PUT", sdn) == "OK"
    assert client.get("/nodes/pve/sdn/zones") == [{"zone": "tst1z", "status": "available"}]
    shown = client.get(path)[0]
    assert (shown["subnet"], shown["cidr"]) == ("tst1z-10.77.0.0-24", "10.77.0.0/24")
    assert shown["dhcp-range"] == [{"start-address": "10.77.0.50", "end-address": "10.77.0.51"}]
    check_addresses(client)
    # Removed from the inside out, nothing else.
    assert "is used by vnet" in client.call("DELETE", f"{sdn}/zones/tst1z").reason
    errors = client.call("DELETE", f"{sdn}/vnets/tst1v0").errors
    assert errors == {"vnet": "Can't delete vnet if subnets exists"}
    reply = client.call("DELETE", f"{path}/tst1z-10.77.0.0-24")
    assert reply.reason.endswith("cannot delete subnet '10.77.0.0/24', not empty")
    remove(client, 180)
    for where in (f"{path}/tst1z-10.77.0.0-24", f"{sdn}/vnets/tst1v0", f"{sdn}/zones/tst1z"):
        assert client.call("DELETE", where).status == 200
    assert client.get(f"{sdn}/zones", pending=1)[0]["state"] == "deleted"
    assert client.task("PUT", sdn) == "OK"
    state = client.server.state()
    assert (state["zones"], state["ipam"], state["running"]["zones"]) == ({}, {}, [])


def check_addresses(client: Client) -> None:
    sdn, config, mac = "/cluster/sdn", f"{QEMU}/180/config", "BC:24:11:00:00:09"
    path = f"{sdn}/vnets/tst1v0/ips"

    def addresses(of: str) -> list[str]:
        return [row["ip"] for row in client.get(f"{sdn}/ipams/pve/status") if row.get("mac") == of]

    # A card takes the next address when it is connected, also if one is reserved for it.
    address = {"zone": "tst1z", "ip": "10.77.0.9", "mac": mac}
    assert client.call("POST", path, address).status == 200
    assert "already exist" in client.call("POST", path, address).reason
    net = {"net0": f"virtio={mac},bridge=tst1v0"}
    assert client.call("PUT", config, net).status == 200
    assert addresses(mac) == ["10.77.0.50", "10.77.0.9"]
    assert client.call("DELETE", path, address).status == 200
    assert "does not exist" in client.call("DELETE", path, address).reason
    # So an address is moved once the card is there.
    assert client.call("PUT", path, {**address, "vmid": 180}).status == 200
    assert addresses(mac) == ["10.77.0.9"]
    assert client.task("POST", f"{QEMU}/180/status/start") == "OK"
    assert addresses(mac) == ["10.77.0.9"]
    # Both addresses of the range, and then there are none.
    for number in (1, 2):
        assert client.call("PUT", config, {f"net{number}": "virtio,bridge=tst1v0"}).status == 200
    reply = client.call("PUT", config, {"net3": "virtio,bridge=tst1v0"})
    assert "can't find any free ip" in reply.errors["net3"]
    # A VM that goes takes its addresses along.


def test_ids_of_networks_are_short(client: Client) -> None:
    for path, name in (("zones", "zone"), ("vnets", "vnet")):
        given = {name: "a23456789", "type": "simple", "zone": "zone"} | {name: "a23456789"}
        errors = client.call("POST", f"/cluster/sdn/{path}", given).errors
        assert errors[name] == "value may only be 8 characters long"


# --- terminals ---


def test_terminal(client: Client, vm: int) -> None:
    assert client.call("POST", f"{QEMU}/{vm}/termproxy", {"serial": "serial2"}).status == 500
    socket = WebSocket(client, vm)
    assert socket.reply.status == 101
    assert socket.login() == b"OK"
    assert b"starting serial terminal on interface serial1" in socket.until(b"\r\n")
    socket.send(b"1:80:24:")
    socket.send(b"2")
    socket.type(b"hello\n")
    assert socket.until(b"\n") == b"hello"
    # A command may come in pieces, several may come at once.
    socket.send(b"0:6:ab")
    socket.send(b"cdef0:1:\n")
    assert socket.until(b"\n") == b"abcdef"
    # The byte that a terminal does not carry.
    socket.type(b"x\x0f")
    assert socket.connection.closed() or socket.receive() == b"x"


def test_terminal_refusals(client: Client, vm: int) -> None:
    socket = WebSocket(client, vm)
    socket.send(b"root@pam:wrong\n")
    assert socket.connection.closed()
    other = WebSocket(client, vm)
    assert other.login() == b"OK"
    other.send(b"0:1:x", first=0x02)  # a fragment
    assert other.until(b"\r\n")
    assert other.connection.closed()
    path = f"{QEMU}/{vm}/vncwebsocket"
    assert client.call("GET", path, {"port": 5900, "vncticket": "PVEVNC:1::2"}).status == 401


# --- faults ---


def test_faults_strike_where_they_are_told(client: Client) -> None:
    server = client.server
    server.fault(path="^/version$", status=503, skip=1)
    assert [client.call("GET", "/version").status for _ in range(3)] == [200, 503, 200]
    server.fault(path="^/nodes$", status=596)
    assert (client.call("GET", "/nodes").body, client.call("GET", "/nodes").status) == (b"", 200)
    server.fault(path="/zones", method="POST", action="drop", when="after")
    with pytest.raises(OSError, match=r".*"):
        client.call("POST", "/cluster/sdn/zones", {"zone": "half1", "type": "simple"})
    assert client.call("DELETE", "/cluster/sdn/zones/half1").status == 200
    server.fault(path="/version", action="drop")
    with pytest.raises(OSError, match=r".*"):
        client.call("GET", "/version")
    server.fault(path="/version", action="latency", seconds=0.3)
    before = time.monotonic()
    assert client.call("GET", "/version").status == 200
    assert time.monotonic() - before >= 0.3
    server.control("clear_log")
    server.fault(call=2, status=500)
    assert [client.call("GET", "/version").status for _ in range(3)] == [200, 500, 200]
    assert server.control("counts") == {"GET /version": 3}


def test_tasks_fail_when_told(client: Client) -> None:
    client.server.control("fail_task", kind="qmcreate", status="no space left")
    end = client.task("POST", QEMU, {"vmid": 175, "scsi0": "local-lvm:1"})
    assert end == "unable to create VM 175 - no space left"
    state = client.server.state()
    assert "175" not in state["vms"]
    assert not [volid for volid in state["volumes"] if "175" in volid]


def test_what_was_there_before_is_shown(client: Client) -> None:
    server = client.server
    config = {
        "name": "inspect-x",
        "tags": "inspect;moat",
        "scsi0": "local-lvm:vm-900-disk-0,size=1G",
    }
    server.control("add_vm", vmid=900, config=config, running=True)
    vnets = {"abc123v0": {"alias": "lan", "subnet": "10.78.0.0/24"}}
    server.control("add_zone", zone="abc123z", vnets=vnets)
    state = server.state()
    assert state["vms"]["900"]["config"]["name"] == "inspect-x"
    assert state["zones"]["abc123z"]["dhcp"] == "dnsmasq"
    assert "local-lvm:vm-900-disk-0" in state["volumes"]
    remove(client, 900)


def test_many_clients_at_once(server: PveServer) -> None:
    failed: list[str] = []

    def work(number: int) -> None:
        try:
            client = Client(server, token="root@pam!probe=s3cret-of-a-token")
            make(client, 400 + number)
            assert client.task("POST", f"{QEMU}/{400 + number}/status/start") == "OK"
            assert client.run(400 + number, "hostname")["out-data"] == f"vm{400 + number}\n"
            remove(client, 400 + number)
        except Exception as why:  # shown by the assertion below
            failed.append(repr(why))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# --- the firewall ---


@pytest.mark.parametrize(
    "base", ["/cluster", "/nodes/pve", f"{QEMU}/150", "/cluster/sdn/vnets/abc123v0"]
)
def test_firewall(client: Client, vm: int, base: str) -> None:
    if "vnets" in base and not client.server.state()["vnets"]:
        client.server.control("add_zone", zone="abc123z", vnets={"abc123v0": {}})
    path = f"{base}/firewall"
    assert client.call("PUT", f"{path}/options", {"enable": 1}).status == 200
    assert client.get(f"{path}/options")["enable"] == 1
    way = "forward" if "vnets" in base else "in"
    rules = [
        {"type": way, "action": "ACCEPT", "proto": "udp", "dport": "53", "enable": 1},
        {"type": way, "action": "DROP", "enable": 1, "comment": "the rest"},
    ]
    for rule in reversed(rules):
        assert client.call("POST", f"{path}/rules", rule).status == 200
    shown = client.get(f"{path}/rules")
    assert [(rule["pos"], rule["action"]) for rule in shown] == [(0, "ACCEPT"), (1, "DROP")]
    bad = {"type": way, "action": "DROP", "dport": "1", "enable": 1}
    assert client.call("POST", f"{path}/rules", bad).status == 400
    for _ in rules:
        assert client.call("DELETE", f"{path}/rules/0").status == 200
    assert client.get(f"{path}/rules") == []
    assert client.call("PUT", f"{path}/options", {"delete": "enable"}).status == 200
