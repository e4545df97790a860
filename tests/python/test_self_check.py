"""Inspect's own checks of a sandbox provider, on Debian: as a normal user and as root."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig
from real_daemon import Moat

pytestmark = pytest.mark.anyio

# Root reads and writes whatever the permissions say. docs/inspect.md names these.
IMPOSSIBLE_FOR_ROOT = {
    "test_read_file_not_allowed",
    "test_write_text_file_without_permissions",
    "test_write_binary_file_without_permissions",
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["user", "root"])
async def machine(
    request: pytest.FixtureRequest, debian: Moat, anyio_backend: str
) -> AsyncIterator[tuple[str, SandboxEnvironment]]:
    user = str(request.param)
    config = MoatSandboxEnvironmentConfig.model_validate(
        {"vms": [{"source": "debian12", "ram_mb": 1024, "vcpus": 1, "user": user}]}
    )
    environments = await MoatSandboxEnvironment.sample_init("self_check", config, {})
    yield user, environments["default"]
    await MoatSandboxEnvironment.sample_cleanup("self_check", config, environments, False)
    debian.assert_nothing_left()


@pytest.fixture
def sandbox_env(
    request: pytest.FixtureRequest, machine: tuple[str, SandboxEnvironment]
) -> SandboxEnvironment:
    user, environment = machine
    if user == "root" and request.node.originalname in IMPOSSIBLE_FOR_ROOT:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason="root may do everything"))
    return environment
