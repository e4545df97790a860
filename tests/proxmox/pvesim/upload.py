"""Uploads: a multipart body read as strictly as the genuine server reads it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ApiError, TaskFailed, bad_parameters, fail
from .http import Answer, Dropped, Request, decode_form
from .state import Volume
from .tasks import Task, Work

if TYPE_CHECKING:
    from .app import App

PIECE = 1 << 16
HEAD_MAX = 4096
SUFFIXES = {
    "iso": (".iso", ".img"),
    "import": (".ova", ".qcow2", ".raw", ".vmdk"),
    "vztmpl": (".tar.gz", ".tar.xz", ".tar.zst"),
}
# Disk images came later than OVAs.
DISKS_SINCE = (8, 4)
ORDER = ["content", "checksum-algorithm", "checksum", "filename"]


class Body:
    """The rest of a request's body, read in pieces; a client that stops is cut off."""

    def __init__(self, request: Request, idle: float) -> None:
        self.request = request
        self.left = request.length
        self.idle = idle
        self.buffer = b""

    async def more(self) -> bool:
        if self.left <= 0:
            return False
        piece = await asyncio.wait_for(self.request.reader.read(min(PIECE, self.left)), self.idle)
        if not piece:
            raise Dropped
        self.left -= len(piece)
        self.buffer += piece
        return True

    async def until(self, mark: bytes, limit: int) -> bytes:
        while mark not in self.buffer:
            if len(self.buffer) > limit or not await self.more():
                raise ApiError(400, "Bad Request")
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    async def to_file(self, mark: bytes, file: Any) -> int:
        """Everything up to the mark, to a file."""
        size = 0
        while mark not in self.buffer:
            keep = len(mark) - 1
            if len(self.buffer) > keep:
                size += file.write(self.buffer[:-keep])
                self.buffer = self.buffer[-keep:]
            if not await self.more():
                raise ApiError(400, "Bad Request")
        data, self.buffer = self.buffer.split(mark, 1)
        return size + int(file.write(data))


async def receive(
    app: App, request: Request, user: str, path: dict[str, str], entry: dict[str, Any]
) -> Answer:
    kind = request.headers.get("content-type", "")
    match = re.search(r'multipart/form-data;.*boundary="?([^";]+)"?', kind)
    if not match or not request.length:
        raise ApiError(501, f"upload 'Content-Type '{kind}' not implemented")
    body = Body(request, app.idle)
    temporary = app.state.dir / f"upload-{secrets.token_hex(8)}"
    try:
        fields = await read_parts(body, match.group(1).encode(), temporary)
        while await body.more():
            body.buffer = b""
        given = {**decode_form(request.query), **fields, **path}
        entry["params"] = dict(fields)
        found = app.table.find("POST", f"/nodes/{path['node']}/storage/{path['storage']}/upload")
        assert found is not None
        params = found[0].check(given)
        upid = start(app, user, params, temporary)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    answer = Answer(200, json.dumps({"data": upid}).encode())
    answer.close = True
    return answer


async def read_parts(body: Body, boundary: bytes, temporary: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    await body.until(b"--" + boundary + b"\r\n", HEAD_MAX)
    last = -1
    while True:
        head = (await body.until(b"\r\n\r\n", HEAD_MAX)).decode("utf-8", "replace")
        name = re.search(r'\bname="([^"]*)"', head)
        if not name or name.group(1) not in ORDER or ORDER.index(name.group(1)) <= last:
            # The genuine server takes the fields in one order only.
            raise bare_refusal()
        last = ORDER.index(name.group(1))
        if name.group(1) == "filename":
            file = re.search(r'\bfilename="([^"]*)"', head)
            if not file or "content" not in fields:
                raise bare_refusal()
            with temporary.open("wb") as out:
                await body.to_file(b"\r\n--" + boundary, out)
            fields["filename"] = os.path.basename(file.group(1))
            return fields
        fields[name.group(1)] = (await body.until(b"\r\n--" + boundary + b"\r\n", HEAD_MAX)).decode(
            "utf-8", "replace"
        )


def bare_refusal() -> ApiError:
    error = ApiError(400, "Bad Request")
    error.empty = True
    return error


def start(
    app: App, user: str, params: dict[str, Any], temporary: Path, fetch: Work | None = None
) -> str:
    """The task that makes a volume of a file, which is there or is still to be fetched."""
    node, name = params["node"], params["storage"]
    app.auth.require(user, f"/storage/{name}", "Datastore.AllocateTemplate")
    storage = app.state.storage(node, name)
    content = params["content"]
    if content not in storage.content:
        raise fail(
            f"can't upload to storage type '{storage.kind}', unsupported content type '{content}'"
            if storage.kind != "dir"
            else f"storage '{name}' does not support '{content}' content"
        )
    file = re.sub(r"[^-a-zA-Z0-9_.]", "_", params["filename"])
    check_suffix(content, file, app.release)
    if fetch is None and temporary.stat().st_size == 0 and content == "import":
        raise fail("upload of an empty file")
    volid = f"{name}:{content}/{file}"

    async def work(task: Task) -> None:
        target = app.state.dir / node / name / f"{content}_{file}"
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if fetch:
                await fetch(task)
            if params.get("checksum"):
                check(params["checksum-algorithm"], params["checksum"], temporary)
            task.say(f"target file: {target}")
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        form = file.rsplit(".", 1)[-1]
        storage.volumes[volid] = Volume(volid, content, form, target.stat().st_size, target)
        app.made.append(f"volume {volid}")

    # A download is named after its file, a copy is not.
    kind, ident = ("download", file) if fetch else ("imgcopy", "")
    return app.tasks.start(node, kind, ident, user, work)


def check_suffix(content: str, file: str, release: tuple[int, int]) -> None:
    taken = SUFFIXES[content]
    if content != "import":
        if not file.endswith(taken):
            raise bad_parameters({"filename": "wrong file extension"})
    elif not file.endswith(taken if release >= DISKS_SINCE else taken[:1]):
        raise bad_parameters({"filename": "invalid filename or wrong extension"})


def check(algorithm: str, wanted: str, path: Path) -> None:
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != wanted.lower():
        raise TaskFailed(f"checksum mismatch: got '{digest.hexdigest()}' != expect '{wanted}'")
