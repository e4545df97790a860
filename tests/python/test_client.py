"""The client with the real daemon, under asyncio and trio."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from inspect_moat import MoatSandboxEnvironment
from inspect_moat._client import OPEN_REQUESTS_MAX, Connection
from inspect_moat._connect import connect
from inspect_moat._daemon import socket_path
from inspect_moat._errors import MoatError, MoatNotInstalledError
from inspect_moat._wire import Message
from real_daemon import Moat

pytestmark = pytest.mark.anyio

PATIENCE = 120.0


def inside(machine: MoatSandboxEnvironment, **args: Any) -> dict[str, Any]:
    return {"sandbox": machine.sandbox_id, "vm": machine.vm_name, **args}


async def test_one_connection_for_all_tasks(bare: Moat) -> None:
    connections: list[int] = []

    async def one() -> None:
        connections.append((await (await connect()).request("info", {})).result["connections"])

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(one)
    assert connections == [1] * 50


async def test_no_input_is_not_empty_input(machine: MoatSandboxEnvironment) -> None:
    connection = await connect()
    with pytest.raises(MoatError, match="write needs input"):
        await connection.request("write", inside(machine, path="empty"))
    reply = await connection.request("write", inside(machine, path="empty"), input=b"")
    assert reply.result["size"] == 0


async def test_error_with_all_its_parts(machine: MoatSandboxEnvironment) -> None:
    with pytest.raises(MoatError) as caught:
        await (await connect()).request("read", inside(machine, path="/no/such"))
    assert (caught.value.kind, caught.value.errno) == ("not_found", 2)
    assert "/no/such" in caught.value.message


async def test_progress_is_handed_on(bare: Moat) -> None:
    add_recipe(bare, "news", "echo progress 1 2 halfway; exit 1")
    seen: list[Message] = []
    with pytest.raises(MoatError):
        await (await connect()).request("image.build", {"image": "news"}, progress=seen.append)
    assert ("halfway", 1, 2) in [
        (message["text"], message.get("done"), message.get("total")) for message in seen
    ]


def add_recipe(moat: Moat, name: str, script: str) -> None:
    recipes = Path(moat.settings["MOAT_DATA_DIR"]) / "recipes"
    recipes.mkdir(parents=True, exist_ok=True)
    (recipes / f"{name}.sh").write_text(f"#!/bin/sh\n{script}\n")


async def test_input_larger_than_the_window(machine: MoatSandboxEnvironment) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    connection = await connect()
    reply = await connection.request("write", inside(machine, path="large"), input=data)
    assert reply.result["size"] == len(data)
    assert (await connection.request("read", inside(machine, path="large"))).body == data


async def test_an_answer_in_the_middle_ends_the_input(machine: MoatSandboxEnvironment) -> None:
    connection = await connect()
    with pytest.raises(MoatError) as caught, anyio.fail_after(PATIENCE):
        await connection.request("write", inside(machine, path="/etc/x"), input=bytes(1 << 23))
    assert caught.value.kind == "permission"
    assert (await connection.request("info", {})).result["operations"] >= 1


async def test_a_cancelled_task_cancels_the_request(machine: MoatSandboxEnvironment) -> None:
    connection = await connect()

    async def until_it_runs(runs: bool) -> None:
        with anyio.fail_after(PATIENCE):
            while ("sleep 3561" in (await machine.exec(["ps", "-o", "args"])).stdout) != runs:  # noqa: ASYNC110
                await anyio.sleep(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.request, "exec", inside(machine, argv=["sleep", "3561"]))
        await until_it_runs(True)
        tasks.cancel_scope.cancel()
    await until_it_runs(False)


async def test_cancelled_requests_make_room_for_others(machine: MoatSandboxEnvironment) -> None:
    connection = await connect()
    endless = inside(machine, kind="console", follow=True)
    async with anyio.create_task_group() as tasks:
        for _ in range(OPEN_REQUESTS_MAX):
            tasks.start_soon(connection.request, "logs", endless)
        while len(connection._calls) < OPEN_REQUESTS_MAX:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        with anyio.move_on_after(0.2) as scope:
            await connection.request("ls", {})
        assert scope.cancelled_caught, "there should have been no room"
        tasks.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE):
        await connection.request("ls", {})


async def test_a_daemon_that_dies_fails_all_requests_and_another_is_started(bare: Moat) -> None:
    add_recipe(bare, "slow", "sleep 3600")
    first = await connect()
    kinds: list[str] = []

    async def wait_for_image(connection: Connection) -> None:
        with pytest.raises(MoatError) as caught:
            await connection.request("image.build", {"image": "slow"})
        kinds.append(caught.value.kind)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait_for_image, first)
            await first.request("info", {})
            os.kill(first.daemon_pid, signal.SIGKILL)
    assert kinds == ["unavailable"] * 5
    assert first.closed
    with pytest.raises(MoatError, match="the moat daemon"):
        await first.request("info", {})
    second = await connect()
    assert (await second.request("info", {})).result["pid"] == second.daemon_pid
    assert second.daemon_pid != first.daemon_pid


async def test_a_message_that_cannot_be_sent_harms_nobody(bare: Moat) -> None:
    connection = await connect()
    for value in ("\ud800", "\0", "x" * (5 * 1024 * 1024)):
        with pytest.raises(ValueError, match=r"."):
            await connection.request("exec", {"argv": [value]})
    assert (await connection.request("info", {})).result["connections"] == 1


async def test_no_binary_says_how_to_get_one(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOAT_BIN", raising=False)
    monkeypatch.setenv("PATH", str(runtime_dir))
    with pytest.raises(MoatNotInstalledError, match="set MOAT_BIN"):
        await connect()


async def test_a_daemon_that_cannot_start_says_why(
    bare: Moat, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare.home / "config.yaml").write_text("no_such_setting: 1\n")
    with pytest.raises(MoatNotInstalledError, match="no_such_setting"):
        await connect()


async def test_the_socket_of_somebody_else_is_not_used(
    bare: Moat, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the kernel's answer about the peer: pid, uid, gid
    monkeypatch.setattr("inspect_moat._connect.peer_credentials", lambda _: (1, 12345, 1))
    with pytest.raises(MoatError, match="belongs to the user"):
        await connect()


def test_a_relative_home_is_no_other_moat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOAT_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("MOAT_HOME", "mine")
    with pytest.raises(ValueError, match=r"MOAT_HOME.*absolute"):
        socket_path()
    monkeypatch.setenv("MOAT_HOME", "/mine")
    assert socket_path() == "/mine/run/moat.sock"
