"""Inspect's own checks of a sandbox provider, on Debian: as a normal user and as root.

Both users share one VM. The second class is what `user: root` in a specification makes of it: all
that names no user is root's.
"""

from __future__ import annotations

from typing import Any

import pytest
from inspect_ai.util import ExecResult, SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_moat import MoatSandboxEnvironment

pytestmark = pytest.mark.anyio

# Root reads and writes whatever the permissions say. docs/inspect.md names these.
IMPOSSIBLE_FOR_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}


class PatientSandboxEnvironment(MoatSandboxEnvironment):
    async def exec(self, cmd: list[str], *args: Any, **options: Any) -> ExecResult[str]:
        """Inspect gives adduser ten seconds, in case it asks and waits for ever. A guest that is
        emulated, and shares its processor with other tests, may need longer for it."""
        if cmd[0] == "adduser":
            options.pop("timeout", None)
        return await super().exec(cmd, *args, **options)


class RootSandboxEnvironment(PatientSandboxEnvironment):
    def _args(self, **more: Any) -> dict[str, Any]:
        return super()._args(**{"user": "root", **more})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["user", "root"])
async def sandbox_env(
    request: pytest.FixtureRequest, debian_machine: MoatSandboxEnvironment
) -> SandboxEnvironment:
    known = debian_machine
    if request.param == "user":
        return PatientSandboxEnvironment(known._connection, known.sandbox_id, known.vm_name)
    if request.node.originalname in IMPOSSIBLE_FOR_ROOT:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason="root may do everything"))
    return RootSandboxEnvironment(known._connection, known.sandbox_id, known.vm_name)
