"""The provider's side of Inspect's contract, against a daemon whose answers the tests choose."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_sandbox_output_limit

from fake_daemon import FakeDaemon, Peer, fake_daemon
from inspect_moat import (
    MoatSandboxEnvironment,
    MoatSandboxEnvironmentConfig,
    ProxmoxSandboxEnvironment,
    VmSandboxEnvironment,
)
from inspect_moat._running import running_sandboxes
from inspect_moat._wire import Message

pytestmark = pytest.mark.anyio

ID = "3f9a1c20"
OK = {"exit_code": 0, "signal": 0, "timed_out": False, "stdout_bytes": 0, "stderr_bytes": 0}
METADATA: dict[str, Any] = {"__sample_id__": "s1"}
VMS = [
    {"name": "router", "state": "running", "sandbox": False, "default": False},
    {"name": "attacker", "state": "running", "sandbox": True, "default": True},
    {"name": "victim", "state": "running", "sandbox": True, "default": False},
]

Answer = Callable[[Peer, Message], Coroutine[Any, Any, None]]


class Script:
    """Answers each operation with success, unless a test says otherwise."""

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self.inputs: list[bytes] = []
        self.answers: dict[str, Answer] = {}
        self.results: dict[str, dict[str, Any]] = {
            "up": {"sandbox": ID, "vms": VMS},
            "exec": OK,
            "ls": {"sandboxes": [{"id": ID, "vms": VMS}]},
            "rm": {"removed": [ID]},
        }

    async def __call__(self, peer: Peer, message: Message, blob: bytes) -> None:
        if message["type"] != "request":
            return
        self.requests.append(message)
        self.inputs.append(blob)
        answer = self.answers.get(message["op"])
        if answer is not None:
            await answer(peer, message)
        else:
            await peer.result(message["id"], **self.results.get(message["op"], {}))

    def fail(self, op: str, kind: str, message: str, **more: Any) -> None:
        async def answer(peer: Peer, request: Message) -> None:
            await peer.error(request["id"], kind, message, **more)

        self.answers[op] = answer

    def args(self, op: str) -> list[dict[str, Any]]:
        return [request["args"] for request in self.requests if request["op"] == op]


@pytest.fixture
def script() -> Script:
    return Script()


@asynccontextmanager
async def running(
    directory: Path, script: Script
) -> AsyncIterator[tuple[FakeDaemon, dict[str, SandboxEnvironment]]]:
    async with fake_daemon(directory, script) as daemon:
        yield daemon, await MoatSandboxEnvironment.sample_init("task", None, METADATA)


async def start_and_cancel(daemon: FakeDaemon) -> None:
    """Cancel a sample_init as soon as the daemon knows of it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(MoatSandboxEnvironment.sample_init, "task", None, METADATA)
        await daemon.wait_for("request")
        tasks.cancel_scope.cancel()


def test_exec_has_exactly_the_parameters_that_the_proxy_counts() -> None:
    signature = inspect.signature(MoatSandboxEnvironment.exec)
    assert list(signature.parameters)[1:] == [
        "cmd", "input", "cwd", "env", "user", "timeout", "timeout_retry", "concurrency",
    ]  # fmt: skip


# The life of a sandbox.


async def test_default_environment_first_then_the_others(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        assert list(environments) == ["default", "attacker", "victim"]
        assert environments["default"] is environments["attacker"]
        names = {k: e.as_type(VmSandboxEnvironment).vm_name for k, e in environments.items()}
    assert names == {"default": "attacker", "attacker": "attacker", "victim": "victim"}


async def test_environments_have_what_the_base_class_gives_them(
    runtime_dir: Path, script: Script
) -> None:
    async with running(runtime_dir, script) as (_, environments):
        assert environments["default"]._tools_injected is False
        assert environments["default"].default_polling_interval() == 0.2


async def test_up_gets_spec_and_labels(runtime_dir: Path, script: Script) -> None:
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": [{"source": "tiny"}]})
    async with fake_daemon(runtime_dir, script):
        await MoatSandboxEnvironment.sample_init("my_task", config, METADATA)
    (args,) = script.args("up")
    assert args["spec"]["vms"] == [{"name": "default", "source": {"image": "tiny"}}]
    assert args["labels"]["task"] == "my_task"
    assert args["labels"]["sample"] == "s1"


async def test_failed_up_leaves_nothing(runtime_dir: Path, script: Script) -> None:
    script.fail("up", "backend", "qemu said no")
    async with fake_daemon(runtime_dir, script):
        with pytest.raises(RuntimeError, match="qemu said no"):
            await MoatSandboxEnvironment.sample_init("task", None, METADATA)
        assert running_sandboxes() == {}
    assert script.args("rm") == []


async def test_cancelled_up_waits_until_nothing_is_left(runtime_dir: Path, script: Script) -> None:
    removed = False

    async def cancelled(peer: Peer, message: Message) -> None:
        nonlocal removed
        await daemon.wait_for("cancel")
        await anyio.sleep(0.2)
        removed = True
        await peer.error(message["id"], "cancelled", "removed")

    script.answers["up"] = cancelled
    async with fake_daemon(runtime_dir, script) as daemon:
        await start_and_cancel(daemon)
        assert removed, "sample_init came back before the daemon was done"
        assert running_sandboxes() == {}


async def test_up_that_finishes_in_spite_of_the_cancellation_is_removed(
    runtime_dir: Path, script: Script
) -> None:
    async def too_late(peer: Peer, message: Message) -> None:
        await daemon.wait_for("cancel")
        await peer.result(message["id"], sandbox=ID, vms=VMS)

    script.answers["up"] = too_late
    async with fake_daemon(runtime_dir, script) as daemon:
        await start_and_cancel(daemon)
    assert script.args("rm") == [{"sandboxes": [ID]}]


@pytest.mark.parametrize("interrupted", [False, True])
async def test_cleanup_removes_each_sandbox_once(
    runtime_dir: Path, script: Script, interrupted: bool
) -> None:
    async with running(runtime_dir, script) as (_, environments):
        await MoatSandboxEnvironment.sample_cleanup("task", None, environments, interrupted)
        await MoatSandboxEnvironment.task_cleanup("shutdown", None, True)
    assert script.args("rm") == [{"sandboxes": [ID]}]


async def test_end_of_the_eval_removes_what_is_left(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script):
        await ProxmoxSandboxEnvironment.task_cleanup("shutdown", None, True)
        assert script.args("rm") == [], "not a sandbox of that provider"
        await MoatSandboxEnvironment.task_cleanup("shutdown", None, True)
    assert script.args("rm") == [{"sandboxes": [ID]}]


async def test_no_sandbox_cleanup_detaches_and_tells(
    runtime_dir: Path,
    script: Script,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOAT_BIN", "/bin/true")
    async with running(runtime_dir, script):
        await MoatSandboxEnvironment.task_cleanup("shutdown", None, False)
        await MoatSandboxEnvironment.task_cleanup("shutdown", None, False)
    assert script.args("detach") == [{"sandbox": ID}]
    assert script.args("rm") == []
    said = capsys.readouterr().out
    assert f"/bin/true shell {ID}" in said
    assert f"inspect sandbox cleanup moat {ID}" in said
    assert said.count("s1") == 1


async def test_cleanup_from_the_command_line(runtime_dir: Path, script: Script) -> None:
    async with fake_daemon(runtime_dir, script):
        await MoatSandboxEnvironment.cli_cleanup(None)
        await MoatSandboxEnvironment.cli_cleanup(ID)
    assert script.args("rm") == [
        {"labels": {"inspect": "1", "provider": "moat"}},
        {"sandboxes": [ID]},
    ]


async def test_cleanup_of_an_unknown_sandbox_fails(
    runtime_dir: Path, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.fail("rm", "not_found", "no sandbox abcd")
    async with fake_daemon(runtime_dir, script):
        with pytest.raises(SystemExit) as caught:
            await MoatSandboxEnvironment.cli_cleanup("abcd")
    assert caught.value.code == 1
    assert "no sandbox abcd" in capsys.readouterr().err


async def test_start_of_an_eval_validates_and_builds_images_once(
    runtime_dir: Path, script: Script
) -> None:
    config = MoatSandboxEnvironmentConfig.model_validate(
        {"vms": [{"source": "tiny"}, {"source": "tiny", "name": "b"}]}
    )
    script.fail("validate", "not_found", "no image tiny")
    script.fail("image.inspect", "not_found", "no image tiny")

    async def build(peer: Peer, message: Message) -> None:
        script.answers.clear()  # now it is there
        await peer.result(message["id"])

    script.answers["image.build"] = build
    async with fake_daemon(runtime_dir, script):
        await MoatSandboxEnvironment.task_init("startup", config)
    assert len(script.args("validate")) == 2
    assert script.args("image.build") == [{"image": "tiny"}]


async def test_an_image_that_nobody_can_build(runtime_dir: Path, script: Script) -> None:
    for op in ("validate", "image.inspect", "image.build"):
        script.fail(op, "not_found", "no image and no recipe tinny")
    async with fake_daemon(runtime_dir, script):
        with pytest.raises(PrerequisiteError, match="sandbox moat: no image and no recipe tinny"):
            await MoatSandboxEnvironment.task_init("startup", None)


async def test_an_image_that_is_there_is_not_built(runtime_dir: Path, script: Script) -> None:
    async with fake_daemon(runtime_dir, script):
        await MoatSandboxEnvironment.task_init("startup", None)
    assert script.args("image.build") == []


async def test_a_wrong_specification_is_said_before_an_image_is_built(
    runtime_dir: Path, script: Script
) -> None:
    script.fail("validate", "invalid", "vms[0].cpu: no CPU model foo")
    async with fake_daemon(runtime_dir, script):
        with pytest.raises(PrerequisiteError, match="no CPU model foo"):
            await MoatSandboxEnvironment.task_init("startup", None)
    assert script.args("image.build") == []


async def test_a_driver_that_is_missing_is_said_before_the_samples(
    runtime_dir: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXMOX_HOST", "pve")
    script.fail("validate", "unsupported", "no driver proxmox")
    async with fake_daemon(runtime_dir, script):
        with pytest.raises(PrerequisiteError, match="no driver proxmox"):
            await ProxmoxSandboxEnvironment.task_init("startup", None)


# Commands and files.


async def test_exec_passes_everything_on(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        victim = environments["victim"]
        await victim.exec(["a", "b c"], "in", "dir", {"K": "v"}, "root", 7, False)
        await victim.exec(["a"])
    full, minimal = (request for request in script.requests if request["op"] == "exec")
    assert full["args"] == {
        "sandbox": ID,
        "vm": "victim",
        "argv": ["a", "b c"],
        "cwd": "dir",
        "env": {"K": "v"},
        "user": "root",
        "timeout": 7,
        "capture": True,
        "output_max": 10 * 1024 * 1024,
    }
    assert full["input"] == "blob"
    assert full["timeout"] > 7
    assert script.inputs[script.requests.index(full)] == b"in"
    assert set(minimal["args"]) == {"sandbox", "vm", "argv", "capture", "output_max"}
    assert "input" not in minimal
    assert "timeout" not in minimal


async def test_limits_are_read_at_each_call(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        with override_sandbox_output_limit(4096):
            await environments["default"].exec(["a"])
            await environments["default"].read_file("f")
        await environments["default"].exec(["a"])
    assert [args["output_max"] for args in script.args("exec")] == [4096, 10 * 1024 * 1024]
    assert script.args("read")[0]["max"] == 4096


async def test_a_command_that_timed_out_is_not_run_again(runtime_dir: Path, script: Script) -> None:
    script.results["exec"] = {**OK, "timed_out": True, "exit_code": 124}
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(TimeoutError):
            await environments["default"].exec(["sleep", "99"], timeout=90)
    assert len(script.args("exec")) == 1


@pytest.mark.parametrize(("retry", "timeouts"), [(True, [90, 60, 30]), (False, [90])])
async def test_no_answer_at_all_is_tried_again_with_less_time(
    runtime_dir: Path, script: Script, retry: bool, timeouts: list[int]
) -> None:
    script.fail("exec", "timeout", "the deadline passed")
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(TimeoutError):
            await environments["default"].exec(["a"], timeout=90, timeout_retry=retry)
    assert [args["timeout"] for args in script.args("exec")] == timeouts


async def test_commands_that_no_system_can_run(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        default = environments["default"]
        nul = await default.exec(["echo", "a\0b"])
        for more in ({"cwd": "/\0"}, {"user": "a\0"}, {"env": {"A": "\0"}}):
            assert not (await default.exec(["true"], **more)).success
        large = await default.exec(["echo", *["x" * 100_000] * 50])
        assert (await default.exec(["true"])).success
    assert (nul.success, nul.returncode) == (False, 126)
    assert "NUL" in nul.stderr
    assert not large.success
    assert "too long" in large.stderr


async def test_half_characters_are_replaced(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        await environments["default"].exec(["echo", "a\ud83db \ud83d\ude80"], input="\ud83d")
    assert script.args("exec")[0]["argv"] == ["echo", "a\N{REPLACEMENT CHARACTER}b 🚀"]
    assert script.inputs[-1] == "\N{REPLACEMENT CHARACTER}".encode()


async def test_read_file(runtime_dir: Path, script: Script) -> None:
    async def body(peer: Peer, message: Message) -> None:
        for piece in (b"a\r\n", b"\xc3", b"\xa9"):
            await peer.send({"type": "data", "id": message["id"], "stream": "body"}, piece)
        await peer.result(message["id"], size=5, mode=420)

    script.answers["read"] = body
    async with running(runtime_dir, script) as (_, environments):
        assert await environments["default"].read_file("f") == "a\r\né"
        assert await environments["default"].read_file("f", text=False) == b"a\r\n\xc3\xa9"
        with override_sandbox_output_limit(4), pytest.raises(OutputLimitExceededError):
            await environments["default"].read_file("f")


async def test_read_file_that_is_no_text(runtime_dir: Path, script: Script) -> None:
    async def body(peer: Peer, message: Message) -> None:
        await peer.send({"type": "data", "id": message["id"], "stream": "body"}, b"\xc3\x28")
        await peer.result(message["id"], size=2, mode=420)

    script.answers["read"] = body
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(UnicodeDecodeError):
            await environments["default"].read_file("f")


@pytest.mark.parametrize("path", ["a\0b", "\udc80"])
async def test_paths_that_cannot_exist(runtime_dir: Path, script: Script, path: str) -> None:
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(FileNotFoundError):
            await environments["default"].read_file(path)
        with pytest.raises(ValueError, match=r"."):
            await environments["default"].write_file(path, "x")


async def test_write_file(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        await environments["default"].write_file("dir/f", "é")
        await environments["default"].write_file("dir/f", b"\xff")
    assert script.args("write")[0] == {"sandbox": ID, "vm": "attacker", "path": "dir/f"}
    assert script.inputs[-2:] == ["é".encode(), b"\xff"]


async def test_a_lost_daemon_makes_all_environments_unavailable(
    runtime_dir: Path, script: Script
) -> None:
    async def die(peer: Peer, message: Message) -> None:
        await peer.stream.aclose()

    script.answers["exec"] = die
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(SandboxUnavailableError):
            await environments["default"].exec(["true"])
        for environment in environments.values():
            with pytest.raises(SandboxUnavailableError):
                await environment.exec(["true"])
            with pytest.raises(SandboxUnavailableError):
                await environment.read_file("f")
            with pytest.raises(SandboxUnavailableError):
                await environment.write_file("f", "")
            with pytest.raises(ConnectionError):
                await environment.connection()
        await MoatSandboxEnvironment.sample_cleanup("task", None, environments, False)
        script.answers.clear()
        again = await MoatSandboxEnvironment.sample_init("task", None, METADATA)
        assert (await again["default"].exec(["true"])).success


async def test_connection_logs_in(
    runtime_dir: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOAT_BIN", "/bin/true")
    async with running(runtime_dir, script) as (_, environments):
        connection = await environments["victim"].connection(user="root")
    assert connection.type == "moat"
    assert connection.command == (
        f"env MOAT_RUNTIME_DIR={runtime_dir} /bin/true shell --user root --vm victim {ID}"
    )


async def test_connection_to_a_dead_vm(runtime_dir: Path, script: Script) -> None:
    dead = [{**vm, "state": "dead"} for vm in VMS]
    script.results["ls"] = {"sandboxes": [{"id": ID, "vms": dead}]}
    async with running(runtime_dir, script) as (_, environments):
        with pytest.raises(ConnectionError, match="attacker is not running"):
            await environments["default"].connection()


async def test_snapshots(runtime_dir: Path, script: Script) -> None:
    async with running(runtime_dir, script) as (_, environments):
        environment = environments["default"].as_type(MoatSandboxEnvironment)
        await environment.create_snapshot("one")
        await environment.restore_snapshot("one")
        script.fail("snapshot", "unsupported", "this driver has no snapshots")
        with pytest.raises(NotImplementedError, match="no snapshots"):
            await environment.create_snapshot("two")
        with pytest.raises(TypeError):
            environments["default"].as_type(ProxmoxSandboxEnvironment)
    assert script.args("snapshot")[0] == {"sandbox": ID, "name": "one"}
    assert script.args("restore") == [{"sandbox": ID, "name": "one"}]
