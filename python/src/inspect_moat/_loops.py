"""Which event loop runs, of asyncio's or of trio's."""

from __future__ import annotations

import asyncio
import sys


def current_loop() -> object:
    """Something that stands for the event loop of the caller, and for no other."""
    if runs_under_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def is_closed(loop: object) -> bool:
    """Whether a loop will never run again. Of trio's that is not told; their connections know."""
    return isinstance(loop, asyncio.AbstractEventLoop) and loop.is_closed()


def runs_under_trio() -> bool:
    """Whether the caller runs under trio."""
    trio = sys.modules.get("trio")  # a trio loop runs only if trio was imported
    if trio is None:
        return False
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
