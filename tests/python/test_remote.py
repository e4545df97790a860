"""exec_remote, which Inspect builds on exec and write_file: it puts a server into the VM."""

from __future__ import annotations

import pytest
from inspect_ai.util import ExecStderr, ExecStdout
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy

from inspect_moat import MoatSandboxEnvironment

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_exec_remote_gives_the_output_and_kill_ends_the_tree(
    debian_machine: MoatSandboxEnvironment,
) -> None:
    machine = SandboxEnvironmentProxy(debian_machine)
    script = "echo out; id -un; echo err >&2; sleep 3591 & sleep 3592"
    process = await machine.exec_remote(["sh", "-c", script])
    out = err = ""
    async for event in process:
        out += event.data if isinstance(event, ExecStdout) else ""
        err += event.data if isinstance(event, ExecStderr) else ""
        if out.count("\n") == 2 and err:
            break
    assert (out, err) == ("out\nuser\n", "err\n")
    assert (await machine.exec(["pgrep", "-fc", "^sleep 359"])).stdout == "2\n"
    await process.kill()
    assert (await machine.exec(["pgrep", "-fc", "^sleep 359"])).stdout == "0\n"
