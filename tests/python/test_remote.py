"""exec_remote, which Inspect builds on exec and write_file: it puts a server into the VM."""

from __future__ import annotations

import anyio
import pytest
from inspect_ai.util import ExecStderr, ExecStdout
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy

from inspect_moat import MoatSandboxEnvironment

pytestmark = pytest.mark.anyio
PATIENCE = 60.0


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

    async def until_there_are(count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while (await machine.exec(["pgrep", "-fc", "^sleep 359"])).stdout != f"{count}\n":  # noqa: ASYNC110
                await anyio.sleep(0.2)

    await until_there_are(2)
    await process.kill()
    await until_there_are(0)
