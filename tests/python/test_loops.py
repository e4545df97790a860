"""Event loops that end without cancelling their tasks, as in notebooks and test suites."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.from_thread

from inspect_moat._connect import connect
from inspect_moat._wire import Message
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
