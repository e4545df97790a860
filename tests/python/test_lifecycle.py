"""A test for each row of Inspect's contract about the life of sandboxes.

Names begin with the method that the row is about.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import ComposeConfig, SandboxEnvironment, SandboxUnavailableError

from inspect_moat import (
    MoatSandboxEnvironment,
    MoatSandboxEnvironmentConfig,
    ProxmoxSandboxEnvironment,
    VmSandboxEnvironment,
)
from inspect_moat._connect import connect
from inspect_moat._providers import VagrantSandboxEnvironment
from inspect_moat._running_sandboxes import running_sandboxes
from real_daemon import SMALL, TINY, Moat

pytestmark = pytest.mark.anyio

PATIENCE = 300.0
PROVIDERS = [MoatSandboxEnvironment, ProxmoxSandboxEnvironment, VagrantSandboxEnvironment]


def config_of(spec: dict[str, Any]) -> MoatSandboxEnvironmentConfig:
    return MoatSandboxEnvironmentConfig.model_validate(spec)


CONFIG = config_of(TINY)
NAMES = ("attacker", "victim", "printer")
FOUR = config_of(
    {
        "vms": [
            {**SMALL, "name": "router", "is_sandbox": False},
            *({**SMALL, "name": name} for name in NAMES),
        ]
    }
)
METADATA: dict[str, Any] = {"__sample_id__": "s1", "topic": "web"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def sample(tiny: Moat, anyio_backend: str) -> AsyncIterator[dict[str, SandboxEnvironment]]:
    """The environments of one sample, with VMs enough for a test to spoil one of them."""
    await MoatSandboxEnvironment.task_init("startup", FOUR)
    environments = await MoatSandboxEnvironment.sample_init("my_task", FOUR, METADATA)
    yield environments
    await MoatSandboxEnvironment.sample_cleanup("my_task", FOUR, environments, False)
    tiny.assert_nothing_left()


async def listed(environment: SandboxEnvironment) -> dict[str, Any]:
    id = environment.as_type(VmSandboxEnvironment).sandbox_id
    reply = await (await connect()).request("ls", {"sandbox": id})
    (entry,) = reply.result["sandboxes"]
    assert isinstance(entry, dict)
    return entry


async def test_task_init_stops_an_eval_whose_specification_is_wrong(tiny: Moat) -> None:
    wrong = config_of({"vms": [{**SMALL, "native": {"nonsense": 1}}]})
    with pytest.raises(PrerequisiteError, match=r"sandbox moat: vms\[0\]\.native\.nonsense"):
        await MoatSandboxEnvironment.task_init("startup", wrong)


async def test_task_init_says_in_a_line_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "moat.yaml"
    for text, said in (
        ("vms: [{ramm_mb: 1}]", r'vms\[0\]\.ramm_mb: unknown member; did you mean "ram_mb"\?$'),
        ("vms: [{ram: 1}]", r'vms\[0\]\.ram: unknown member; did you mean "ram_mb"\?$'),
        ("vms: [{xyzzy: 1}]", r"vms\[0\]\.xyzzy: unknown member$"),
        ("vms: [{name: [}]", "line 1"),
    ):
        file.write_text(text)
        with pytest.raises(PrerequisiteError, match=rf"(?s)^sandbox moat: {file}: .*{said}"):
            await MoatSandboxEnvironment.task_init("startup", str(file))
    file.unlink()
    with pytest.raises(PrerequisiteError, match=r"No such file"):
        await MoatSandboxEnvironment.task_init("startup", str(file))


# what a sample gets


async def test_sample_init_gives_the_default_first_then_the_others(
    sample: dict[str, SandboxEnvironment],
) -> None:
    assert list(sample) == ["default", *NAMES], "the router is not for the sample"
    assert sample["default"] is sample["attacker"]
    assert [sample[name].as_type(VmSandboxEnvironment).vm_name for name in NAMES] == list(NAMES)
    await sample["attacker"].write_file("f", "attacker")
    assert await sample["default"].read_file("f") == "attacker"
    with pytest.raises(FileNotFoundError):
        await sample["printer"].read_file("f")


async def test_sample_init_labels_the_sandbox(sample: dict[str, SandboxEnvironment]) -> None:
    labels = (await listed(sample["default"]))["labels"]
    assert labels["inspect"] == "1"
    assert labels["provider"] == "moat"
    assert labels["task"] == "my_task"
    assert labels["sample"] == "s1"
    assert labels["meta.topic"] == "web"
    assert labels["pid"] == str(os.getpid())


async def expect_unavailable(environment: SandboxEnvironment) -> None:
    with pytest.raises(SandboxUnavailableError):
        await environment.exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await environment.read_file("/etc/passwd")
    with pytest.raises(SandboxUnavailableError):
        await environment.write_file("f", "x")
    with pytest.raises(ConnectionError):
        await environment.connection()


async def test_dead_vm_is_unavailable_and_the_others_are_not(
    sample: dict[str, SandboxEnvironment], tiny: Moat
) -> None:
    victim = sample["victim"]
    (pid,) = tiny.vm_processes("victim")

    async def run_until_it_dies() -> None:
        with pytest.raises(SandboxUnavailableError):
            await victim.exec(["sleep", "3600"])

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_until_it_dies)
            while "sleep 3600" not in (await victim.exec(["ps", "-o", "args"])).stdout:  # noqa: ASYNC110
                await anyio.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
        await expect_unavailable(victim)
    assert (await sample["attacker"].exec(["true"])).success


async def test_vm_that_was_turned_off_is_unavailable(
    sample: dict[str, SandboxEnvironment],
) -> None:
    with anyio.fail_after(PATIENCE):
        with suppress(SandboxUnavailableError, TimeoutError):
            await sample["printer"].exec(
                ["sh", "-c", "poweroff -f; sleep 3600"], user="root", timeout=60
            )
        await expect_unavailable(sample["printer"])


# a sample_init that does not return


async def test_sample_init_cancelled_leaves_nothing(tiny: Moat) -> None:
    before = {entry["id"] for entry in tiny.sandboxes()}
    for delay in (0.01, 0.1, 0.5, 1.5):
        with anyio.move_on_after(delay):
            environments = await MoatSandboxEnvironment.sample_init("cancelled", CONFIG, {})
            with anyio.CancelScope(shield=True):  # as Inspect does it
                await MoatSandboxEnvironment.sample_cleanup("cancelled", CONFIG, environments, True)
        assert {entry["id"] for entry in tiny.sandboxes()} == before


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"vms": [{"source": "no-such-image"}]}, "no-such-image"),
        ({"vms": [{**SMALL, "native": {"args": ["-no-such-option"]}}]}, "no-such-option"),
    ],
)
async def test_sample_init_failed_leaves_nothing(
    tiny: Moat, broken: dict[str, Any], reason: str
) -> None:
    before = {entry["id"] for entry in tiny.sandboxes()}
    running = set(running_sandboxes())
    with pytest.raises((ValueError, LookupError, RuntimeError), match=reason):
        await MoatSandboxEnvironment.sample_init("broken", config_of(broken), {})
    assert {entry["id"] for entry in tiny.sandboxes()} == before
    assert set(running_sandboxes()) == running


# the end


@pytest.fixture
async def own(tiny: Moat) -> dict[str, SandboxEnvironment]:
    """A sample with one VM, for a test to end."""
    return await MoatSandboxEnvironment.sample_init("own", CONFIG, METADATA)


def id_of(environments: dict[str, SandboxEnvironment]) -> str:
    return environments["default"].as_type(VmSandboxEnvironment).sandbox_id


async def test_a_sandbox_that_was_detached_outlives_its_sample(
    tiny: Moat,
    own: dict[str, SandboxEnvironment],
    sample: dict[str, SandboxEnvironment],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = running_sandboxes().pop(id_of(sample))
    assert tiny.run("detach", id_of(own)).returncode == 0
    await MoatSandboxEnvironment.sample_cleanup("own", CONFIG, own, False)
    assert (await own["default"].exec(["echo", "here"])).stdout == "here\n"
    await MoatSandboxEnvironment.task_cleanup("own", CONFIG, True)
    running_sandboxes()[other.id] = other
    assert f"moat shell {id_of(own)}" in capsys.readouterr().out
    assert id_of(own) in {entry["id"] for entry in tiny.sandboxes()}
    assert tiny.run("rm", id_of(own)).returncode == 0


async def test_sample_cleanup_removes_also_when_interrupted_and_twice(
    tiny: Moat, own: dict[str, SandboxEnvironment]
) -> None:
    assert id_of(own) in {entry["id"] for entry in tiny.sandboxes()}
    for interrupted in (True, False):
        await MoatSandboxEnvironment.sample_cleanup("own", CONFIG, own, interrupted)
        assert id_of(own) not in {entry["id"] for entry in tiny.sandboxes()}
    await expect_unavailable(own["default"])


async def test_task_cleanup_removes_what_is_left_of_its_provider(
    tiny: Moat,
    own: dict[str, SandboxEnvironment],
    sample: dict[str, SandboxEnvironment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = running_sandboxes().pop(id_of(sample))
    await ProxmoxSandboxEnvironment.task_cleanup("shutdown", None, True)
    assert id_of(own) in {entry["id"] for entry in tiny.sandboxes()}
    await MoatSandboxEnvironment.task_cleanup("shutdown", None, True)
    assert id_of(own) not in {entry["id"] for entry in tiny.sandboxes()}
    running_sandboxes()[other.id] = other


async def test_an_evaluation_is_told_that_a_person_has_acted(
    tiny: Moat, own: dict[str, SandboxEnvironment], caplog: pytest.LogCaptureFixture
) -> None:
    box = id_of(own)
    assert (await own["default"].exec(["true"])).success
    assert tiny.run("exec", "-t", box, "true").returncode == 0
    await MoatSandboxEnvironment.sample_cleanup("own", CONFIG, own, False)
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == f"A person has acted in sandbox {box} of sample s1: typed (1)"


async def test_the_page_of_a_sandbox_is_told(
    tiny: Moat,
    own: dict[str, SandboxEnvironment],
    sample: dict[str, SandboxEnvironment],
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = id_of(own)
    other = running_sandboxes().pop(id_of(sample))
    assert "http" not in (await own["default"].connection()).command
    with tiny.web() as address:
        page = f"{address}/sandbox/{box}"
        command = (await own["default"].connection()).command
        assert command.endswith(f"; : or in a browser {shlex.quote(page)}")
        assert tiny.shell(command, "echo in-there\n") == "in-there\n"
        assert tiny.run("detach", box).returncode == 0
        await MoatSandboxEnvironment.sample_cleanup("own", CONFIG, own, False)
        await MoatSandboxEnvironment.task_cleanup("own", CONFIG, True)
        assert page in capsys.readouterr().out
    running_sandboxes()[other.id] = other
    assert tiny.run("rm", box).returncode == 0


async def test_task_cleanup_without_cleanup_detaches_and_cli_cleanup_removes(
    tiny: Moat,
    own: dict[str, SandboxEnvironment],
    sample: dict[str, SandboxEnvironment],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = running_sandboxes().pop(id_of(sample))
    for _ in range(2):  # the second time there is nothing to say
        await MoatSandboxEnvironment.task_cleanup("shutdown", None, False)
    running_sandboxes()[other.id] = other
    assert (await listed(own["default"]))["detached"]
    said = capsys.readouterr().out
    for needed in (f"moat shell {id_of(own)}", f"inspect sandbox cleanup moat {id_of(own)}"):
        assert needed in said
    assert said.count(f"  {id_of(own)}  s1  (default)") == 1
    await MoatSandboxEnvironment.cli_cleanup(id_of(own))
    assert id_of(own) in capsys.readouterr().out
    await expect_unavailable(own["default"])


# what a provider says about itself


def test_config_files_are_those_of_the_local_driver() -> None:
    assert MoatSandboxEnvironment.config_files()[:3] == ["moat.yaml", "moat.yml", "moat.json"]
    assert ProxmoxSandboxEnvironment.config_files() == []


@pytest.mark.parametrize("provider", [p for p in PROVIDERS if p is not MoatSandboxEnvironment])
def test_compose_is_refused_by_drivers_that_cannot_make_it(
    provider: type[VmSandboxEnvironment],
) -> None:
    assert provider.is_docker_compatible() is False
    with pytest.raises(ValueError, match="ComposeConfig"):
        provider.parse_config(ComposeConfig(services={}))


def test_config_deserialize_gives_back_what_a_log_holds() -> None:
    again = MoatSandboxEnvironment.config_deserialize(FOUR.model_dump(mode="json"))
    assert again == FOUR
    assert hash(again) == hash(FOUR)


def test_default_concurrency_is_the_number_of_processors() -> None:
    assert MoatSandboxEnvironment.default_concurrency() == os.cpu_count()
