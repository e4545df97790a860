"""Methods that few calls need: users and tokens, consoles, services, capabilities."""

from __future__ import annotations

import secrets
from typing import Any

from .app import Call, route
from .errors import fail

PRIVILEGED = "Sys.Audit"


@route("GET /access/users")
async def users(call: Call) -> Any:
    return [{"userid": user, "enable": 1, "expire": 0} for user in sorted(call.app.auth.passwords)]


@route("GET /access/users/{userid}/token")
async def tokens(call: Call) -> Any:
    start = f"{call['userid']}!"
    return [
        {"tokenid": name.removeprefix(start), "privsep": int(token["privsep"]), "expire": 0}
        for name, token in call.app.auth.tokens.items()
        if name.startswith(start)
    ]


@route("POST /access/users/{userid}/token/{tokenid}")
async def token_add(call: Call) -> Any:
    name = f"{call['userid']}!{call['tokenid']}"
    if name in call.app.auth.tokens:
        raise fail(f"Token already exists: {name}")
    secret = secrets.token_hex(16)
    call.app.auth.tokens[name] = {"secret": secret, "privsep": call.get("privsep", True)}
    return {
        "full-tokenid": name,
        "value": secret,
        "info": {"privsep": int(call.get("privsep", True))},
    }


@route("DELETE /access/users/{userid}/token/{tokenid}")
async def token_delete(call: Call) -> Any:
    call.app.auth.tokens.pop(f"{call['userid']}!{call['tokenid']}", None)


@route("GET /access/roles")
async def roles(call: Call) -> Any:
    return [{"roleid": "Administrator", "special": 1, "privs": ""}]


@route("GET /access/acl")
async def acl(call: Call) -> Any:
    return [
        {
            "path": path,
            "ugid": user,
            "type": "token" if "!" in user else "user",
            "roleid": "Custom",
            "propagate": 1,
        }
        for user, grants in call.app.auth.grants.items()
        for path, _ in grants
    ]


@route("GET /cluster/options")
async def options(call: Call) -> Any:
    return {"keyboard": "en-us", "mac_prefix": "BC:24:11"}


@route("GET /nodes/{node}")
async def node_index(call: Call) -> Any:
    call.state.node(call["node"])
    return [
        {"name": name}
        for name in ("qemu", "storage", "tasks", "status", "version", "sdn", "firewall")
    ]


@route("GET /nodes/{node}/config")
async def node_config(call: Call) -> Any:
    call.state.node(call["node"])
    return {"digest": "0" * 40}


@route("GET /nodes/{node}/dns")
async def node_dns(call: Call) -> Any:
    return {"search": "test", "dns1": call.state.node(call["node"]).dns}


@route("GET /nodes/{node}/services/{service}/state", "/nodes/{node}", PRIVILEGED)
async def service(call: Call) -> Any:
    node = call.state.node(call["node"])
    if call["service"] == "dnsmasq" and not node.dnsmasq:
        raise fail("unit 'dnsmasq' not found")
    # Each zone has a service of its own; the common one is off, as it should be.
    running = call["service"] != "dnsmasq"
    return {"service": call["service"], "state": "running" if running else "dead"}


@route("GET /nodes/{node}/capabilities/qemu/cpu")
async def cpus(call: Call) -> Any:
    return [
        {"name": name, "vendor": "default", "custom": 0}
        for name in ("host", "kvm64", "x86-64-v2-AES")
    ]


@route("GET /nodes/{node}/capabilities/qemu/machines")
async def machines(call: Call) -> Any:
    return [
        {"id": "pc-q35-10.1", "type": "q35", "version": "10.1"},
        {"id": "pc-i440fx-10.1", "type": "i440fx", "version": "10.1"},
    ]


@route("GET /nodes/{node}/qemu/{vmid}/feature", "/vms/{vmid}", "VM.Audit")
async def feature(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    return {"hasFeature": 1, "nodes": [vm.node]}


@route("POST /nodes/{node}/qemu/{vmid}/vncproxy", "/vms/{vmid}", "VM.Console")
async def vncproxy(call: Call) -> Any:
    """A console's ticket; nothing listens behind it."""
    vm = call.state.vm(call["node"], call["vmid"])
    if not vm.running:
        raise fail(f"VM {vm.vmid} not running")
    ticket = call.app.auth.ticket(call.user, "PVEVNC", f"/vms/{vm.vmid}")

    async def work(task: Any) -> None:
        await task.spend()

    upid = call.task("vncproxy", vm.vmid, work)
    answer = {"user": call.user, "ticket": ticket, "port": "5999", "upid": upid, "cert": ""}
    if call.get("generate-password"):
        answer["password"] = secrets.token_urlsafe(6)
    return answer


@route("POST /nodes/{node}/qemu/{vmid}/monitor", "/vms/{vmid}", "Sys.Audit")
async def monitor(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    if not vm.running:
        raise fail(f"VM {vm.vmid} not running")
    return ""


@route("PUT /nodes/{node}/qemu/{vmid}/sendkey", "/vms/{vmid}", "VM.Console")
async def sendkey(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    if not vm.running:
        raise fail(f"VM {vm.vmid} not running")


@route("PUT /nodes/{node}/qemu/{vmid}/unlink", "/vms/{vmid}", "VM.Config.Disk")
async def unlink(call: Call) -> Any:
    from .config import Configurer

    vm = call.state.vm(call["node"], call["vmid"])
    vm.check_lock()
    changer = Configurer(call.app, vm, call.user)
    for key in call["idlist"].split(","):
        changer.delete(key)
        for unused in [name for name in vm.config if name.startswith("unused")]:
            if call.get("force"):
                changer.drop(unused)


@route("POST /nodes/{node}/qemu/{vmid}/move_disk", "/vms/{vmid}", "VM.Config.Disk")
async def move_disk(call: Call) -> Any:
    vm = call.state.vm(call["node"], call["vmid"])
    vm.check_lock()
    drives = vm.drives()
    if call["disk"] not in drives:
        raise fail(f"disk '{call['disk']}' does not exist")
    if not call.get("storage"):
        raise fail("no target storage")
    old = call.state.volume(vm.node, drives[call["disk"]].get("file", ""))
    if old is None:
        raise fail("volume does not exist")
    call.state.storage(vm.node, call["storage"])

    async def work(task: Any) -> None:
        new = call.state.new_volume(vm.node, call["storage"], vm.vmid, old.size, "raw")
        call.app.machines.copy_disk(old.path, new.path, linked=False)
        vm.config[call["disk"]] = str(vm.config[call["disk"]]).replace(old.volid, new.volid, 1)
        if call.get("delete"):
            call.state.drop_volume(vm.node, old.volid)

    return call.task("qmmove", vm.vmid, work)
