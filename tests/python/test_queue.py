"""Requests that wait for others, and what a callback for progress may do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from inspect_moat._client import Request
from inspect_moat._connect import connect
from inspect_moat._errors import MoatError
from inspect_moat._wire import Message
from rogue_daemon import PATIENCE, Peer, rogue_daemon

pytestmark = pytest.mark.anyio


async def test_waiting_for_others_is_no_part_of_a_requests_time(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_moat._client.TIMEOUT_GRACE", 0.1)
    monkeypatch.setattr("inspect_moat._client.OPEN_REQUESTS_MAX", 1)
    first_may_end = anyio.Event()

    async def slow_at_first(peer: Peer, message: Message) -> None:
        if message["id"] == 1:
            await first_may_end.wait()
        await peer.result(message["id"])

    async with rogue_daemon(runtime_dir, slow_at_first):
        connection = await connect()
        await connection.start(Request("exec", {}))
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(connection.request, "exec", {}, timeout=0.1))
                await anyio.sleep(0.5)  # longer than it may take
                first_may_end.set()


async def test_nobody_waits_behind_requests_that_a_daemon_never_answers(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_moat._client.TIMEOUT_GRACE", 0.1)
    monkeypatch.setattr("inspect_moat._client.OPEN_REQUESTS_MAX", 1)

    async def silent(peer: Peer, message: Message) -> None:
        pass

    async with rogue_daemon(runtime_dir, silent):
        connection = await connect()
        with anyio.fail_after(PATIENCE):
            for _ in range(2):
                with pytest.raises(MoatError) as caught:
                    await connection.request("exec", {}, timeout=0.1)
                assert caught.value.kind == "timeout"


async def test_a_callback_that_fails_fails_its_own_request_alone(runtime_dir: Path) -> None:
    async def tell(peer: Peer, message: Message) -> None:
        await peer.send({"type": "progress", "id": message["id"], "text": "on the way"})
        if message["op"] != "up":
            await peer.result(message["id"])

    def fail(_: Message) -> None:
        raise BrokenPipeError

    async with rogue_daemon(runtime_dir, tell) as daemon:
        connection = await connect()
        with pytest.raises(BrokenPipeError):
            await connection.request("up", {}, progress=fail)
        await daemon.wait_for("cancel")
        await connection.request("exec", {})
