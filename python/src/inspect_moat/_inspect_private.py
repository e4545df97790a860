"""What this package uses of Inspect beyond its public interface.

Any version of Inspect may lack any of it. Each import has a fallback with which everything works,
if less well; no other module imports private names of Inspect.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

try:
    from inspect_ai._util.error import PrerequisiteError
except ImportError:

    class PrerequisiteError(Exception):  # type: ignore[no-redef]
        """Inspect shows its own without a traceback; this one says the same with one."""


try:
    from inspect_ai.util._sandbox.lifecycle import sandbox_lifecycle_state
except ImportError:
    sandbox_lifecycle_state = None  # type: ignore[assignment]

try:
    from inspect_ai._util.cpu import effective_cpu_count
except ImportError:
    effective_cpu_count = None  # type: ignore[assignment]

try:
    from inspect_ai.log._samples import sample_active
except ImportError:
    sample_active = None  # type: ignore[assignment]

try:
    from inspect_ai.util._sandbox.environment import sandbox_prebuilt
except ImportError:

    def sandbox_prebuilt() -> bool:
        """An Inspect without that option builds what is missing."""
        return False


__all__ = [
    "PrerequisiteError",
    "active_sample",
    "is_outside_of_evals",
    "sandbox_prebuilt",
    "state_of_eval",
    "usable_cpus",
]

T = TypeVar("T")


def state_of_eval(kind: type[T]) -> T | None:
    """The one object of a class that Inspect keeps for the eval that is running.

    None if no eval is running, or if this Inspect keeps nothing.
    """
    state = None if sandbox_lifecycle_state is None else sandbox_lifecycle_state()
    return None if state is None else state.get(kind)


def is_outside_of_evals() -> bool:
    """Whether the caller is certainly not Inspect running an eval."""
    return sandbox_lifecycle_state is not None and sandbox_lifecycle_state() is None


def usable_cpus() -> int:
    """How many processors this process may use: in a container fewer than the machine has."""
    if effective_cpu_count is not None:
        return effective_cpu_count()
    return len(os.sched_getaffinity(0))


def active_sample() -> Any:
    """What Inspect knows of the sample that is running; None if it does not say."""
    return None if sample_active is None else sample_active()
