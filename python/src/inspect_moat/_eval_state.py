"""What is remembered for the duration of an eval, or of an event loop outside of one."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from anyio.lowlevel import RunVar

from ._inspect_private import state_of_eval

T = TypeVar("T")

_of_loop: RunVar[dict[type[Any], Any]] = RunVar("inspect_moat_state")


def eval_state(kind: type[T]) -> T:
    """The one object of a class, made without arguments when it is first asked for."""
    of_eval = state_of_eval(kind)
    if of_eval is not None:
        return of_eval
    try:
        objects = _of_loop.get()
    except LookupError:
        objects = {}
        _of_loop.set(objects)
    except RuntimeError:  # without an event loop there is nothing to remember it for
        objects = {}
    return cast(T, objects.setdefault(kind, kind()))
