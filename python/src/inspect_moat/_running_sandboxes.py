"""Which sandboxes of this process are running: what the end of an eval has to remove or report."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._client import Call, Connection
from ._eval_state import eval_state


@dataclass
class RunningSandbox:
    id: str
    provider: str
    connection: Connection
    sample: str = ""
    epoch: str = ""
    vms: list[str] = field(default_factory=list)
    parent: str = ""  # the sandbox of which it is a copy
    stays: bool = False  # somebody detached it, so it was not removed with its sample
    on_server: bool = False  # its removal takes seconds of waiting
    removal: Call | None = None  # that, once it has begun and nobody waited for it


@dataclass
class _Registry:
    sandboxes: dict[str, RunningSandbox] = field(default_factory=dict)


def running_sandboxes() -> dict[str, RunningSandbox]:
    """The sandboxes of the eval that is running, or of this event loop outside of one."""
    return eval_state(_Registry).sandboxes
