"""Methods of storages."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from .app import Call, route
from .errors import ApiError, TaskFailed, fail
from .tasks import Task
from .upload import start

STORAGE = "/nodes/{node}/storage/{storage}"
AUDIT = ("Datastore.Audit", "Datastore.AllocateSpace")


@route("GET /nodes/{node}/storage")
async def storages(call: Call) -> Any:
    call.state.node(call["node"])
    rows = []
    for storage in call.state.storages[call["node"]].values():
        if not any(
            call.app.auth.may(call.user, f"/storage/{storage.name}", name) for name in AUDIT
        ):
            continue
        wanted = str(call.get("content") or "").replace(";", ",").split(",")
        if call.get("storage") not in (None, storage.name) or (
            wanted != [""] and not set(wanted) & set(storage.content)
        ):
            continue
        if call.get("enabled") and not storage.enabled:
            continue
        row = storage.row()
        if call.get("format"):
            supported = ["qcow2", "raw", "vmdk"] if storage.file_based else ["raw"]
            row["formats"] = {"supported": supported, "default": "raw"}
        rows.append(row)
    return rows


@route("GET /storage")
async def definitions(call: Call) -> Any:
    node = next(iter(call.state.nodes))
    return [
        {
            "storage": storage.name,
            "type": storage.kind,
            "content": ",".join(sorted(storage.content)),
            "digest": "0" * 40,
        }
        for storage in call.state.storages[node].values()
        if any(call.app.auth.may(call.user, f"/storage/{storage.name}", name) for name in AUDIT)
    ]


@route("GET /storage/{storage}", "/storage/{storage}", "Datastore.Allocate")
async def definition(call: Call) -> Any:
    node = next(iter(call.state.nodes))
    storage = call.state.storage(node, call["storage"])
    return {
        "storage": storage.name,
        "type": storage.kind,
        "content": ",".join(sorted(storage.content)),
        "digest": "0" * 40,
    }


@route(f"GET {STORAGE}/status", "/storage/{storage}", *AUDIT, any_of=True)
async def status(call: Call) -> Any:
    row = call.state.storage(call["node"], call["storage"]).row()
    return {key: value for key, value in row.items() if key not in ("storage", "used_fraction")}


@route(f"GET {STORAGE}/content", "/storage/{storage}", *AUDIT, any_of=True)
async def content(call: Call) -> Any:
    storage = call.state.storage(call["node"], call["storage"])
    return [
        volume.row()
        for volume in storage.volumes.values()
        if call.get("content") in (None, volume.content) and call.get("vmid") in (None, volume.vmid)
    ]


def volid_of(call: Call) -> str:
    volume = str(call["volume"])
    return volume if ":" in volume else f"{call['storage']}:{volume}"


@route(f"GET {STORAGE}/content/{{volume}}", "/storage/{storage}", *AUDIT, any_of=True)
async def volume(call: Call) -> Any:
    found = call.state.volume(call["node"], volid_of(call))
    if found is None:
        raise fail(f"volume '{volid_of(call)}' does not exist")
    return {"path": str(found.path), "size": found.size, "used": found.size, "format": found.form}


@route(f"DELETE {STORAGE}/content/{{volume}}", "/storage/{storage}", *AUDIT, any_of=True)
async def delete(call: Call) -> Any:
    call.state.storage(call["node"], call["storage"])
    volid = volid_of(call)
    if volid.split(":")[0] != call["storage"]:
        raise fail(f"storage ID missmatch ({volid.split(':')[0]} != {call['storage']}")
    found = call.state.volume(call["node"], volid)
    if found is not None and found.content in ("iso", "import", "vztmpl"):
        call.require(f"/storage/{call['storage']}", "Datastore.AllocateTemplate")

    async def work(task: Task) -> None:
        call.state.storage(call["node"], call["storage"]).lock()
        # A volume that is not there is no error.
        call.state.drop_volume(call["node"], volid)
        task.say(f"Removed volume '{volid}'")

    return call.task(
        "imgdel", volid.split(":", 1)[1].replace("/", "\\x2f") + f"@{call['storage']}", work
    )


@route(f"POST {STORAGE}/download-url", "/storage/{storage}", "Datastore.AllocateTemplate")
async def download(call: Call) -> Any:
    """The server fetches a file itself: from this machine, or else it makes an empty disk of it."""
    # It lets a user look around in the server's own network.
    may = call.app.auth.may
    if not all(may(call.user, "/", name) for name in ("Sys.Audit", "Sys.Modify")) and not may(
        call.user, f"/nodes/{call['node']}", "Sys.AccessNetwork"
    ):
        raise ApiError(403, "Permission check failed")
    call.state.storage(call["node"], call["storage"])
    local = urlsplit(call["url"]).hostname in ("127.0.0.1", "localhost")
    temporary = call.state.dir / f"upload-{secrets.token_hex(8)}"

    async def fetch(task: Task) -> None:
        def run() -> None:
            if not local:
                # Nothing here goes out to the net, and no VM boots what is on its disks.
                temporary.write_bytes(b"QFI\xfb\0\0\0\3" + bytes(65528))
                return
            with (
                urllib.request.urlopen(call["url"], timeout=60) as source,
                temporary.open("wb") as out,
            ):
                shutil.copyfileobj(source, out)

        try:
            await asyncio.to_thread(run)
        except OSError as why:
            raise TaskFailed(f"download failed: {why}") from None

    return start(call.app, call.user, call.params, temporary, fetch)


@route(f"GET {STORAGE}/import-metadata", "/storage/{storage}", *AUDIT, any_of=True)
async def import_metadata(call: Call) -> Any:
    from .ova import metadata

    # Unlike other calls it puts the storage before whatever it is given.
    volid = f"{call['storage']}:{call['volume']}"
    if not str(call["volume"]).startswith("import/"):
        raise fail(f"unable to parse directory volume name '{call['volume']}'")
    found = call.state.volume(call["node"], volid)
    if found is None:
        raise fail(f"volume '{volid}' does not exist")
    return metadata(found)
