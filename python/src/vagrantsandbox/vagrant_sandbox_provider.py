"""The sandbox class, its configuration and what goes with it, where evals import them from."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NoReturn, TypeVar

import anyio.to_thread
from inspect_ai.util import concurrency

from inspect_moat._providers import VagrantSandboxEnvironment
from inspect_moat._vagrant_command import (
    ExecCommandReturn,
    SandboxDirectory,
    TimeoutConfig,
    Vagrant,
    get_sandbox_cache_dir,
    list_sandbox_directories,
)
from inspect_moat._vagrant_config import VagrantSandboxEnvironmentConfig

T = TypeVar("T")

_CLEANUP = "the daemon removes sandboxes: use sample_cleanup, or `inspect sandbox cleanup vagrant`"
_STARTUPS_MAX = "INSPECT_MAX_VAGRANT_STARTUPS"
_NOT_HERE = {
    "destroy_sandbox_vms": _CLEANUP,
    "cleanup_sandbox_directory": _CLEANUP,
    "cleanup_sandbox_with_vms": _CLEANUP,
}


class SandboxUnrecoverableError(Exception):
    """For code that catches it. moat raises Inspect's SandboxUnavailableError instead."""


async def _run_in_executor(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return await anyio.to_thread.run_sync(lambda: function(*args, **kwargs))


def _get_max_vagrant_startups() -> int | None:
    """How many machines may start at a time; None: the daemon's own limit holds."""
    number = os.environ.get(_STARTUPS_MAX)
    return None if number is None else int(number)


def _startup_semaphore() -> AbstractAsyncContextManager[object]:
    """For code that starts machines by itself. Those of moat take their turns in the daemon."""
    limit = _get_max_vagrant_startups()
    return nullcontext() if limit is None else concurrency("vagrant-startup", limit)


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_HERE:
        raise ImportError(f"{name} is not in moat: {_NOT_HERE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ExecCommandReturn",
    "SandboxDirectory",
    "SandboxUnrecoverableError",
    "TimeoutConfig",
    "Vagrant",
    "VagrantSandboxEnvironment",
    "VagrantSandboxEnvironmentConfig",
    "get_sandbox_cache_dir",
    "list_sandbox_directories",
]
