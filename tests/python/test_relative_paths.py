"""Relative paths in evals whose file is not in the directory where Inspect is started.

With the `inspect` command itself, since it is the one that changes directories; and with a daemon
that only notes what it is asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai.util._sandbox.lifecycle import sandbox_lifecycle_scope

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig, VmConfig, VmSource
from inspect_moat._providers import VagrantSandboxEnvironment
from inspect_moat._proxmox_config import load_instances
from inspect_moat._relative_paths import note_start, paths_of_sample, paths_of_task
from inspect_moat._wire import Message
from rogue_daemon import Handler, Peer, RogueDaemon, rogue_daemon
from vagrantsandbox import VagrantSandboxEnvironmentConfig

pytestmark = pytest.mark.anyio

EVAL_TIMEOUT = 900.0
TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.util import SandboxEnvironmentSpec
{imports}

@task
def one():
    return Task(dataset=[Sample("hello"{sample})]{task})
"""
VAGRANT = TASK.format(imports="", sample="", task=', sandbox="vagrant"')
PROXMOX = TASK.format(
    imports="from pathlib import Path\nfrom proxmoxsandbox.schema import *",
    sample="",
    task=""", sandbox=SandboxEnvironmentSpec("proxmox", ProxmoxSandboxEnvironmentConfig(vms_config=(
        VmConfig(vm_source_config=VmSourceConfig(ova=Path("file"))),)))""",
)
MOAT = TASK.format(imports="", sample=', sandbox=("moat", "file")', task="")
SPEC = "vms: [{source: {ova: box.ova}, name: %s}]\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory where Inspect is started; tasks are in `evals` below it."""
    for name in ("VAGRANTFILE_PATH", "PROXMOX_CONFIG_FILE", "MOAT_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "evals").mkdir()
    return tmp_path


def answers(on_up: Callable[[], None] = lambda: None) -> Handler:
    async def answer(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            on_up()
            vm = {"name": "default", "known_as": "default", "place": "/nowhere/at-all"}
            await peer.result(message["id"], sandbox="3f9a1c20", vms=[vm])
        else:
            await peer.result(message["id"])

    return answer


async def evaluate(root: Path, text: str, *options: str) -> str:
    """The output of `inspect eval evals/one.py`, started in `root`."""
    (root / "evals" / "one.py").write_text(text)
    command = [sys.executable, "-m", "inspect_ai", "eval", "evals/one.py", "--display", "plain"]
    servers = {"PROXMOX_HOST": "pve", "PROXMOX_CONFIG_FILE": "servers.json"}
    with anyio.fail_after(EVAL_TIMEOUT):
        done = await anyio.run_process(
            [*command, "--model", "mockllm/model", *options],
            cwd=root,
            env={**os.environ, **servers, "MOAT_BIN": sys.executable, "PWD": "/"},
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode()


def asked(daemon: RogueDaemon, op: str) -> list[Any]:
    """The specifications that the daemon was asked to check, or to make."""
    return [request["args"]["spec"] for request in daemon.requests(op)]


@pytest.mark.parametrize(
    ("places", "options"),
    [
        (("",), ()),
        (("evals",), ()),
        (("", "evals"), ()),
        (("", "evals"), ("--max-sandboxes", "1")),
    ],
)
async def test_one_vagrantfile_is_meant(
    root: Path, runtime_dir: Path, places: tuple[str, ...], options: tuple[str, ...]
) -> None:
    for place in places:
        (root / place / "Vagrantfile").write_text("")
    async with rogue_daemon(runtime_dir, answers()) as daemon:
        said = await evaluate(root, VAGRANT, *options)
    made = [spec["native"]["vagrantfile"] for spec in asked(daemon, "up")]
    assert made == [str(root / places[0] / "Vagrantfile")], said
    checked = [spec["native"]["vagrantfile"] for spec in asked(daemon, "validate")]
    # Inspect does not say before the sample where it was started, so it cannot be checked before
    assert checked == ([] if options else made)


async def test_a_vagrantfile_that_is_nowhere_is_missed_before_the_samples(
    root: Path, runtime_dir: Path
) -> None:
    async with rogue_daemon(runtime_dir, answers()) as daemon:
        said = await evaluate(root, VAGRANT)
    assert "sandbox vagrant: there is no file" in said
    assert daemon.seen == []


async def test_sandboxes_are_kept_although_the_vagrantfile_is_gone(
    root: Path, runtime_dir: Path
) -> None:
    file = root / "Vagrantfile"
    file.write_text("")
    async with rogue_daemon(runtime_dir, answers(file.unlink)) as daemon:
        said = await evaluate(root, VAGRANT, "--no-sandbox-cleanup")
    assert [request["args"] for request in daemon.requests("detach")] == [{"sandbox": "3f9a1c20"}]
    assert "inspect sandbox cleanup vagrant" in said
    assert "Error occurred" not in said


@pytest.mark.parametrize("places", [("", "evals"), ("evals",)], ids="+".join)
async def test_one_ova_is_meant(root: Path, runtime_dir: Path, places: tuple[str, ...]) -> None:
    for place in places:
        (root / place / "file").write_text("")
        server = f'{{"instances": [{{"instance_id": "a{place}", "pool_id": "default", "node": "n",'
        (root / place / "servers.json").write_text(server + '"host": "h"}]}')
    async with rogue_daemon(runtime_dir, answers()) as daemon:
        said = await evaluate(root, PROXMOX)
    meant = [{"ova": str(root / places[0] / "file")}]
    for op in ("validate", "up"):
        assert [spec["vms"][0]["source"] for spec in asked(daemon, op)] == meant, said
    (up,) = daemon.requests("up")
    servers = [server["instance_id"] for server in up["args"]["access"]["instances"]]
    assert servers == [f"a{places[0]}"]


@pytest.mark.parametrize("places", [("", "evals"), ("evals",)], ids="+".join)
async def test_one_specification_of_a_sample_is_meant(
    root: Path, runtime_dir: Path, places: tuple[str, ...]
) -> None:
    for place in places:
        (root / place / "file").write_text(SPEC % f"a{place}")
    async with rogue_daemon(runtime_dir, answers()) as daemon:
        said = await evaluate(root, MOAT)
    for op in ("validate", "up"):
        (vm,) = (vm for spec in asked(daemon, op) for vm in spec["vms"])
        assert vm["name"] == f"a{places[0]}", said
        # what a file refers to is beside that file
        assert vm["source"] == {"ova": str(root / places[0] / "box.ova")}


# the rules, without evals


def test_tasks_that_share_a_configuration_cannot_mean_two_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = VagrantSandboxEnvironmentConfig()
    with sandbox_lifecycle_scope():
        monkeypatch.chdir(root)
        note_start()
        for name in ("a", "b"):
            (root / name).mkdir()
            (root / name / "Vagrantfile").write_text("")
            monkeypatch.chdir(root / name)
            paths = paths_of_task(config)
        with pytest.raises(ValueError, match=r"beside several tasks .*a/Vagrantfile, .*b/Vag"):
            paths.locate("./Vagrantfile")
        monkeypatch.chdir(root)
        with pytest.raises(ValueError, match="beside several tasks"):
            paths_of_sample(config).locate("./Vagrantfile")
        (root / "Vagrantfile").write_text("")
        assert paths_of_sample(config).locate("./Vagrantfile") == str(root / "Vagrantfile")
        other = VagrantSandboxEnvironmentConfig(primary_vm_name="web")
        assert paths_of_sample(other).locate("none") == str(root / "none")


def test_outside_of_evals_it_is_the_present_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = MoatSandboxEnvironmentConfig(vms=(VmConfig(source=VmSource(ova=Path("../x.ova"))),))
    for directory in (root, root / "evals"):
        monkeypatch.chdir(directory)
        for paths in (paths_of_task(config), paths_of_sample(config)):
            assert paths.locate("../x.ova") == f"{directory}/../x.ova"
            assert paths.locate("/x.ova") == "/x.ova"
            assert not paths.unsure
    monkeypatch.setenv("PROXMOX_CONFIG_FILE", "servers.json")
    monkeypatch.delenv("PROXMOX_HOST", raising=False)
    (root / "servers.json").write_text('{"instances": []}')
    assert load_instances() == ()


async def test_task_cleanup_needs_no_file(runtime_dir: Path, root: Path) -> None:
    file = root / "moat.yaml"
    file.write_text("vms: [{source: tiny}]\nstandby: 1\n")
    waiting: list[int] = []

    async def answer(peer: Peer, message: Message) -> None:
        if message["op"] == "standby":
            waiting.append(message["id"])
            await daemon.wait_for("cancel")
            await peer.error(message["id"], "cancelled", "removed")
        else:
            await answers(file.unlink)(peer, message)

    async with rogue_daemon(runtime_dir, answer) as daemon:
        await MoatSandboxEnvironment.task_init("startup", str(file))
        await MoatSandboxEnvironment.sample_init("task", str(file), {})
        for provider in (VagrantSandboxEnvironment, MoatSandboxEnvironment):
            await provider.task_cleanup("shutdown", str(file), False)
        assert len(daemon.requests("detach")) == 1
        assert (await daemon.wait_for("cancel"))["id"] == waiting[0]
