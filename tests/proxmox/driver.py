"""A moat that drives test servers: what the tests of the Proxmox driver share."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from server import PveServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from home import Home

TEMPLATE = 9000
WAIT_SECONDS = 240
QCOW2 = b"QFI\xfb\0\0\0\3"
SPEC: dict[str, Any] = {
    "driver": "proxmox",
    "vms": [{"source": {"existing_vm_template_tag": "base"}, "ram_mb": 512, "vcpus": 1}],
}


def add_template(
    server: PveServer, vmid: int = TEMPLATE, tags: str = "base;inspect", ostype: str = "l26"
) -> None:
    server.control(
        "add_vm",
        vmid=vmid,
        template=True,
        config={
            "name": f"template-{vmid}",
            "tags": tags,
            "memory": "1024",
            "cores": 1,
            "ostype": ostype,
            "scsi0": f"local-lvm:base-{vmid}-disk-0,size=4G",
            "boot": "order=scsi0",
            "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
        },
    )


def add_decoys(server: PveServer) -> None:
    """Things of others that look like ours."""
    server.control(
        "add_vm",
        vmid=101,
        running=True,
        config={
            "name": "default",
            "tags": "inspect;moat-00000000-0123456789",
            "memory": "512",
        },
    )
    server.control(
        "add_vm",
        vmid=103,
        config={
            "name": "default",
            "tags": "inspect",
            "description": "moat sandbox",
            "memory": "512",
        },
    )
    server.control(
        "add_zone",
        zone="mzzzzzn",
        vnets={
            "mzzzzz00": {
                "alias": "default moat-00000000-0123456789",
                "subnet": "10.99.0.0/24",
            }
        },
    )
    server.control(
        "add_volume",
        volid="local:iso/moat-00000000-0123456789-x-seed.iso",
        content="iso",
    )


def unpack_ovas(server: PveServer, content: str = "backup,images,import,iso") -> None:
    """A storage that OVAs can be unpacked on, which a server does not have when it is new."""
    server.control("storage", node=server.node, storage="local", content=content.split(","))


def make_ova(path: Path) -> None:
    ovf = b"""<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData">
<References><File ovf:id="file1" ovf:href="disk.vmdk" ovf:size="4096"/></References>
<DiskSection><Disk ovf:diskId="d1" ovf:fileRef="file1" ovf:capacity="1"
 ovf:capacityAllocationUnits="byte * 2^30"/></DiskSection>
<VirtualSystem ovf:id="vm"><Name>vm</Name><VirtualHardwareSection>
<Item><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceType>6</rasd:ResourceType></Item>
<Item><rasd:InstanceID>4</rasd:InstanceID><rasd:Parent>3</rasd:Parent>
<rasd:HostResource>ovf:/disk/d1</rasd:HostResource><rasd:ResourceType>17</rasd:ResourceType></Item>
</VirtualHardwareSection></VirtualSystem>
</Envelope>"""
    with tarfile.open(path, "w") as tar:
        for name, content in (("vm.ovf", ovf), ("disk.vmdk", b"KDMV" + bytes(4092))):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


class Mirror:
    """A web server on this machine with the images of built-in systems; `asked`: its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.packed = io.BytesIO()
        with tarfile.open(fileobj=self.packed, mode="w:xz") as tar:
            for name, content in (("README", b"no disk"), ("disk.raw", bytes(3 << 20) + b"end")):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                body = QCOW2 + bytes(65528)
                if self.path.endswith(".tar.xz"):
                    body = mirror.packed.getvalue()
                self.send_response(404 if "/missing/" in self.path else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Mirror:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def left(server: PveServer) -> dict[str, Any]:
    """What is on the server of all that a client makes, to be compared before and after a test."""
    state = server.state()
    return {
        key: state[key] if key in ("ipam", "running", "volumes", "uploads") else sorted(state[key])
        for key in (
            "vms",
            "zones",
            "vnets",
            "subnets",
            "running",
            "ipam",
            "volumes",
            "uploads",
        )
    }


def wait_for(what: Callable[[], Any], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def instance(server: PveServer, **more: Any) -> dict[str, Any]:
    user, _, realm = server.user.partition("@")
    return {
        "instance_id": "one",
        "pool_id": "default",
        "host": server.host,
        "port": server.port,
        "user": user,
        "user_realm": realm,
        "password": server.password,
        "node": server.node,
        "verify_tls": True,
        "fingerprint": server.fingerprint,
        **more,
    }


class PveHome(Home):
    """A moat that knows servers."""

    def __init__(self, *instances: dict[str, Any], config: str = "") -> None:
        super().__init__(config or "idle_exit: 0\nboot_timeout: 120\n")
        self.env = {k: v for k, v in self.env.items() if not k.startswith("PROXMOX_")}
        self.use(*instances)

    def use(self, *instances: dict[str, Any]) -> None:
        path = self.dir / "servers.json"
        path.write_text(json.dumps({"instances": list(instances)}))
        self.env["PROXMOX_CONFIG_FILE"] = str(path)

    def log(self) -> str:
        return "".join(p.read_text(errors="replace") for p in self.dir.rglob("*.log"))
