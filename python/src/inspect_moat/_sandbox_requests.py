"""Requests to the daemon that check a specification, and make, remove or keep sandboxes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import Any

import anyio
from inspect_ai.util import trace_action

from ._client import Connection, Reply, Request
from ._errors import MoatError
from ._running_sandboxes import RunningSandbox
from ._wire import Message

logger = getLogger(__name__)

TRACE = "moat"
REMOVE_TIMEOUT = 120.0
QUERY_TIMEOUT = 30.0


async def validate_spec(connection: Connection, spec: dict[str, Any]) -> None:
    """Ask the daemon what is wrong with a specification.

    Raises:
        MoatError: what is wrong; or `not_found` if an image has to be built first.
    """
    await connection.request("validate", {"spec": spec}, timeout=QUERY_TIMEOUT)


async def up_sandbox(connection: Connection, args: dict[str, Any]) -> dict[str, Any]:
    """Make a sandbox. If it fails or is cancelled, nothing is left of it."""
    return await make_all(connection, Request("up", args))


async def make_all(connection: Connection, request: Request) -> dict[str, Any]:
    """Make one sandbox or several: all that the request asks for, or none.

    Inspect does not clean up after a sample_init that did not return. The daemon removes what was
    half made; what was finished in the very moment of the cancellation is removed here.
    """
    call = await connection.start(request)
    try:
        return (await call.wait()).result
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(REMOVE_TIMEOUT):
            call.cancel()
            await _ignoring_errors(lambda: _remove_result_of(connection, call.wait))
        raise


async def _remove_result_of(connection: Connection, wait: Callable[[], Awaitable[Reply]]) -> None:
    made = (await wait()).result
    ids = [one["sandbox"] for one in made.get("sandboxes", [made])]
    await connection.request("rm", {"sandboxes": ids})


async def _ignoring_errors(step: Callable[[], Awaitable[None]]) -> None:
    try:
        await step()
    except MoatError as ex:
        logger.debug("moat: after a cancellation: %s", ex.message)


async def leftovers(step: Awaitable[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """What `gc` removed, and what it could not remove. An error of `gc` is among the latter."""
    try:
        answer = await step
    except MoatError as ex:
        return [], [ex.message]
    stayed = [f"not removed: {text}" for text in answer.get("failed", [])]
    return [str(line) for line in answer.get("removed", [])], stayed


async def tell_touched(entry: RunningSandbox) -> None:
    """Warn in the log of the evaluation if a person has acted in the sandbox."""
    try:
        reply = await entry.connection.request("ls", {"sandbox": entry.id}, timeout=QUERY_TIMEOUT)
    except MoatError:
        return  # it is gone, or the daemon is: nothing is known of it
    for sandbox in reply.result.get("sandboxes", []):
        done = [f"{one['what']} ({one['count']})" for one in sandbox.get("touched", [])]
        if done:
            logger.warning(
                "A person has acted in sandbox %s of sample %s: %s",
                entry.id,
                entry.sample,
                ", ".join(done),
            )


async def remove_sandbox(entry: RunningSandbox, *, even_detached: bool = False) -> None:
    """Remove a sandbox. What cannot be removed now is removed when the connection ends.

    One that somebody has detached stays, unless `even_detached`; then `entry.stays`.
    """
    args: dict[str, Any] = {"sandboxes": [entry.id]}
    if not even_detached:
        args["leased"] = True
    began, entry.removal = entry.removal, None
    try:
        if began is not None and (began.finished or began.is_here):
            with anyio.fail_after(REMOVE_TIMEOUT):
                entry.stays = entry.id in (await began.wait()).result.get("kept", [])
            return
        with trace_action(logger, TRACE, f"rm {entry.id}"):
            reply = await entry.connection.request("rm", args, timeout=REMOVE_TIMEOUT)
        entry.stays = entry.id in reply.result.get("kept", [])
    except MoatError as ex:
        if ex.kind not in ("not_found", "unavailable"):
            logger.warning("moat: sandbox %s could not be removed: %s", entry.id, ex.message)
    except TimeoutError:
        logger.warning("moat: sandbox %s could not be removed in time", entry.id)


async def begin_removal(entry: RunningSandbox) -> None:
    """Have a sandbox removed without waiting for it; `remove_sandbox` does that later.

    Until it is gone, its pool of servers counts it.
    """
    request = Request("rm", {"sandboxes": [entry.id], "leased": True}, timeout=REMOVE_TIMEOUT)
    try:
        entry.removal = await entry.connection.start(request)
    except MoatError as ex:
        logger.warning("moat: sandbox %s could not be removed: %s", entry.id, ex.message)


async def detach_sandbox(entry: RunningSandbox) -> bool:
    """Keep a sandbox beyond the end of its connection. False if that failed."""
    try:
        await entry.connection.request("detach", {"sandbox": entry.id}, timeout=QUERY_TIMEOUT)
    except MoatError as ex:
        logger.warning("moat: sandbox %s could not be kept: %s", entry.id, ex.message)
        return False
    return True


def progress_text(message: Message) -> str:
    """A progress frame in words."""
    done, total = message.get("done"), message.get("total")
    # larger numbers are bytes, and tell a reader nothing
    counted = f" ({done}/{total})" if done is not None and 0 < (total or 0) < 1000 else ""
    return f"{message.get('text', '')}{counted}"
