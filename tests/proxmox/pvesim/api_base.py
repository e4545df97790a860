"""Methods about the server itself: login, version, nodes, tasks, pools, storages' lists."""

from __future__ import annotations

import time
from typing import Any

from .app import Call, route
from .errors import ApiError, fail
from .state import Node

GIB = 1 << 30


@route("POST /access/ticket")
async def login(call: Call) -> Any:
    user = call["username"]
    if "@" not in user:
        user = f"{user}@{call.get('realm', 'pam')}"
    return call.app.auth.login(user, call["password"])


@route("GET /version")
async def version(call: Call) -> Any:
    full = call.app.version
    parts = full.split(".")
    return {
        "version": full if len(parts) > 2 else f"{full}.11",
        "release": ".".join(parts[:2]),
        "repoid": "14a22df3",
    }


@route("GET /nodes/{node}/version")
async def node_version(call: Call) -> Any:
    call.state.node(call["node"])
    return await version(call)


@route("GET /access/permissions")
async def permissions(call: Call) -> Any:
    auth = call.app.auth
    user = call.get("userid") or call.user
    if auth.privileges(user, "/") is None:
        every = dict.fromkeys(ALL_PRIVILEGES, 1)
        paths = ["/", "/vms", "/storage", "/nodes", "/pool", "/access", "/sdn", "/mapping"]
        wanted = call.get("path")
        return dict.fromkeys([wanted] if wanted else paths, every)
    result: dict[str, dict[str, int]] = {}
    for path, privileges in auth.grants.get(user, []):
        if not call.get("path") or call["path"] == path:
            result[path] = dict.fromkeys(sorted(privileges), 1)
    return result


ALL_PRIVILEGES = [
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
]


def status_of(node: Node) -> str:
    if not node.online:
        return "offline"
    return "online" if node.reports else "unknown"


@route("GET /nodes")
async def nodes(call: Call) -> Any:
    rows = []
    for node in call.state.nodes.values():
        row: dict[str, Any] = {
            "node": node.name,
            "id": f"node/{node.name}",
            "type": "node",
            "status": status_of(node),
            "ssl_fingerprint": call.app.options.fingerprint,
        }
        if node.online and node.reports:
            row.update(
                cpu=0.02,
                maxcpu=node.cpus,
                mem=call.state.memory_used(node.name),
                maxmem=node.memory,
                disk=3 * GIB,
                maxdisk=100 * GIB,
                uptime=int(time.time() - call.app.started) + 3600,
                level="",
            )
        rows.append(row)
    return rows


@route("GET /nodes/{node}/status", "/nodes/{node}", "Sys.Audit")
async def node_status(call: Call) -> Any:
    node = call.state.node(call["node"])
    used = call.state.memory_used(node.name)
    return {
        "memory": {
            "total": node.memory,
            "used": used,
            "free": node.memory - used,
            "available": node.memory - used,
        },
        "swap": {"total": 8 * GIB, "used": 0, "free": 8 * GIB},
        "rootfs": {"total": 100 * GIB, "used": 3 * GIB, "free": 97 * GIB, "avail": 97 * GIB},
        "cpuinfo": {
            "cpus": node.cpus,
            "cores": node.cpus,
            "sockets": 1,
            "model": "QEMU",
            "hvm": "1" if node.kvm else 0,
            "mhz": "2400.000",
        },
        "loadavg": ["0.10", "0.10", "0.10"],
        "cpu": 0.02,
        "wait": 0,
        "idle": 0,
        "uptime": int(time.time() - call.app.started) + 3600,
        "pveversion": f"pve-manager/{call.app.version}/14a22df3",
        "kversion": "Linux 6.17.2-1-pve",
        "ksm": {"shared": 0},
        "boot-info": {"mode": "efi", "secureboot": 0},
        "current-kernel": {
            "sysname": "Linux",
            "release": "6.17.2-1-pve",
            "version": "#1 SMP",
            "machine": "x86_64",
        },
    }


@route("GET /nodes/{node}/time", "/nodes/{node}", "Sys.Audit")
async def node_time(call: Call) -> Any:
    call.state.node(call["node"])
    now = int(time.time() + call.app.faults_clock)
    return {"time": now, "localtime": now, "timezone": "Etc/UTC"}


@route("GET /nodes/{node}/network")
async def node_network(call: Call) -> Any:
    call.state.node(call["node"])
    rows = [
        {"iface": "vmbr0", "type": "bridge", "active": 1, "autostart": 1, "cidr": "192.0.2.10/24"}
    ]
    if call.get("type") in (None, "any_bridge", "include_sdn"):
        rows += [
            {"iface": vnet, "type": "vnet", "active": 1}
            for vnet in sorted(call.app.sdn.running["vnets"])
        ]
    return rows


@route("GET /nodes/{node}/services")
async def services(call: Call) -> Any:
    node = call.state.node(call["node"])
    rows = [
        service_row(name, True) for name in ("pveproxy", "pvedaemon", "pvestatd", "pve-firewall")
    ]
    return [*rows, service_row("dnsmasq", False)] if node.dnsmasq else rows


def service_row(name: str, running: bool) -> dict[str, Any]:
    state = "running" if running else "dead"
    return {
        "service": name,
        "name": name,
        "desc": name,
        "state": state,
        "active-state": "active" if running else "inactive",
        "unit-state": "enabled",
    }


@route("GET /cluster/nextid")
async def nextid(call: Call) -> Any:
    wanted = call.get("vmid")
    if wanted is not None:
        if wanted in call.state.vms:
            raise ApiError(
                400, "Parameter verification failed.", {"vmid": f"VM {wanted} already exists"}
            )
        return str(wanted)
    return str(call.state.free_vmid())


@route("GET /cluster/status")
async def cluster_status(call: Call) -> Any:
    return [
        {
            "id": f"node/{name}",
            "name": name,
            "type": "node",
            "online": int(node.online),
            "local": int(index == 0),
            "nodeid": 0,
            "ip": "192.0.2.10",
            "level": "",
        }
        for index, (name, node) in enumerate(call.state.nodes.items())
    ]


@route("GET /cluster/resources")
async def resources(call: Call) -> Any:
    wanted = call.get("type")
    rows: list[dict[str, Any]] = []
    auth = call.app.auth
    if wanted in (None, "vm"):
        for vm in call.state.vms.values():
            if auth.may(call.user, f"/vms/{vm.vmid}", "VM.Audit"):
                row = {
                    **vm.status(),
                    "id": f"qemu/{vm.vmid}",
                    "type": "qemu",
                    "node": vm.node,
                    "template": int(vm.template),
                }
                pool = call.state.pool_of(vm.vmid)
                rows.append({**row, "pool": pool} if pool else row)
    if wanted in (None, "node"):
        rows += [{**row, "type": "node"} for row in await nodes(call)]
    if wanted in (None, "storage"):
        for node, storages in call.state.storages.items():
            for storage in storages.values():
                row = storage.row()
                rows.append(
                    {
                        "id": f"storage/{node}/{storage.name}",
                        "type": "storage",
                        "node": node,
                        "storage": storage.name,
                        "status": "available",
                        "content": row["content"],
                        "plugintype": storage.kind,
                        "shared": 0,
                        "disk": row["used"],
                        "maxdisk": row["total"],
                    }
                )
    if wanted in (None, "sdn"):
        for node in call.state.nodes:
            for row in call.app.sdn.status(node):
                rows.append(
                    {
                        "id": f"sdn/{node}/{row['zone']}",
                        "type": "sdn",
                        "node": node,
                        "sdn": row["zone"],
                        "status": row["status"],
                    }
                )
    return rows


@route("GET /cluster/tasks")
async def cluster_tasks(call: Call) -> Any:
    return [task.row() for task in reversed(call.app.tasks.by_upid.values())][:100]


@route("GET /nodes/{node}/tasks")
async def tasks(call: Call) -> Any:
    rows = []
    source = call.get("source", "archive")
    for task in reversed(call.app.tasks.by_upid.values()):
        if (
            task.node != call["node"]
            or (source == "archive" and task.end is None)
            or (source == "active" and task.end)
        ):
            continue
        if call.get("vmid") and task.ident != str(call["vmid"]):
            continue
        if call.get("typefilter") and task.kind != call["typefilter"]:
            continue
        if call.get("errors") and task.exit in ("", "OK"):
            continue
        if call.get("since") and task.start < call["since"]:
            continue
        rows.append(task.row())
    start = call.get("start", 0)
    return rows[start : start + call.get("limit", 50)]


def task_of(call: Call) -> Any:
    task = call.app.tasks.get(call["upid"])
    if task.user.split("!")[0] != call.user.split("!")[0]:
        call.require(f"/nodes/{call['node']}", "Sys.Audit")
    return task


@route("GET /nodes/{node}/tasks/{upid}/status")
async def task_status(call: Call) -> Any:
    return task_of(call).status()


@route("GET /nodes/{node}/tasks/{upid}/log")
async def task_log(call: Call) -> Any:
    lines = task_of(call).log or ["no content"]
    start = call.get("start", 0)
    return [{"n": number, "t": line} for number, line in enumerate(lines, 1)][
        start : start + call.get("limit", 50)
    ]


@route("DELETE /nodes/{node}/tasks/{upid}")
async def task_stop(call: Call) -> Any:
    task = call.app.tasks.get(call["upid"])
    if task.user.split("!")[0] != call.user.split("!")[0]:
        call.require(f"/nodes/{call['node']}", "Sys.Modify")
    call.app.tasks.stop(call["upid"])


# --- pools ---


@route("GET /pools")
async def pools(call: Call) -> Any:
    rows = []
    for name, pool in sorted(call.state.pools.items()):
        if call.get("poolid") in (None, name):
            row: dict[str, Any] = {"poolid": name, "comment": pool["comment"]}
            if call.get("poolid"):
                row["members"] = members(call, pool)
            rows.append(row)
    if call.get("poolid") and not rows:
        raise fail(f"pool '{call['poolid']}' does not exist")
    return rows


def members(call: Call, pool: dict[str, Any]) -> list[dict[str, Any]]:
    vms = [call.state.vms[vmid] for vmid in sorted(pool["vms"]) if vmid in call.state.vms]
    return [{**vm.status(), "id": f"qemu/{vm.vmid}", "type": "qemu", "node": vm.node} for vm in vms]


@route("GET /pools/{poolid}")
async def pool_get(call: Call) -> Any:
    pool = call.state.pools.get(call["poolid"])
    if pool is None:
        raise fail(f"pool '{call['poolid']}' does not exist")
    return {"comment": pool["comment"], "members": members(call, pool)}


@route("POST /pools", "/pool/{poolid}", "Pool.Allocate")
async def pool_add(call: Call) -> Any:
    if call["poolid"] in call.state.pools:
        raise fail(f"create pool failed: pool '{call['poolid']}' already exists")
    call.state.pools[call["poolid"]] = {"comment": call.get("comment", ""), "vms": set()}


@route("PUT /pools", "/pool/{poolid}", "Pool.Allocate")
@route("PUT /pools/{poolid}", "/pool/{poolid}", "Pool.Allocate")
async def pool_change(call: Call) -> Any:
    pool = call.state.pools.get(call["poolid"])
    if pool is None:
        raise fail(f"update pools failed: pool '{call['poolid']}' does not exist")
    if "comment" in call.params:
        pool["comment"] = call["comment"]
    for text in str(call.get("vms") or "").replace(";", ",").split(","):
        if text and call.get("delete"):
            pool["vms"].discard(int(text))
        elif text:
            other = call.state.pool_of(int(text))
            if other and not call.get("allow-move"):
                raise fail(f"update pools failed: VM {text} is already a pool member")
            pool["vms"].add(int(text))


@route("DELETE /pools", "/pool/{poolid}", "Pool.Allocate")
@route("DELETE /pools/{poolid}", "/pool/{poolid}", "Pool.Allocate")
async def pool_delete(call: Call) -> Any:
    pool = call.state.pools.get(call["poolid"])
    if pool is None:
        raise fail(f"delete pool failed: pool '{call['poolid']}' does not exist")
    if pool["vms"]:
        raise fail(
            f"delete pool failed: pool '{call['poolid']}' is not empty (contains VM "
            f"{min(pool['vms'])})"
        )
    del call.state.pools[call["poolid"]]
