"""What is remembered for the duration of an eval, or of an event loop outside of one."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from anyio.lowlevel import RunVar

try:
    from inspect_ai.util._sandbox.lifecycle import sandbox_lifecycle_state
except ImportError:  # older than Inspect's own registry
    sandbox_lifecycle_state = None  # type: ignore[assignment]

T = TypeVar("T")

_of_loop: RunVar[dict[type[Any], Any]] = RunVar("inspect_moat_state")


def eval_state(kind: type[T]) -> T:
    """The one object of a class, made without arguments when it is first asked for."""
    if sandbox_lifecycle_state is not None:
        state = sandbox_lifecycle_state()
        if state is not None:
            return state.get(kind)
    try:
        objects = _of_loop.get()
    except LookupError:
        objects = {}
        _of_loop.set(objects)
    except RuntimeError:  # not in an event loop: nothing is going on that could be remembered
        objects = {}
    return cast(T, objects.setdefault(kind, kind()))


def is_outside_of_evals() -> bool:
    """Whether the caller is certainly not Inspect running an eval."""
    return sandbox_lifecycle_state is not None and sandbox_lifecycle_state() is None
