"""A client of somebody else's works against the test server."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from proxmoxer import ProxmoxAPI, ResourceException
from server import PveServer

WAIT_SECONDS = 120


def wait(api: Any, upid: str) -> str:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        status = api.nodes("pve").tasks(upid).status.get()
        if status["status"] == "stopped":
            return str(status["exitstatus"])
        time.sleep(0.05)
    raise TimeoutError(upid)


@pytest.mark.parametrize("way", ["password", "token"])
def test_proxmoxer(server: PveServer, way: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"password": server.password}
    if way == "token":
        given = {"token_name": "probe", "token_value": "s3cret-of-a-token"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api = ProxmoxAPI(
            server.host, port=server.port, user=server.user, verify_ssl=False, timeout=60, **given
        )
        use(api, tmp_path)


def use(api: Any, tmp_path: Path) -> None:
    assert api.version.get()["release"] == "9.2"
    node = api.nodes("pve")
    vmid = api.cluster.nextid.get()
    disk, net = "local-lvm:2", "virtio,bridge=vmbr0"
    upid = node.qemu.post(vmid=vmid, name="other", agent="enabled=1", scsi0=disk, net0=net)
    assert wait(api, upid) == "OK"
    vm = node.qemu(vmid)
    assert wait(api, vm.status.start.post()) == "OK"
    pid = vm.agent("exec").post(command=["echo", "hi"])["pid"]
    assert vm.agent("exec-status").get(pid=pid)["out-data"] == "hi\n"
    vm.config.put(description="changed", tags="b;a")
    assert vm.config.get()["tags"] == "a;b"
    path = tmp_path / "other.iso"
    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        assert wait(api, node.storage("local").upload.post(content="iso", filename=file)) == "OK"
    assert [row["size"] for row in node.storage("local").content.get(content="iso")] == [100_000]
    assert wait(api, node.storage("local").content("iso/other.iso").delete()) == "OK"
    zones = api.cluster.sdn.zones
    zones.post(zone="other1z", type="simple", ipam="pve", dhcp="dnsmasq")
    assert [row["zone"] for row in zones.get()] == ["other1z"]
    zones("other1z").delete()
    assert wait(api, api.cluster.sdn.put()) == "OK"
    assert wait(api, vm.status.stop.post()) == "OK"
    assert wait(api, vm.delete()) == "OK"
    with pytest.raises(ResourceException, match=r"qemu-server/.*\.conf' does not exist"):
        vm.config.get()
