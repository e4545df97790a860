"""Inspect's own checks of a sandbox provider, on a VM made of a container image, as the image's
normal user, in the image's directory."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_moat import MoatSandboxEnvironment
from inspect_moat._connect import connect
from real_daemon import REPOSITORY, Moat, daemon

sys.path.append(str(REPOSITORY / "tests" / "e2e"))

import containers

pytestmark = pytest.mark.anyio
NAME = "test-self-check"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Moat, str]]:
    with daemon() as client:
        client.image("container")
        os.environ["MOAT_DATA_DIR"] = client.settings["MOAT_DATA_DIR"]
        tree = tmp_path_factory.mktemp("tree")
        containers.busybox(tree)
        # By this word Inspect knows what options there are.
        adduser = (REPOSITORY / "share/recipes/tiny/adduser").read_text()
        asked = '[ "$1" != --help ] || exec echo BusyBox\n'
        (tree / "bin/adduser").write_text(adduser.replace("\nuid=", f"\n{asked}uid=", 1))
        (tree / "bin/adduser").chmod(0o755)
        (tree / "etc/shadow").touch()
        shutil.chown(tree / "srv", 1000, 1000)
        containers.store(NAME, tree, {"working_dir": "/srv", "user": "app"})
        spec = {"vms": [{"source": NAME, "ram_mb": 192, "vcpus": 1}]}
        yield client, client.up(spec)
        client.run("rm", "--all")
        client.run("image", "rm", NAME)


@pytest.fixture
async def sandbox_env(box: tuple[Moat, str], monkeypatch: pytest.MonkeyPatch) -> SandboxEnvironment:
    client, sandbox = box
    monkeypatch.setenv("MOAT_HOME", str(client.home))
    return MoatSandboxEnvironment(await connect(), sandbox, "default")
