"""An Inspect without the private modules that moat makes use of where they exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import inspect_moat

MODULES = (
    "inspect_ai._util.cpu",
    "inspect_ai._util.error",
    "inspect_ai.log._samples",
    "inspect_ai.util._sandbox.environment",
    "inspect_ai.util._sandbox.lifecycle",
)

# Inspect itself has bound its private names before they are hidden.
HIDE = """
import sys
from pathlib import Path
import anyio
import inspect_ai
import inspect_ai.util

for module in {modules!r}:
    assert module in sys.modules
    sys.modules[module] = None  # to import it now fails
"""

A_SAMPLE = """
from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig
from rogue_daemon import rogue_daemon

async def answer(peer, message):
    await peer.result(message["id"], sandbox="3f9a1c20", vms=[{{"name": "only"}}])

async def main():
    config = MoatSandboxEnvironmentConfig.model_validate({{"vms": [{{"source": "tiny"}}]}})
    async with rogue_daemon(Path({directory!r}), answer) as daemon:
        assert MoatSandboxEnvironment.default_concurrency() >= 1
        await MoatSandboxEnvironment.task_init("startup", config)
        environments = await MoatSandboxEnvironment.sample_init("t", config, {{"__sample_id__": 7}})
        (up,) = daemon.requests("up")
        assert up["args"]["labels"]["sample"] == "7"
        await MoatSandboxEnvironment.sample_cleanup("t", config, environments, False)
        assert len(daemon.requests("rm")) == 1
        await MoatSandboxEnvironment.task_cleanup("shutdown", config, True)

anyio.run(main)
"""

NO_BINARY = """
from inspect_moat import MoatSandboxEnvironment

anyio.run(MoatSandboxEnvironment.task_init, "startup", None)
"""


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    text = (HIDE + script).format(modules=MODULES, directory=str(directory))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "MOAT_BIN": "/nowhere/moat"}
    return subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, check=False
    )


def test_samples_get_their_sandboxes(runtime_dir: Path) -> None:
    done = run(A_SAMPLE, runtime_dir)
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_are_clear(runtime_dir: Path) -> None:
    done = run(NO_BINARY, runtime_dir)
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "inspect_moat._inspect_private.PrerequisiteError: "
        "MOAT_BIN is /nowhere/moat, which is not a program"
    )


def test_one_module_imports_what_is_private() -> None:
    private = re.compile(r"^\s*(?:from|import) (inspect_ai(?:\.\w+)*\._[\w.]*)", re.MULTILINE)
    package = Path(inspect_moat.__file__).parent
    found = {
        file.name: set(private.findall(file.read_text(encoding="utf-8")))
        for part in ("inspect_moat", "proxmoxsandbox", "vagrantsandbox")
        for file in (package.parent / part).rglob("*.py")
    }
    assert {name: modules for name, modules in found.items() if modules} == {
        "_inspect_private.py": set(MODULES)
    }


@pytest.mark.parametrize("module", MODULES)
def test_the_private_modules_are_in_this_inspect(module: str) -> None:
    """The other tests test what moat does with these modules, so they must be there."""
    __import__(module)
