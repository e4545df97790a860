"""How many processors this process may use, which in a container are fewer than there are."""

from __future__ import annotations

import os

try:
    from inspect_ai._util.cpu import effective_cpu_count
except ImportError:  # not part of Inspect's public interface
    effective_cpu_count = None  # type: ignore[assignment]


def usable_cpus() -> int:
    """At least one."""
    if effective_cpu_count is not None:
        return effective_cpu_count()
    return len(os.sched_getaffinity(0))
