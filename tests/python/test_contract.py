"""A test for each row of Inspect's contract about what a sandbox does: commands, files, limits.

Names begin with the method that the row is about. self_check has more of them, test_lifecycle the
rows about whole sandboxes.
"""

from __future__ import annotations

import inspect
import os
import signal
from typing import Any

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy, SandboxTimeoutError
from inspect_ai.util._sandbox.limits import (
    override_max_exec_output_size,
    override_max_read_file_size,
    override_sandbox_output_limit,
    reset_sandbox_limits,
    set_sandbox_limits,
)

from inspect_moat import MoatSandboxEnvironment, ProxmoxSandboxEnvironment, VmSandboxEnvironment
from real_daemon import Moat

pytestmark = pytest.mark.anyio

PATIENCE = 300.0
NUL = "embedded null byte"  # Inspect turns these words into an error of the tool, for the model


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def sh(machine: SandboxEnvironment, script: str, **more: Any) -> str:
    result = await machine.exec(["sh", "-c", script], **more)
    assert result.success, result
    return result.stdout


# exec


def test_exec_has_exactly_the_parameters_that_the_proxy_counts() -> None:
    signature = inspect.signature(MoatSandboxEnvironment.exec)
    assert list(signature.parameters)[1:] == [
        "cmd", "input", "cwd", "env", "user", "timeout", "timeout_retry", "concurrency",
    ]  # fmt: skip


async def test_exec_with_everything_at_once(machine: SandboxEnvironment) -> None:
    proxy = SandboxEnvironmentProxy(machine)
    script = 'cat; pwd; id -un; echo "$K"; echo "$1" >&2; exit 9'
    result = await proxy.exec(
        ["sh", "-c", script, "sh", "b c"],
        input="in\n",
        cwd="/tmp",
        env={"K": "v"},
        user="root",
        timeout=60,
        timeout_retry=False,
        concurrency=False,
    )
    assert (result.success, result.returncode) == (False, 9)
    assert (result.stdout, result.stderr) == ("in\n/tmp\nroot\nv\n", "b c\n")


async def test_exec_starts_in_the_home_of_the_user(machine: SandboxEnvironment) -> None:
    assert await sh(machine, "pwd") == "/home/user\n"
    assert await sh(machine, "pwd", cwd="/tmp") == "/tmp\n"
    await sh(machine, "mkdir -p a/b")
    assert await sh(machine, "pwd", cwd="a/b") == "/home/user/a/b\n"


async def test_exec_starts_at_the_same_place_for_all_users(machine: SandboxEnvironment) -> None:
    """Commands of root start where relative paths of files do: they find what write_file wrote."""
    await machine.write_file("shared/file", "content")
    assert await sh(machine, "pwd; cat shared/file", user="root") == "/home/user\ncontent"
    assert await sh(machine, "pwd", user="root", cwd="shared") == "/home/user/shared\n"
    assert await sh(machine, "pwd", user="root", cwd="/tmp") == "/tmp\n"
    assert await sh(machine, "echo $HOME", user="root") == "/root\n"
    await sh(machine, "chmod 700 .")
    assert await sh(machine, "pwd", user="root") == "/home/user\n"
    assert await sh(machine, "pwd", user="nobody") != "/home/user\n"  # nobody may not enter it
    with pytest.raises(PermissionError):
        await machine.exec(["pwd"], user="nobody", cwd="shared")


async def test_exec_user_is_not_root_unless_asked_for(
    machine: SandboxEnvironment, lab: tuple[Moat, str]
) -> None:
    assert await sh(machine, "id -un") == "user\n"
    assert await sh(machine, "id -u", user="root") == "0\n"
    assert await sh(machine, "id -u", user="1000") == "1000\n"
    other = machine.as_type(VmSandboxEnvironment)
    as_root = MoatSandboxEnvironment(other._connection, lab[1], "two")
    assert await sh(as_root, "id -u; pwd") == "0\n/root\n"


async def test_exec_of_a_missing_program_is_an_ordinary_failure(
    machine: SandboxEnvironment,
) -> None:
    result = await machine.exec(["no-such-program"])
    assert (result.success, result.returncode) == (False, 127)
    assert "no-such-program" in result.stderr


async def test_exec_in_a_missing_directory_is_an_ordinary_failure(
    machine: SandboxEnvironment,
) -> None:
    result = await machine.exec(["true"], cwd="/no/such/directory")
    assert not result.success
    assert "/no/such/directory" in result.stderr


async def test_exec_of_what_may_not_be_run(machine: SandboxEnvironment) -> None:
    with pytest.raises(PermissionError):
        await machine.exec(["/etc/passwd"])


async def test_exec_of_what_no_system_can_run(machine: SandboxEnvironment) -> None:
    with pytest.raises(ValueError, match=NUL):
        await machine.exec(["echo", "a\0b"])
    for more in ({"cwd": "/\0"}, {"user": "a\0"}, {"env": {"A": "\0"}}):
        with pytest.raises(ValueError, match=NUL):
            await machine.exec(["true"], **more)
    nameless = await machine.exec(["", "x"])
    assert (nameless.success, nameless.returncode) == (False, 127)
    large = await machine.exec(["echo", *["x" * 100_000] * 50])
    assert not large.success
    assert "too long" in large.stderr


async def test_exec_replaces_half_characters(machine: SandboxEnvironment) -> None:
    result = await machine.exec(["sh", "-c", 'echo "$1"; cat', "sh", "a\ud83db 🚀"], input="\ud83d")
    assert result.stdout == "a\N{REPLACEMENT CHARACTER}b 🚀\n\N{REPLACEMENT CHARACTER}"


async def test_exec_keeps_streams_apart_and_repairs_text(machine: SandboxEnvironment) -> None:
    result = await machine.exec(["sh", "-c", r"printf 'out\377'; printf 'err' >&2; exit 3"])
    assert (result.stdout, result.stderr) == ("out\N{REPLACEMENT CHARACTER}", "err")
    assert result.returncode == 3


async def test_exec_environment_and_path(machine: SandboxEnvironment) -> None:
    env = {"A": "x 'y' \"z\" $HOME", "EMPTY": ""}
    assert await sh(machine, 'printf %s "$A"', env=env) == env["A"]
    assert await sh(machine, "printf %s ${EMPTY-unset}", env=env) == ""
    await sh(machine, "mkdir -p p; printf '#!/bin/sh\\necho mine' >p/tool; chmod +x p/tool")
    result = await machine.exec(["tool"], env={"PATH": "/home/user/p:/bin"})
    assert result.stdout == "mine\n"


async def test_exec_timeout_carries_the_output_and_kills_the_tree(
    machine: SandboxEnvironment,
) -> None:
    script = "echo begun; echo wrong >&2; setsid sleep 3571 & sleep 3572"
    with pytest.raises(SandboxTimeoutError) as caught:
        await SandboxEnvironmentProxy(machine).exec(["sh", "-c", script], timeout=6)
    assert caught.value.truncated_output == "begun\nwrong\n"
    assert "357" not in await sh(machine, "ps -o args | grep -v grep | grep 'sleep 357' || true")


async def test_exec_that_timed_out_is_not_run_again(machine: SandboxEnvironment) -> None:
    await sh(machine, "rm -f runs")
    with pytest.raises(TimeoutError):
        await machine.exec(["sh", "-c", "echo >>runs; sleep 60"], timeout=6, timeout_retry=True)
    assert await machine.read_file("runs") == "\n"


async def test_exec_cancelled_kills_the_tree(machine: SandboxEnvironment) -> None:
    listing = "ps -o args | grep '^sleep 358' || true"

    async def until_there_are(count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while (await sh(machine, listing)).count("sleep") != count:  # noqa: ASYNC110
                await anyio.sleep(0.2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(machine.exec, ["sh", "-c", "sleep 3581 & sleep 3582"])
        await until_there_are(2)
        tasks.cancel_scope.cancel()
    await until_there_are(0)


async def test_exec_at_the_same_time(machine: SandboxEnvironment) -> None:
    seen: list[str] = []

    async def one(number: int) -> None:
        seen.append(await sh(machine, f"sleep 0.5; echo {number}"))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
    assert sorted(int(text) for text in seen) == list(range(20))


# limits, read at the time of the call


async def test_exec_output_over_the_limit_keeps_its_end(machine: SandboxEnvironment) -> None:
    with override_max_exec_output_size(4096):
        result = await SandboxEnvironmentProxy(machine).exec(["sh", "-c", "seq 100000; seq 5 >&2"])
    assert result.stdout.endswith("\n99999\n100000\n")
    assert 4000 < len(result.stdout) <= 4096
    assert result.stderr == "1\n2\n3\n4\n5\n"


async def test_exec_output_cut_inside_a_character_still_fits(machine: SandboxEnvironment) -> None:
    with override_max_exec_output_size(1000):
        result = await SandboxEnvironmentProxy(machine).exec(
            ["sh", "-c", "i=0; while [ $i -lt 999 ]; do printf €; i=$((i+1)); done"]
        )
    assert result.stdout == "€" * 333


async def test_exec_output_limit_that_is_larger_counts_at_once(machine: SandboxEnvironment) -> None:
    size = 12 * 1024 * 1024
    with override_max_exec_output_size(size):
        result = await machine.exec(["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"])
    assert len(result.stdout) == size


async def test_limits_of_the_environment_variables(
    machine: SandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPECT_SANDBOX_MAX_EXEC_OUTPUT_SIZE", "5")
    monkeypatch.setenv("INSPECT_SANDBOX_MAX_READ_FILE_SIZE", "6")
    await machine.write_file("seven", "1234567")
    tokens = set_sandbox_limits()  # as Inspect does at the start of an eval
    try:
        assert await sh(machine, "echo 123456") == "3456\n"
        with pytest.raises(OutputLimitExceededError, match="6 bytes"):
            await machine.read_file("seven")
    finally:
        reset_sandbox_limits(tokens)
    assert await machine.read_file("seven") == "1234567"


async def test_read_file_over_the_limit(machine: SandboxEnvironment) -> None:
    await machine.write_file("large", b"\xff" * 2049)
    with override_max_read_file_size(2048), pytest.raises(OutputLimitExceededError) as caught:
        await machine.read_file("large", text=False)
    assert "2 KiB" in str(caught.value)
    with override_max_read_file_size(2049):
        assert len(await machine.read_file("large", text=False)) == 2049


async def test_read_file_that_never_ends(machine: SandboxEnvironment) -> None:
    with (
        override_sandbox_output_limit(65536),
        anyio.fail_after(PATIENCE),
        pytest.raises((OutputLimitExceededError, OSError)),
    ):
        await machine.read_file("/dev/zero", text=False)


# files


async def test_write_file_makes_parents_and_overwrites(machine: SandboxEnvironment) -> None:
    for content in ("long content", "short"):
        await machine.write_file("new/deep/er/f.txt", content)
        assert await machine.read_file("/home/user/new/deep/er/f.txt") == content
    assert await sh(machine, "stat -c '%U %a' new/deep new/deep/er/f.txt") == "user 755\nuser 644\n"


async def test_write_file_takes_bytes_as_they_are(machine: SandboxEnvironment) -> None:
    await machine.write_file("bytes", bytes(range(256)))
    assert await machine.read_file("bytes", text=False) == bytes(range(256))


@pytest.mark.parametrize(
    ("path", "wanted"),
    [("/etc", IsADirectoryError), ("/root/f", PermissionError), ("/etc/passwd", PermissionError)],
)
async def test_write_file_errors(
    machine: SandboxEnvironment, path: str, wanted: type[OSError]
) -> None:
    with pytest.raises(wanted) as caught:
        await machine.write_file(path, "x")
    assert path in str(caught.value)


async def test_write_file_that_takes_too_long(
    machine: VmSandboxEnvironment, lab: tuple[Moat, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moat, sandbox = lab
    frozen = MoatSandboxEnvironment(machine._connection, sandbox, "two")
    (pid,) = moat.vm_processes("two")
    await frozen.write_file("f", "before")
    with monkeypatch.context() as patch:
        patch.setattr("inspect_moat._guest.FILE_TIMEOUT", 1.0)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                await frozen.write_file("f", "after")
        finally:
            os.kill(pid, signal.SIGCONT)
    await frozen.write_file("f", "at last")
    assert await frozen.read_file("f") == "at last"


async def test_read_file_keeps_line_ends_and_relative_paths(machine: SandboxEnvironment) -> None:
    await machine.write_file("rel/f.txt", "x\r\ny")
    assert await sh(machine, "cat /home/user/rel/f.txt") == "x\r\ny"
    assert await machine.read_file("rel/f.txt") == "x\r\ny"


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
async def test_read_file_errors(
    machine: SandboxEnvironment, path: str, wanted: type[OSError]
) -> None:
    await sh(machine, "chmod 700 /root; touch /root/secret; chmod 600 /root/secret", user="root")
    with pytest.raises(wanted) as caught:
        await machine.read_file(path)
    assert path in str(caught.value)


async def test_paths_that_cannot_exist(machine: SandboxEnvironment) -> None:
    for path in ("a\0b", "\udc80"):
        with pytest.raises(FileNotFoundError):
            await machine.read_file(path)
    with pytest.raises(ValueError, match=NUL):
        await machine.write_file("a\0b", "x")
    with pytest.raises(FileNotFoundError):
        await machine.write_file("\udc80", "x")


@pytest.mark.parametrize("path", ["", ".", "..", "/tmp/"])
async def test_paths_that_are_directories(machine: SandboxEnvironment, path: str) -> None:
    """A model may well try this: it gets an error of the tool, and the sample goes on."""
    with pytest.raises(IsADirectoryError):
        await machine.read_file(path)
    with pytest.raises(IsADirectoryError):
        await machine.write_file(path, "x")


async def test_read_file_that_is_no_text(machine: SandboxEnvironment) -> None:
    await machine.write_file("binary", b"\xc3\x28")
    with pytest.raises(UnicodeDecodeError):
        await machine.read_file("binary")
    assert await machine.read_file("binary", text=False) == b"\xc3\x28"


# the rest of the interface


async def test_connection_is_a_command_that_logs_in(
    machine: SandboxEnvironment, lab: tuple[Moat, str]
) -> None:
    connection = await machine.connection(user="root")
    assert connection.type == "moat"
    assert connection.container == lab[1]
    with anyio.fail_after(PATIENCE):
        done = await anyio.run_process(
            ["sh", "-c", connection.command],
            input=b"id -un; exit\n",
            env={"PATH": os.environ["PATH"]},  # a new terminal has not more of our environment
        )
    assert done.stdout.split()[-1] == b"root", done


async def test_connection_lists_the_forwarded_ports(
    machine: SandboxEnvironment, lab: tuple[Moat, str]
) -> None:
    client, sandbox = lab
    assert (await machine.connection()).ports is None
    made = [client.run("forward", sandbox, vm, "8080") for vm in ("one", "two")]
    assert [done.returncode for done in made] == [0, 0], made
    ports = (await machine.connection()).ports
    assert ports is not None
    assert [(port.container_port, port.protocol) for port in ports] == [(8080, "tcp")]
    (mapping,) = ports[0].mappings
    assert mapping.host_ip == "127.0.0.1"
    assert str(mapping.host_port) in made[0].stdout
    removed = client.run("forward", "--remove", str(mapping.host_port), sandbox)
    assert removed.returncode == 0, removed
    assert (await machine.connection()).ports is None


async def test_connection_has_a_vs_code_window_where_ssh_is(
    machine: SandboxEnvironment, lab: tuple[Moat, str]
) -> None:
    client, sandbox = lab
    assert (await machine.connection()).vscode_command is None
    made = client.run("forward", sandbox, "one", "22")
    assert made.returncode == 0, made
    port = int(made.stdout.split(":")[1])
    for user, wanted in ((None, "user"), ("somebody", "somebody")):
        command = (await machine.connection(user=user)).vscode_command
        to = {"host": "127.0.0.1", "port": port, "userName": wanted}
        assert command == ["opensshremotes.openEmptyWindow", to]
    client.run("forward", "--remove", str(port), sandbox)
    assert (await machine.connection()).vscode_command is None


def test_as_type_is_checked(lab: tuple[Moat, str]) -> None:
    environment: SandboxEnvironment = MoatSandboxEnvironment(None, lab[1], "one")  # type: ignore[arg-type]
    for kind in (MoatSandboxEnvironment, VmSandboxEnvironment):
        assert environment.as_type(kind) is environment
    with pytest.raises(TypeError):
        environment.as_type(ProxmoxSandboxEnvironment)


async def test_as_type_leads_to_snapshots(machine: SandboxEnvironment) -> None:
    moat = machine.as_type(VmSandboxEnvironment)
    with pytest.raises((LookupError, NotImplementedError)):
        await moat.restore_snapshot("never-made")


async def test_what_the_base_class_prepares_is_there(machine: SandboxEnvironment) -> None:
    assert machine._tools_injected is False
    assert machine.default_polling_interval() == 0.2
