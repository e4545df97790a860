"""Methods of software defined networks."""

from __future__ import annotations

import secrets
from typing import Any

from .app import Call, route
from .errors import TaskFailed, fail
from .tasks import Task


def view(call: Call, kind: str) -> list[dict[str, Any]]:
    rows = call.app.sdn.listed(kind, bool(call.get("pending")), bool(call.get("running")))
    may = call.app.auth.may
    shown = []
    for row in rows:
        path = "/sdn/zones/" + (
            row["zone"] if kind != "vnets" else f"{row.get('zone', '')}/{row['vnet']}"
        )
        if may(call.user, path, "SDN.Audit") or may(call.user, path, "SDN.Allocate"):
            shown.append(row)
    return shown


def changes(call: Call) -> dict[str, Any]:
    """The parameters of a change; it is refused while somebody else holds the lock."""
    params = dict(call.params)
    call.app.sdn.check_lock(params.pop("lock-token", None))
    return params


def change(entry: dict[str, Any], params: dict[str, Any]) -> None:
    for name in str(params.pop("delete", "")).split(","):
        entry.pop(name, None)
    params.pop("digest", None)
    entry.update(params)


def own(call: Call, kind: str, name: str) -> dict[str, Any]:
    """A vnet, or a subnet of one, that the caller may change."""
    entry: dict[str, Any] = call.app.sdn.one(kind, name)
    call.require(f"/sdn/zones/{entry['zone']}/{call['vnet']}", "SDN.Allocate")
    return entry


@route("GET /cluster/sdn/zones")
async def zones(call: Call) -> Any:
    return [row for row in view(call, "zones") if call.get("type") in (None, row["type"])]


@route("GET /cluster/sdn/zones/{zone}", "/sdn/zones/{zone}", "SDN.Allocate")
async def zone(call: Call) -> Any:
    sdn = call.app.sdn
    return sdn.shown("zones", call["zone"], sdn.one("zones", call["zone"]))


@route("POST /cluster/sdn/zones", "/sdn/zones", "SDN.Allocate")
async def zone_add(call: Call) -> Any:
    params = changes(call)
    node = next(iter(call.state.nodes.values()))
    if params.get("dhcp") == "dnsmasq" and not node.dnsmasq:
        raise fail("create sdn zone object failed: Could not find dnsmasq on this system")
    call.app.sdn.add_zone(params)


@route("PUT /cluster/sdn/zones/{zone}", "/sdn/zones/{zone}", "SDN.Allocate")
async def zone_change(call: Call) -> Any:
    params = changes(call)
    change(call.app.sdn.one("zones", params.pop("zone")), params)


@route("DELETE /cluster/sdn/zones/{zone}", "/sdn/zones/{zone}", "SDN.Allocate")
async def zone_delete(call: Call) -> Any:
    changes(call)
    call.app.sdn.delete_zone(call["zone"])


@route("GET /cluster/sdn/vnets")
async def vnets(call: Call) -> Any:
    return view(call, "vnets")


@route("GET /cluster/sdn/vnets/{vnet}")
async def vnet(call: Call) -> Any:
    sdn = call.app.sdn
    return sdn.shown("vnets", call["vnet"], sdn.one("vnets", call["vnet"]))


@route("POST /cluster/sdn/vnets", "/sdn/zones/{zone}", "SDN.Allocate")
async def vnet_add(call: Call) -> Any:
    params = changes(call)
    for name in ("vlanaware", "isolate-ports"):
        if name in params:
            params[name] = int(params[name])
    call.app.sdn.add_vnet(params)


@route("PUT /cluster/sdn/vnets/{vnet}")
async def vnet_change(call: Call) -> Any:
    params = changes(call)
    change(own(call, "vnets", params.pop("vnet")), params)


@route("DELETE /cluster/sdn/vnets/{vnet}")
async def vnet_delete(call: Call) -> Any:
    changes(call)
    own(call, "vnets", call["vnet"])
    call.app.sdn.delete_vnet(call["vnet"])
    call.state.firewall.pop(f"vnet/{call['vnet']}", None)


@route("GET /cluster/sdn/vnets/{vnet}/subnets")
async def subnets(call: Call) -> Any:
    call.app.sdn.one("vnets", call["vnet"])
    rows = call.app.sdn.listed("subnets", bool(call.get("pending")), bool(call.get("running")))
    return [row for row in rows if row.get("vnet") == call["vnet"]]


@route("GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}")
async def subnet(call: Call) -> Any:
    sdn = call.app.sdn
    return sdn.shown("subnets", call["subnet"], sdn.one("subnets", call["subnet"]))


@route("POST /cluster/sdn/vnets/{vnet}/subnets")
async def subnet_add(call: Call) -> Any:
    params = changes(call)
    entry = call.app.sdn.config["vnets"].get(call["vnet"], {})
    call.require(f"/sdn/zones/{entry.get('zone', '')}/{call['vnet']}", "SDN.Allocate")
    call.app.sdn.add_subnet(params)


@route("PUT /cluster/sdn/vnets/{vnet}/subnets/{subnet}")
async def subnet_change(call: Call) -> Any:
    params = changes(call)
    entry = own(call, "subnets", params.pop("subnet"))
    change(
        entry,
        {key: int(value) if isinstance(value, bool) else value for key, value in params.items()},
    )


@route("DELETE /cluster/sdn/vnets/{vnet}/subnets/{subnet}")
async def subnet_delete(call: Call) -> Any:
    changes(call)
    own(call, "subnets", call["subnet"])
    call.app.sdn.delete_subnet(call["vnet"], call["subnet"])


@route("PUT /cluster/sdn", "/sdn", "SDN.Allocate")
async def apply(call: Call) -> Any:
    sdn = call.app.sdn
    sdn.check_lock(call.get("lock-token"))
    if sdn.token and call.get("release-lock", True):
        sdn.token = ""

    sdn.commit()
    sdn.reloading += 1

    async def work(task: Task) -> None:
        try:
            await reload(task)
        finally:
            sdn.reloading -= 1

    async def reload(task: Task) -> None:
        version = sdn.version
        await task.spend()
        for name in call.state.nodes:
            task.say(f"{name}: reloading network config")
            # The genuine server's task ends well, whatever comes of this one.
            await reload_node(name, version)

    async def reload_node(name: str, version: int) -> None:
        tasks = call.app.tasks

        async def work(task: Task) -> None:
            if sdn.reload_node(name, version):
                return
            zone = max(sdn.running["zones"], default="lo")
            task.say(f"error: {zone}: failed to create bridge: File exists")
            task.say("error: please run 'ifreload -a' by hand")
            raise TaskFailed("command 'ifreload -a' failed: exit code 1")

        upid = tasks.start(name, "srvreload", "networking", call.user, work, seconds=0)
        await tasks.running[upid]

    return call.task("reloadnetworkall", "", work, early=True)


@route("POST /cluster/sdn/lock", "/sdn", "SDN.Allocate")
async def lock(call: Call) -> Any:
    if call.app.sdn.token:
        raise fail("global SDN config lock is held")
    call.app.sdn.token = secrets.token_hex(16)
    return call.app.sdn.token


@route("DELETE /cluster/sdn/lock", "/sdn", "SDN.Allocate")
async def unlock(call: Call) -> Any:
    if not call.get("force"):
        call.app.sdn.check_lock(call.get("lock-token"))
    call.app.sdn.token = ""


@route("GET /cluster/sdn/ipams")
async def ipams(call: Call) -> Any:
    return [{"ipam": "pve", "type": "pve", "digest": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}]


@route("GET /cluster/sdn/ipams/{ipam}/status")
async def ipam_status(call: Call) -> Any:
    if call["ipam"] != "pve":
        raise fail("Currently only PVE IPAM is supported!")
    may = call.app.auth.may
    return [
        row
        for row in call.app.sdn.rows()
        if may(call.user, f"/sdn/zones/{row['zone']}/{row['vnet']}", "SDN.Audit")
    ]


@route("POST /cluster/sdn/vnets/{vnet}/ips", "/sdn/zones/{zone}/{vnet}", "SDN.Allocate")
async def address_add(call: Call) -> Any:
    call.app.sdn.add_address(call["vnet"], call["ip"], call.get("mac", ""))


@route("PUT /cluster/sdn/vnets/{vnet}/ips", "/sdn/zones/{zone}/{vnet}", "SDN.Allocate")
async def address_change(call: Call) -> Any:
    sdn = call.app.sdn
    mac = call.get("mac", "")
    old = sdn.free_card(call["vnet"], mac)
    if not old:
        raise fail("can't find any subnet for ip  at Subnets.pm line 118.")
    try:
        sdn.add_address(call["vnet"], call["ip"], mac, call.get("vmid", 0))
    except Exception:
        sdn.add_address(call["vnet"], old, mac, call.get("vmid", 0))
        raise


@route("DELETE /cluster/sdn/vnets/{vnet}/ips", "/sdn/zones/{zone}/{vnet}", "SDN.Allocate")
async def address_delete(call: Call) -> Any:
    call.app.sdn.delete_address(call["vnet"], call["ip"], call.get("mac", ""))


@route("GET /nodes/{node}/sdn/zones")
async def node_zones(call: Call) -> Any:
    call.state.node(call["node"])
    return call.app.sdn.status(call["node"])


@route("GET /nodes/{node}/sdn/zones/{zone}/content", "/sdn/zones/{zone}", "SDN.Audit")
async def node_zone_content(call: Call) -> Any:
    call.state.node(call["node"])
    return call.app.sdn.content(call["node"], call["zone"])
