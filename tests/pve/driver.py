"""A moat that drives test servers: what the tests of the Proxmox driver share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from server import PveServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from home import Home

TEMPLATE = 9000
SPEC: dict[str, Any] = {
    "driver": "proxmox",
    "vms": [{"source": {"existing_vm_template_tag": "base"}, "ram_mb": 512, "vcpus": 1}],
}


def add_template(server: PveServer, vmid: int = TEMPLATE, tags: str = "base;inspect") -> None:
    server.control(
        "add_vm",
        vmid=vmid,
        template=True,
        config={
            "name": f"template-{vmid}",
            "tags": tags,
            "memory": "1024",
            "cores": 1,
            "ostype": "l26",
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


def left(server: PveServer) -> dict[str, Any]:
    """What a client may leave behind, to be compared with what was there before."""
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
