"""Event loops beside each other, and such as end without cancelling their tasks, as in test suites
and notebooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import pytest
import trio
from inspect_ai.util import SandboxEnvironment

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig
from inspect_moat._client import Reply
from inspect_moat._connect import connect
from inspect_moat._errors import MoatError
from inspect_moat._wire import Message
from real_daemon import TINY, Moat
from rogue_daemon import PATIENCE, Peer, RogueDaemon, rogue_daemon


async def answer(peer: Peer, message: Message) -> None:
    await peer.result(message["id"])


@contextmanager
def daemon_of_a_thread(directory: Path) -> Iterator[RogueDaemon]:
    """Runs the daemon in an event loop of its own, which outlives those of the test."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(rogue_daemon(directory, answer)) as daemon,
    ):
        yield daemon


def test_connections_of_closed_loops_are_closed(runtime_dir: Path) -> None:
    with daemon_of_a_thread(runtime_dir) as daemon:
        first = asyncio.new_event_loop()
        connection = first.run_until_complete(connect())
        first.run_until_complete(connection.request("info", {}))
        first.close()  # its tasks are neither done nor cancelled then
        assert not connection.closed
        second = asyncio.new_event_loop()
        try:
            other = second.run_until_complete(connect())
            assert connection.closed
            assert daemon.ended.wait(PATIENCE)
            second.run_until_complete(other.request("info", {}))
            assert not other.closed
        finally:
            second.close()


def test_a_loop_that_stands_still(runtime_dir: Path) -> None:
    """As in pytest-asyncio: a module's fixture has a loop of its own, and so has each test."""
    with daemon_of_a_thread(runtime_dir):
        fixture = asyncio.new_event_loop()
        connection = fixture.run_until_complete(connect())
        asyncio.run(in_time(connection.request("info", {})))
        assert not connection.closed
        fixture.run_until_complete(connection.request("info", {}))
        fixture.close()
        with pytest.raises(MoatError, match=r"event loop .* ended"):
            asyncio.run(in_time(connection.request("info", {})))


async def in_time(request: Awaitable[Reply]) -> None:
    with anyio.fail_after(PATIENCE):
        await request


def test_a_sandbox_of_another_loop(tiny: Moat) -> None:
    """Made in one loop, used and removed in others, or saved there for the first to see."""
    config = MoatSandboxEnvironmentConfig.model_validate(TINY)
    fixture = asyncio.new_event_loop()
    environments = fixture.run_until_complete(
        MoatSandboxEnvironment.sample_init("loops", config, {})
    )
    try:
        trio.run(use, environments["default"])
        asyncio.run(use(environments["default"]))
        fixture.run_until_complete(use(environments["default"]))
        asyncio.run(MoatSandboxEnvironment.sample_cleanup("loops", config, environments, False))
        tiny.assert_nothing_left()
    finally:
        fixture.run_until_complete(
            MoatSandboxEnvironment.sample_cleanup("loops", config, environments, False)
        )
        fixture.close()


async def use(machine: SandboxEnvironment) -> None:
    with anyio.fail_after(PATIENCE):
        await machine.write_file("/tmp/x", "written")
        assert (await machine.exec(["cat", "/tmp/x"])).stdout == "written"
        assert await machine.read_file("/tmp/x") == "written"
