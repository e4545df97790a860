"""A test for each row of Inspect's contract that needs a real VM; self_check has the others."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment, SandboxUnavailableError
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import override_sandbox_output_limit

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig, VmSandboxEnvironment
from inspect_moat._connect import connect
from real_daemon import TINY, Moat

pytestmark = pytest.mark.anyio

CONFIG = MoatSandboxEnvironmentConfig.model_validate(TINY)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def machine(tiny: Moat, anyio_backend: str) -> AsyncIterator[SandboxEnvironment]:
    """One VM for all tests that do not harm it."""
    await MoatSandboxEnvironment.task_init("startup", CONFIG)
    environments = await MoatSandboxEnvironment.sample_init("contract", CONFIG, {})
    yield environments["default"]
    await MoatSandboxEnvironment.sample_cleanup("contract", CONFIG, environments, False)
    tiny.assert_nothing_left()


@pytest.fixture
async def own_machine(tiny: Moat) -> AsyncIterator[SandboxEnvironment]:
    """A VM for one test."""
    environments = await MoatSandboxEnvironment.sample_init("contract", CONFIG, {})
    yield environments["default"]
    await MoatSandboxEnvironment.sample_cleanup("contract", CONFIG, environments, False)


async def sh(machine: SandboxEnvironment, script: str, **more: Any) -> str:
    result = await machine.exec(["sh", "-c", script], **more)
    assert result.success, result
    return result.stdout


async def listed(machine: SandboxEnvironment) -> dict[str, Any]:
    id = machine.as_type(VmSandboxEnvironment).sandbox_id
    reply = await (await connect()).request("ls", {"sandbox": id})
    (entry,) = reply.result["sandboxes"]
    assert isinstance(entry, dict)
    return entry


# exec


async def test_working_directory_is_the_home_of_the_user(machine: SandboxEnvironment) -> None:
    assert await sh(machine, "pwd") == "/home/user\n"
    assert await sh(machine, "pwd", cwd="/tmp") == "/tmp\n"
    await sh(machine, "mkdir -p a/b")
    assert await sh(machine, "pwd", cwd="a/b") == "/home/user/a/b\n"


async def test_default_user_is_not_root_but_root_is_there(machine: SandboxEnvironment) -> None:
    assert await sh(machine, "id -un") == "user\n"
    assert await sh(machine, "id -u", user="root") == "0\n"
    assert await sh(machine, "id -u", user="1000") == "1000\n"


async def test_missing_program_is_an_ordinary_failure(machine: SandboxEnvironment) -> None:
    result = await machine.exec(["no-such-program"])
    assert (result.success, result.returncode) == (False, 127)
    assert "no-such-program" in result.stderr


async def test_missing_working_directory_is_an_ordinary_failure(
    machine: SandboxEnvironment,
) -> None:
    result = await machine.exec(["true"], cwd="/no/such/directory")
    assert not result.success
    assert "/no/such/directory" in result.stderr


async def test_program_that_may_not_be_run(machine: SandboxEnvironment) -> None:
    with pytest.raises(PermissionError):
        await machine.exec(["/etc/passwd"])


async def test_streams_are_separate_and_text_is_repaired(machine: SandboxEnvironment) -> None:
    result = await machine.exec(["sh", "-c", r"printf 'out\377'; printf 'err' >&2; exit 3"])
    assert (result.stdout, result.stderr) == ("out\N{REPLACEMENT CHARACTER}", "err")
    assert result.returncode == 3


async def test_environment_variables_and_the_path(machine: SandboxEnvironment) -> None:
    env = {"A": "x 'y' \"z\" $HOME", "EMPTY": ""}
    assert await sh(machine, 'printf %s "$A"', env=env) == env["A"]
    assert await sh(machine, "printf %s ${EMPTY-unset}", env=env) == ""
    assert (
        await sh(machine, "mkdir -p p; printf '#!/bin/sh\\necho mine' >p/tool; chmod +x p/tool")
        == ""
    )
    result = await machine.exec(["tool"], env={"PATH": "/home/user/p:/bin"})
    assert result.stdout == "mine\n"


async def test_timeout_carries_the_output_and_kills_the_tree(machine: SandboxEnvironment) -> None:
    with pytest.raises(TimeoutError) as caught:
        await machine.exec(
            ["sh", "-c", "echo begun; echo wrong >&2; setsid sleep 3571 & sleep 3572"], timeout=2
        )
    assert caught.value.truncated_output == "begun\nwrong\n"  # type: ignore[attr-defined]
    assert "357" not in await sh(machine, "ps -o args | grep -v grep | grep 'sleep 357' || true")


async def test_timeout_reaches_the_caller_of_the_proxy(machine: SandboxEnvironment) -> None:
    proxy = SandboxEnvironmentProxy(machine)
    with pytest.raises(TimeoutError) as caught:
        await proxy.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)
    assert caught.value.truncated_output == "begun\n"  # type: ignore[attr-defined]


async def test_cancelled_command_is_killed(machine: SandboxEnvironment) -> None:
    with anyio.move_on_after(2) as scope:
        await machine.exec(["sh", "-c", "sleep 3581 & sleep 3582"])
    assert scope.cancelled_caught
    with anyio.fail_after(30):
        while "358" in await sh(machine, "ps -o args | grep -v grep | grep 'sleep 358' || true"):  # noqa: ASYNC110
            await anyio.sleep(0.2)


async def test_output_keeps_its_end(machine: SandboxEnvironment) -> None:
    with override_sandbox_output_limit(4096):
        result = await SandboxEnvironmentProxy(machine).exec(["sh", "-c", "seq 100000; seq 5 >&2"])
    assert result.stdout.endswith("\n99999\n100000\n")
    assert 4000 < len(result.stdout) <= 4096
    assert result.stderr == "1\n2\n3\n4\n5\n"


async def test_output_cut_inside_a_character_still_fits(machine: SandboxEnvironment) -> None:
    with override_sandbox_output_limit(1000):
        result = await SandboxEnvironmentProxy(machine).exec(
            ["sh", "-c", "i=0; while [ $i -lt 999 ]; do printf €; i=$((i+1)); done"]
        )
    assert result.stdout == "€" * 333


async def test_a_larger_limit_counts_at_once(machine: SandboxEnvironment) -> None:
    size = 12 * 1024 * 1024
    with override_sandbox_output_limit(size):
        result = await machine.exec(["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"])
    assert len(result.stdout) == size


async def test_commands_at_the_same_time(machine: SandboxEnvironment) -> None:
    seen: list[str] = []

    async def one(number: int) -> None:
        seen.append(await sh(machine, f"sleep 1; echo {number}"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
    assert sorted(int(text) for text in seen) == list(range(20))


# files


async def test_relative_paths_start_where_commands_do(machine: SandboxEnvironment) -> None:
    await machine.write_file("rel/f.txt", "x\r\ny")
    assert await sh(machine, "cat /home/user/rel/f.txt") == "x\r\ny"
    assert await machine.read_file("/home/user/rel/f.txt") == "x\r\ny"
    assert await sh(machine, "stat -c '%U %a' rel/f.txt") == "user 644\n"


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/no/such/file", FileNotFoundError),
        ("/etc/passwd/below", FileNotFoundError),
        ("/etc", IsADirectoryError),
        ("/root/secret", PermissionError),
        ("x" * 300, FileNotFoundError),
    ],
)
async def test_read_errors(machine: SandboxEnvironment, path: str, wanted: type[OSError]) -> None:
    await sh(machine, "chmod 700 /root; touch /root/secret; chmod 600 /root/secret", user="root")
    with pytest.raises(wanted) as caught:
        await machine.read_file(path)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [("/etc", IsADirectoryError), ("/root/f", PermissionError), ("/etc/passwd", PermissionError)],
)
async def test_write_errors(machine: SandboxEnvironment, path: str, wanted: type[OSError]) -> None:
    with pytest.raises(wanted) as caught:
        await machine.write_file(path, "x")
    assert path in str(caught.value)


async def test_read_limit(machine: SandboxEnvironment) -> None:
    await machine.write_file("large", b"\xff" * 2049)
    with override_sandbox_output_limit(2048), pytest.raises(OutputLimitExceededError) as caught:
        await machine.read_file("large", text=False)
    assert "2 KiB" in str(caught.value)
    with override_sandbox_output_limit(2049):
        assert len(await machine.read_file("large", text=False)) == 2049


async def test_reading_what_never_ends(machine: SandboxEnvironment) -> None:
    with (
        override_sandbox_output_limit(65536),
        anyio.fail_after(60),
        pytest.raises((OutputLimitExceededError, OSError)),
    ):
        await machine.read_file("/dev/zero", text=False)


async def test_text_that_is_none(machine: SandboxEnvironment) -> None:
    await machine.write_file("binary", b"\xc3\x28")
    with pytest.raises(UnicodeDecodeError):
        await machine.read_file("binary")
    assert await machine.read_file("binary", text=False) == b"\xc3\x28"


# the life of a sandbox


async def test_labels_are_shown_while_it_runs(machine: SandboxEnvironment) -> None:
    labels = (await listed(machine))["labels"]
    assert labels["inspect"] == "1"
    assert labels["task"] == "contract"
    assert labels["pid"] == str(os.getpid())


async def test_connection_is_a_command_that_exists(machine: SandboxEnvironment, tiny: Moat) -> None:
    connection = await machine.connection(user="root")
    assert connection.type == "moat"
    assert f"{tiny.binary} shell" in connection.command
    assert machine.as_type(VmSandboxEnvironment).sandbox_id in connection.command


async def test_a_dead_vm_is_unavailable(own_machine: SandboxEnvironment, tiny: Moat) -> None:
    (vm,) = (await listed(own_machine))["vms"]
    assert vm["pid"] in tiny.vm_processes(), "not a VM of ours"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_expect_unavailable, own_machine, ["sleep", "600"])
            await anyio.sleep(1)
            os.kill(vm["pid"], signal.SIGKILL)
        await _expect_unavailable(own_machine, ["true"])
        with pytest.raises(SandboxUnavailableError):
            await own_machine.read_file("/etc/passwd")
        with pytest.raises(SandboxUnavailableError):
            await own_machine.write_file("f", "x")
        with pytest.raises(ConnectionError):
            await own_machine.connection()


async def _expect_unavailable(machine: SandboxEnvironment, command: list[str]) -> None:
    with pytest.raises(SandboxUnavailableError):
        await machine.exec(command)


async def test_a_vm_that_was_turned_off_is_unavailable(own_machine: SandboxEnvironment) -> None:
    with anyio.fail_after(60):
        with suppress(SandboxUnavailableError, TimeoutError):
            await own_machine.exec(["sh", "-c", "poweroff -f; sleep 60"], user="root", timeout=30)
        await _expect_unavailable(own_machine, ["true"])


async def test_a_removed_sandbox_is_unavailable(own_machine: SandboxEnvironment) -> None:
    await MoatSandboxEnvironment.cli_cleanup(own_machine.as_type(VmSandboxEnvironment).sandbox_id)
    await _expect_unavailable(own_machine, ["true"])
    with pytest.raises(ConnectionError):
        await own_machine.connection()


async def test_cancelled_start_leaves_nothing(machine: SandboxEnvironment, tiny: Moat) -> None:
    before = {entry["id"] for entry in tiny.sandboxes()}
    for delay in (0.01, 0.1, 0.5, 1.5):
        with anyio.move_on_after(delay):
            environments = await MoatSandboxEnvironment.sample_init("cancelled", CONFIG, {})
            await MoatSandboxEnvironment.sample_cleanup("cancelled", CONFIG, environments, True)
        assert {entry["id"] for entry in tiny.sandboxes()} == before


async def test_two_vms_by_name(tiny: Moat) -> None:
    vms = [{**TINY["vms"][0], "name": name} for name in ("one", "two")]
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": vms})
    environments = await MoatSandboxEnvironment.sample_init("two", config, {})
    try:
        assert list(environments) == ["default", "one", "two"]
        await environments["one"].write_file("f", "one")
        assert await environments["default"].read_file("f") == "one"
        with pytest.raises(FileNotFoundError):
            await environments["two"].read_file("f")
    finally:
        await MoatSandboxEnvironment.sample_cleanup("two", config, environments, False)


async def test_specifications_that_the_daemon_refuses(machine: SandboxEnvironment) -> None:
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": [{"source": "no-such-image"}]})
    with pytest.raises((ValueError, LookupError), match="no-such-image"):
        await MoatSandboxEnvironment.sample_init("refused", config, {})
