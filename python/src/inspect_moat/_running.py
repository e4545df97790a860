"""Which sandboxes of this process are running: what the end of an eval has to remove or report."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyio.lowlevel import RunVar

from ._client import Connection


@dataclass
class RunningSandbox:
    id: str
    provider: str
    connection: Connection
    sample: str
    epoch: str
    vms: list[str]
    parent: str = ""  # the sandbox of which it is a copy


@dataclass
class _Registry:
    sandboxes: dict[str, RunningSandbox] = field(default_factory=dict)


_of_loop: RunVar[_Registry] = RunVar("inspect_moat_running")


def running_sandboxes() -> dict[str, RunningSandbox]:
    """The sandboxes of the eval that is running, or of this event loop outside of one."""
    try:
        from inspect_ai.util._sandbox.lifecycle import sandbox_lifecycle_state
    except ImportError:  # older than Inspect's own registry
        pass
    else:
        state = sandbox_lifecycle_state()
        if state is not None:
            return state.get(_Registry).sandboxes
    try:
        registry = _of_loop.get()
    except LookupError:
        registry = _Registry()
        _of_loop.set(registry)
    return registry.sandboxes
