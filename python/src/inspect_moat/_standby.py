"""Sandboxes that are started ahead, so that the next sample does not have to wait for its own.

An open request keeps them: the daemon removes them when the request is cancelled, or when the
connection ends.
"""

from __future__ import annotations

from logging import getLogger
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from ._client import Call, Connection, Request
from ._errors import MoatError
from ._labels import process_labels

logger = getLogger(__name__)

END_TIMEOUT = 120.0

_Key = tuple[str, str]
_of_loop: RunVar[dict[_Key, list[Call]]] = RunVar("inspect_moat_standby")


def _calls(provider: str, key: str) -> list[Call]:
    """The open requests for a configuration.

    Inspect has other names for a task at its beginning and at its end; and the files that a
    configuration refers to need not be there any more at the end.
    """
    try:
        all_calls = _of_loop.get()
    except LookupError:
        all_calls = {}
        _of_loop.set(all_calls)
    return all_calls.setdefault((provider, key), [])


async def start_standby(
    connection: Connection, provider: str, key: str, spec: dict[str, Any], count: int
) -> None:
    """Keep `count` sandboxes ready until `end_standby` is called for the same configuration."""
    if count:
        args = {"spec": spec, "count": count, "labels": process_labels(provider)}
        call = await connection.start(Request("standby", args))
        _calls(provider, key).append(call)


async def end_standby(provider: str, key: str) -> None:
    """Remove the sandboxes that no sample took."""
    calls = _calls(provider, key)
    if not calls:
        return
    call = calls.pop()
    with anyio.CancelScope(shield=True), anyio.move_on_after(END_TIMEOUT):
        call.cancel()
        try:
            await call.wait()
        except MoatError as ex:
            # no harm is done: the samples only had to wait longer
            if ex.kind not in ("cancelled", "unavailable"):
                logger.warning("moat: no sandboxes were kept in standby: %s", ex.message)
