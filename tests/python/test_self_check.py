"""Inspect's own checks of a sandbox provider, on Debian: as a normal user and as root.

Both users share one VM. The second class is what `user: root` in a specification makes of it: all
that names no user is root's.
"""

from __future__ import annotations

from typing import Any

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_moat import MoatSandboxEnvironment

pytestmark = pytest.mark.anyio

# Root reads and writes whatever the permissions say. docs/inspect.md names these.
IMPOSSIBLE_FOR_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}


class RootSandboxEnvironment(MoatSandboxEnvironment):
    def _args(self, **more: Any) -> dict[str, Any]:
        return super()._args(**{"user": "root", **more})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["user", "root"])
async def sandbox_env(
    request: pytest.FixtureRequest, debian_machine: MoatSandboxEnvironment
) -> SandboxEnvironment:
    if request.param == "user":
        return debian_machine
    if request.node.originalname in IMPOSSIBLE_FOR_ROOT:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason="root may do everything"))
    known = debian_machine
    return RootSandboxEnvironment(known._connection, known.sandbox_id, known.vm_name)
