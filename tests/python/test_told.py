"""Commands and paths that are impossible: the model is told, and its sample goes on.

The daemon's answers are those of guests that are hard to get: Windows, and guests in trouble.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import inspect_ai.util
import pytest

from inspect_moat import MoatSandboxEnvironment
from inspect_moat._connect import connect
from inspect_moat._running_sandboxes import running_sandboxes
from inspect_moat._wire import Message
from rogue_daemon import Peer, rogue_daemon

pytestmark = pytest.mark.anyio

HALF = "\ud800"  # half a character, as models write them at times
WHOLE = "\N{REPLACEMENT CHARACTER}"


async def a_machine() -> MoatSandboxEnvironment:
    return MoatSandboxEnvironment(await connect(), "3f9a1c20", "only")


async def ended(peer: Peer, message: Message, code: int = 0, stdout: bytes = b"") -> None:
    if stdout:
        await peer.send({"type": "data", "id": message["id"], "stream": "stdout"}, stdout)
    await peer.result(message["id"], exit_code=code, signal=0, timed_out=False)


async def test_windows_has_no_other_users(runtime_dir: Path) -> None:
    async def windows(peer: Peer, message: Message) -> None:
        if message["args"]["argv"] == ["pwd"]:
            await ended(peer, message, 9009)
        else:
            await peer.error(message["id"], "unsupported", "no other users on Windows")

    async with rogue_daemon(runtime_dir, windows):
        machine = await a_machine()
        with pytest.raises(
            inspect_ai.util.SandboxUserUnsupportedError, match="root: no other users"
        ):
            await machine.exec(["whoami"], user="root")


async def test_a_command_that_windows_cannot_run_is_an_ordinary_failure(runtime_dir: Path) -> None:
    async def windows(peer: Peer, message: Message) -> None:
        await peer.error(message["id"], "unsupported", "a line break and a directory")

    async with rogue_daemon(runtime_dir, windows):
        result = await (await a_machine()).exec(["echo", "a\nb"], cwd="C:\\")
    assert not result.success
    assert result.stderr == "echo: a line break and a directory\n"


async def test_half_characters(runtime_dir: Path) -> None:
    async def answer(peer: Peer, message: Message) -> None:
        await ended(peer, message)

    async with rogue_daemon(runtime_dir, answer) as daemon:
        machine = await a_machine()
        await machine.exec(["a"], cwd=f"/{HALF}", env={HALF: HALF}, user=HALF)
        for step in (machine.write_file(f"/{HALF}", "text"), machine.read_file(f"/{HALF}")):
            with pytest.raises(FileNotFoundError) as caught:
                await step
            assert caught.value.filename == f"/{WHOLE}"
    (command,) = daemon.requests("exec")
    sent = {name: command["args"][name] for name in ("cwd", "env", "user")}
    assert sent == {"cwd": f"/{WHOLE}", "env": {WHOLE: WHOLE}, "user": WHOLE}
    assert daemon.requests("write") == daemon.requests("read") == []


async def test_the_directory_of_a_guest_in_trouble_is_asked_for_again(runtime_dir: Path) -> None:
    answers: list[Any] = ["late", (1, b"/nonsense\n"), (0, b"/home/user\n")]

    async def troubled(peer: Peer, message: Message) -> None:
        if message["args"]["argv"] != ["pwd"]:
            await ended(peer, message)
        elif (answer := answers.pop(0)) == "late":
            await peer.error(message["id"], "timeout", "the deadline passed")
        else:
            await ended(peer, message, *answer)

    async with rogue_daemon(runtime_dir, troubled) as daemon:
        machine = await a_machine()
        for _ in range(3):
            await machine.exec(["id"], user="root", timeout=9)
    places = [one["args"].get("cwd") for one in daemon.requests("exec")]
    assert [place for place in places if place] == ["/home/user/"] * 2
    assert answers == []


async def test_a_restore_is_of_all_directories(runtime_dir: Path) -> None:
    places = ["/before", "/after"]

    async def answer(peer: Peer, message: Message) -> None:
        if message["op"] == "restore":
            del places[0]
        await ended(peer, message, 0, places[0].encode())

    async with rogue_daemon(runtime_dir, answer) as daemon:
        one = await a_machine()
        other = MoatSandboxEnvironment(one._connection, one.sandbox_id, "other")
        await one.exec(["id"], user="root")
        await other.restore_snapshot("clean")
        await one.exec(["id"], user="root")
    asked = [one["args"].get("cwd") for one in daemon.requests("exec")]
    assert asked == [None, "/before/", None, "/after/"]


async def test_only_what_inspect_staged_is_read_as_root(runtime_dir: Path) -> None:
    """Checkpoints copy a file there as root, then read it as the default user of a container."""

    async def strict(peer: Peer, message: Message) -> None:
        if message["args"].get("user") == "root":
            await peer.send({"type": "data", "id": message["id"], "stream": "body"}, b"chunk")
            await peer.result(message["id"], size=5, mode=0o600)
        else:
            await peer.error(message["id"], "permission", "denied", errno=13)

    staged = "/root/.cache/inspect/restic/chunk"
    others = ["/root/.cache/inspect", f"{staged}/../../../secret", "/root/.cache/inspector/x", "x"]
    async with rogue_daemon(runtime_dir, strict) as daemon:
        machine = await a_machine()
        assert await machine.read_file(staged, text=False) == b"chunk"
        for path in others:
            with pytest.raises(PermissionError):
                await machine.read_file(path)
    assert [one["args"].get("user") for one in daemon.requests("read")] == [
        None,
        "root",
        *[None] * 4,
    ]


async def test_a_sandbox_that_cannot_be_told_apart_is_removed_at_once(runtime_dir: Path) -> None:
    """Inspect does not clean up after a sample_init that failed."""

    async def answer(peer: Peer, message: Message) -> None:
        nobody = {"sandbox": "3f9a1c20", "vms": [{"name": "only", "sandbox": False}]}
        await peer.result(message["id"], **(nobody if message["op"] == "up" else {}))

    async with rogue_daemon(runtime_dir, answer) as daemon:
        with pytest.raises(IndexError):
            await MoatSandboxEnvironment.sample_init("task", None, {})
        assert running_sandboxes() == {}
    assert [one["args"] for one in daemon.requests("rm")] == [{"sandboxes": ["3f9a1c20"]}]
