"""The client and the provider with a daemon that does what no daemon should."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.tool import ToolError
from inspect_ai.util import OutputLimitExceededError, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_sandbox_output_limit

from inspect_moat import (
    MoatSandboxEnvironment,
    MoatSandboxEnvironmentConfig,
    ProxmoxSandboxEnvironment,
    VmConfig,
    VmSandboxEnvironment,
    VmSource,
    restore_snapshot,
    save_snapshot,
)
from inspect_moat._client import Request
from inspect_moat._connect import connect
from inspect_moat._errors import MoatError, MoatNotInstalledError
from inspect_moat._providers import VagrantSandboxEnvironment
from inspect_moat._running_sandboxes import running_sandboxes
from inspect_moat._wire import Message
from rogue_daemon import PATIENCE, Peer, RogueDaemon, rogue_daemon

pytestmark = pytest.mark.anyio

SANDBOX: dict[str, Any] = {"sandbox": "3f9a1c20", "vms": [{"name": "only"}]}


async def silent(peer: Peer, message: Message) -> None:
    """Never answers."""


def packed(text: bytes, announced: int | None = None) -> bytes:
    return struct.pack("<II", len(text) if announced is None else announced, 0) + text


@pytest.mark.parametrize(
    "breach",
    [
        packed(b'{"type":"result","id":1,"result":{}}')[:-9],
        packed(b"[nothing,"),
        packed(b"[]"),
        packed(b"{}", announced=0xFFFFFFFF),
        packed(b'{"type":"error","error":{"kind":"limit","message":"go away"}}'),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
    ],
    ids=["half", "garbage", "list", "huge", "refusal", "http", "nothing"],
)
async def test_a_broken_answer_ends_the_connection_and_all_its_requests(
    runtime_dir: Path, breach: bytes
) -> None:
    async def breaks(peer: Peer, message: Message) -> None:
        if message["op"] == "break":
            await peer.send_bytes(breach)
            await peer.stream.aclose()

    kinds: list[str] = []
    async with rogue_daemon(runtime_dir, breaks):
        connection = await connect()

        async def one(op: str) -> None:
            with pytest.raises(MoatError) as caught:
                await connection.request(op, {})
            kinds.append(caught.value.kind)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for op in ("wait", "wait", "break"):
                    tasks.start_soon(one, op)
        assert kinds == ["unavailable"] * 3
        assert connection.closed
        with pytest.raises(MoatError):
            await connection.request("exec", {})


@pytest.mark.parametrize(
    "noise",
    [
        {"type": "result", "id": 99, "result": {"wrong": 1}},
        {"type": "news", "id": 1},
        {"type": "credit", "id": 1, "bytes": "many"},
        {"type": "progress", "id": 1},
        {"id": 1},
        {"type": "news"},
    ],
)
async def test_what_nobody_asked_for_is_ignored(runtime_dir: Path, noise: Message) -> None:
    async def babble(peer: Peer, message: Message) -> None:
        await peer.send(noise)
        await peer.result(message["id"], right=True)
        await peer.result(message["id"], right=False)

    async with rogue_daemon(runtime_dir, babble):
        connection = await connect()
        for _ in range(2):
            assert (await connection.request("exec", {})).result == {"right": True}


@pytest.mark.parametrize("error", [None, 7, {}, {"kind": 7, "message": [], "errno": "two"}])
async def test_an_error_without_an_explanation_is_still_an_error(
    runtime_dir: Path, error: object
) -> None:
    async def refuse(peer: Peer, message: Message) -> None:
        await peer.send({"type": "error", "id": message["id"], "error": error})

    async with rogue_daemon(runtime_dir, refuse):
        with pytest.raises(MoatError) as caught:
            await (await connect()).request("exec", {})
    assert caught.value.errno is None


async def test_a_daemon_that_never_answers(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_moat._client.TIMEOUT_GRACE", 0.1)
    async with rogue_daemon(runtime_dir, silent) as daemon:
        with pytest.raises(MoatError) as caught:
            await (await connect()).request("exec", {}, timeout=0.1)
        await daemon.wait_for("cancel")
    assert caught.value.kind == "timeout"


async def test_sandboxes_that_wait_for_room_leave_room_for_commands(runtime_dir: Path) -> None:
    """Requests that wait for memory must leave room for the removals that give memory back."""

    async def no_room(peer: Peer, message: Message) -> None:
        if message["op"] != "up":
            await peer.result(message["id"])

    async with rogue_daemon(runtime_dir, no_room):
        connection = await connect()
        async with anyio.create_task_group() as tasks:
            for _ in range(300):
                tasks.start_soon(connection.start, Request("up", {}))
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(PATIENCE):
                for op in ("exec", "rm"):
                    await connection.request(op, {})
            tasks.cancel_scope.cancel()


async def test_a_daemon_that_hangs_up_before_its_greeting_is_asked_again(
    runtime_dir: Path,
) -> None:
    async with rogue_daemon(runtime_dir, silent) as daemon:
        daemon.hang_ups = 2
        assert (await connect()).daemon_pid == os.getpid()
    assert daemon.hang_ups == 0


async def test_a_daemon_that_hangs_up_for_ever_is_given_up(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_moat._connect.CONNECT_TIMEOUT", 1.0)
    async with rogue_daemon(runtime_dir, silent) as daemon:
        daemon.hang_ups = 1_000_000
        with pytest.raises(MoatError, match="the daemon closed the connection") as caught:
            await connect()
    assert caught.value.kind == "unavailable"


async def test_another_protocol_version_names_the_daemon(runtime_dir: Path) -> None:
    async with rogue_daemon(runtime_dir, silent) as daemon:
        daemon.protocol = 2
        with pytest.raises(MoatError, match=rf"pid {os.getpid()} speaks protocol 2"):
            await connect()


# The provider.


async def start_and_cancel(daemon: RogueDaemon) -> None:
    """Cancel a sample_init as soon as the daemon knows of it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(MoatSandboxEnvironment.sample_init, "task", None, {})
        await daemon.wait_for("request")
        tasks.cancel_scope.cancel()


async def test_cancelled_sample_init_waits_for_a_daemon_that_answers_late(
    runtime_dir: Path,
) -> None:
    answered = False

    async def slow(peer: Peer, message: Message) -> None:
        nonlocal answered
        await daemon.wait_for("cancel")
        await anyio.sleep(0.2)
        answered = True
        await peer.error(message["id"], "cancelled", "removed")

    async with rogue_daemon(runtime_dir, slow) as daemon:
        await start_and_cancel(daemon)
        assert answered, "sample_init came back before the daemon was done"
        assert running_sandboxes() == {}


async def test_sandbox_that_is_made_in_spite_of_the_cancellation_is_removed(
    runtime_dir: Path,
) -> None:
    async def too_late(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await daemon.wait_for("cancel")
            await peer.result(message["id"], **SANDBOX)
        else:
            await peer.result(message["id"])

    async with rogue_daemon(runtime_dir, too_late) as daemon:
        await start_and_cancel(daemon)
    assert [request["args"] for request in daemon.requests("rm")] == [
        {"sandboxes": [SANDBOX["sandbox"]]}
    ]


@pytest.mark.parametrize("made", [1, 2])
async def test_forks_that_are_made_in_spite_of_the_cancellation_are_removed(
    runtime_dir: Path, made: int
) -> None:
    copies = [{**SANDBOX, "sandbox": f"{n}123456789"} for n in range(made)]
    asked = anyio.Event()

    async def too_late(peer: Peer, message: Message) -> None:
        if message["op"] == "fork":
            asked.set()
            await daemon.wait_for("cancel")
            await peer.result(message["id"], sandboxes=copies)
        else:
            await peer.result(message["id"], **(SANDBOX if message["op"] == "up" else {}))

    async with rogue_daemon(runtime_dir, too_late) as daemon:
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        original = environments["default"].as_type(MoatSandboxEnvironment)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(original.fork, made)
            await asked.wait()
            tasks.cancel_scope.cancel()
        removed = [request["args"]["sandboxes"] for request in daemon.requests("rm")]
        assert removed == [[one["sandbox"] for one in copies]]
        assert [*running_sandboxes()] == [SANDBOX["sandbox"]]


async def test_a_sandbox_whose_removal_was_cancelled_is_left_to_the_task(runtime_dir: Path) -> None:
    async def answer(peer: Peer, message: Message) -> None:
        await peer.result(message["id"], **(SANDBOX if message["op"] == "up" else {}))

    async with rogue_daemon(runtime_dir, answer) as daemon:
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        with anyio.CancelScope() as scope:
            scope.cancel()
            await MoatSandboxEnvironment.sample_cleanup("task", None, environments, True)
        assert daemon.requests("rm") == []
        await MoatSandboxEnvironment.task_cleanup("task", None, True)
        assert [request["args"]["sandboxes"] for request in daemon.requests("rm")] == [
            [SANDBOX["sandbox"]]
        ]
        assert running_sandboxes() == {}


@pytest.mark.parametrize("seconds", [0, -5])
async def test_exec_with_no_time_left_does_not_run(runtime_dir: Path, seconds: int) -> None:
    async def answer(peer: Peer, message: Message) -> None:
        await peer.result(message["id"], **SANDBOX)

    async with rogue_daemon(runtime_dir, answer) as daemon:
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        with pytest.raises(TimeoutError):
            await environments["default"].exec(["a"], timeout=seconds)
    assert daemon.requests("exec") == []


async def test_a_daemon_of_somebody_who_has_the_program(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon was started by another process: the package needs no binary."""

    async def answer(peer: Peer, message: Message) -> None:
        running = {**SANDBOX, "vms": [{"name": "only", "state": "running", "user": "user"}]}
        shown = {"sandboxes": [running]} if message["op"] == "ls" else {"forwards": []}
        await peer.result(message["id"], **(SANDBOX if message["op"] == "up" else shown))

    def nowhere() -> str:
        raise MoatNotInstalledError

    monkeypatch.setattr("inspect_moat._login.find_binary", nowhere)
    async with rogue_daemon(runtime_dir, answer):
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        command = (await environments["default"].connection()).command
    assert " moat shell " in command


@pytest.mark.parametrize(("retry", "timeouts"), [(True, [90, 60, 30]), (False, [90])])
async def test_exec_without_any_answer_is_tried_again_with_less_time(
    runtime_dir: Path, retry: bool, timeouts: list[int]
) -> None:
    async def too_late(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await peer.result(message["id"], **SANDBOX)
        else:
            await peer.error(message["id"], "timeout", "the deadline passed")

    async with rogue_daemon(runtime_dir, too_late) as daemon:
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        with pytest.raises(TimeoutError):
            await environments["default"].exec(["a"], timeout=90, timeout_retry=retry)
    assert [request["args"]["timeout"] for request in daemon.requests("exec")] == timeouts


async def test_a_lost_daemon_makes_its_environments_unavailable_but_not_the_next(
    runtime_dir: Path,
) -> None:
    async def hang_up(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await peer.result(message["id"], **SANDBOX)
        elif message["args"].get("argv") == ["last words"]:
            await peer.send({"type": "data", "id": message["id"], "stream": "stdout"}, b"...")
            await peer.stream.aclose()
        else:
            exit = {"exit_code": 0, "signal": 0, "timed_out": False}
            await peer.result(message["id"], **exit)

    async with rogue_daemon(runtime_dir, hang_up):
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        lost = environments["default"]
        for command in ("last words", "true"):
            with pytest.raises(SandboxUnavailableError):
                await lost.exec([command])
        with pytest.raises(SandboxUnavailableError):
            await lost.read_file("f")
        with pytest.raises(SandboxUnavailableError):
            await lost.write_file("f", "")
        with pytest.raises(ConnectionError):
            await lost.connection()
        await MoatSandboxEnvironment.sample_cleanup("task", None, environments, False)
        again = await MoatSandboxEnvironment.sample_init("task", None, {})
        assert (await again["default"].exec(["true"])).success


async def test_a_file_larger_than_asked_for_is_refused(runtime_dir: Path) -> None:
    async def generous(peer: Peer, message: Message) -> None:
        if message["op"] == "read":
            await peer.send({"type": "data", "id": message["id"], "stream": "body"}, b"12345")
        await peer.result(message["id"], **SANDBOX)

    async with rogue_daemon(runtime_dir, generous):
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        with override_sandbox_output_limit(4), pytest.raises(OutputLimitExceededError):
            await environments["default"].read_file("f")


async def test_a_full_disk_is_no_output_limit(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await peer.result(message["id"], **SANDBOX)
        else:
            await peer.error(message["id"], "limit", "the disk is full")

    async with rogue_daemon(runtime_dir, full):
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        vm = environments["default"].as_type(MoatSandboxEnvironment)
        for step in (vm.create_snapshot("a"), vm.restore_snapshot("a"), vm.fork(2)):
            with pytest.raises(RuntimeError, match=r"^the disk is full$"):
                await step
        monkeypatch.setattr("inspect_moat._tools.sandbox", lambda: vm)
        for tool in (save_snapshot(), restore_snapshot()):
            with pytest.raises(ToolError, match="the disk is full"):
                await tool(name="a")


async def test_a_model_saves_a_few_states_under_names_of_its_own(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = [{"name": "clean", "created_us": 0}]

    async def save(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await peer.result(message["id"], **SANDBOX)
        elif message["op"] == "snapshots":
            await peer.result(message["id"], snapshots=saved)
        elif message["op"] == "snapshot":
            saved.append({"name": message["args"]["name"], "created_us": len(saved)})
            await peer.result(message["id"])
        elif message["args"]["name"] in [one["name"] for one in saved]:
            await peer.result(message["id"])
        else:
            await peer.error(message["id"], "not_found", "there is none")

    async with rogue_daemon(runtime_dir, save):
        environments = await MoatSandboxEnvironment.sample_init("task", None, {})
        vm = environments["default"].as_type(MoatSandboxEnvironment)
        monkeypatch.setattr("inspect_moat._tools.sandbox", lambda: vm)
        with pytest.raises(ToolError):
            await restore_snapshot()(name="clean")
        for name in ("clean", "b", "c", "d", "e", "f", "g", "h"):
            await save_snapshot()(name=name)
        assert [one["name"] for one in saved].count("clean") == 1
        with pytest.raises(ToolError, match="save as one of clean, b, c"):
            await save_snapshot()(name="i")
        await save_snapshot()(name="h")
        await restore_snapshot()(name="b")


async def test_a_driver_that_lists_no_snapshots_saves_whole_sandboxes_all_the_same(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Proxmox servers the snapshots of an evaluation are of one VM, those of a model of all."""

    async def save(peer: Peer, message: Message) -> None:
        if message["op"] == "snapshots":
            await peer.error(message["id"], "unsupported", "the driver does not list snapshots")
        elif message["args"]["name"] == "agent-bad":
            await peer.error(message["id"], "invalid", "no name for a snapshot")
        else:
            await peer.result(message["id"])

    async with rogue_daemon(runtime_dir, save) as daemon:
        vm = ProxmoxSandboxEnvironment(await connect(), "3f9a1c20", "only")
        other = ProxmoxSandboxEnvironment(vm._connection, "77777777", "only")
        monkeypatch.setattr("inspect_moat._tools.sandbox", lambda: vm)
        with pytest.raises(ToolError, match="no name for a snapshot"):
            await save_snapshot()(name="bad")
        for name in ("a", "b", "c", "d", "e", "f", "g", "h", "h"):
            await save_snapshot()(name=name)
        with pytest.raises(ToolError, match="save as one of a, b, c, d, e, f, g, h"):
            await save_snapshot()(name="i")
        await restore_snapshot()(name="a")
        monkeypatch.setattr("inspect_moat._tools.sandbox", lambda: other)
        await save_snapshot()(name="i")
    assert not any("vm" in one["args"] for one in daemon.requests("snapshot"))
    assert not any("vm" in one["args"] for one in daemon.requests("restore"))


async def test_a_command_too_large_for_the_guest_is_an_ordinary_failure(runtime_dir: Path) -> None:
    async def refuse(peer: Peer, message: Message) -> None:
        if message["op"] == "up":
            await peer.result(message["id"], **SANDBOX)
        elif message["args"]["argv"] == ["long"]:
            await peer.error(message["id"], "limit", "a command of 9 MB", errno=errno.E2BIG)
        else:
            await peer.error(message["id"], "limit", "it wrote more than the agent keeps")

    async with rogue_daemon(runtime_dir, refuse):
        vm = (await MoatSandboxEnvironment.sample_init("task", None, {}))["default"]
        result = await vm.exec(["long"])
        assert not result.success
        assert "a command of 9 MB" in result.stderr
        with pytest.raises(OutputLimitExceededError):
            await vm.exec(["talkative"])


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "part"])
@pytest.mark.parametrize("provider", [VagrantSandboxEnvironment, ProxmoxSandboxEnvironment])
async def test_cleanup_removes_sandboxes_although_leftovers_stay(
    runtime_dir: Path,
    capsys: pytest.CaptureFixture[str],
    provider: type[VmSandboxEnvironment],
    whole: bool,
) -> None:
    async def stubborn(peer: Peer, message: Message) -> None:
        if message["op"] == "rm":
            await peer.result(message["id"], removed=["3f9a1c20"])
        elif whole:
            await peer.error(message["id"], "backend", "dir of sandbox 77: busy")
        else:
            lines = {"removed": ["dir of sandbox 11"], "failed": ["dir of sandbox 77: busy"]}
            await peer.result(message["id"], **lines)

    async with rogue_daemon(runtime_dir, stubborn) as daemon:
        with pytest.raises(SystemExit) as caught:
            await provider.cli_cleanup(None)
    assert caught.value.code == 1
    assert [message["op"] for message in daemon.seen if "op" in message] == ["gc", "rm"]
    said = capsys.readouterr()
    assert "Removed 1 sandbox(es): 3f9a1c20\n" in said.out
    assert ("Removed dir of sandbox 11\n" in said.out) is not whole
    assert "dir of sandbox 77: busy" in said.err


@pytest.mark.parametrize(
    ("lines", "code"),
    [({"removed": ["dir of sandbox 77"]}, 0), ({"failed": ["dir of sandbox 77: busy"]}, 1)],
)
async def test_cleanup_of_one_that_only_left_something(
    runtime_dir: Path, capsys: pytest.CaptureFixture[str], lines: Message, code: int
) -> None:
    async def crashed(peer: Peer, message: Message) -> None:
        if message["op"] == "rm":
            await peer.error(message["id"], "not_found", "no sandbox 77")
        else:
            await peer.result(message["id"], **lines)

    async with rogue_daemon(runtime_dir, crashed):
        try:
            await VagrantSandboxEnvironment.cli_cleanup("77")
            ended = 0
        except SystemExit as ex:
            ended = int(str(ex.code))
    assert ended == code
    said = capsys.readouterr()
    assert ("Removed 1 sandbox(es): 77\n" in said.out) is (code == 0)
    assert ("busy" in said.err) is (code == 1)


@pytest.mark.parametrize("content", ["{", '{"instances": [{"host": "h"}]}'])
async def test_cleanup_with_a_broken_pool_file_removes_what_it_can(
    runtime_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: str,
) -> None:
    async def answer(peer: Peer, message: Message) -> None:
        await peer.result(message["id"], removed=["3f9a1c20"])

    (runtime_dir / "servers.json").write_text(content)
    monkeypatch.setenv("PROXMOX_CONFIG_FILE", str(runtime_dir / "servers.json"))
    async with rogue_daemon(runtime_dir, answer) as daemon:
        with pytest.raises(SystemExit):
            await ProxmoxSandboxEnvironment.cli_cleanup(None)
    assert [message["op"] for message in daemon.seen if "op" in message] == ["gc", "rm"]
    said = capsys.readouterr()
    assert "Removed 1 sandbox(es): 3f9a1c20\n" in said.out
    assert "on the servers that the environment names: " in said.err


async def test_a_specification_for_proxmox_servers_brings_their_logins(
    runtime_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(peer: Peer, message: Message) -> None:
        await peer.result(message["id"], **(SANDBOX if message["op"] == "up" else {}))

    source = VmSource(existing_vm_template_tag="debian")
    vms = (VmConfig(source=source),)
    local = MoatSandboxEnvironmentConfig(vms=vms)
    remote = MoatSandboxEnvironmentConfig(vms=vms, driver="proxmox")
    for name in ("PROXMOX_HOST", "PROXMOX_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    async with rogue_daemon(runtime_dir, answer) as daemon:
        with pytest.raises(PrerequisiteError, match="no server is configured"):
            await MoatSandboxEnvironment.sample_init("task", remote, {})
        await MoatSandboxEnvironment.cli_cleanup(None)
        monkeypatch.setenv("PROXMOX_HOST", "pve")
        for config in (local, remote):
            await MoatSandboxEnvironment.sample_init("task", config, {})
        await MoatSandboxEnvironment.cli_cleanup(None)
    first, second = (one["args"] for one in daemon.requests("up"))
    assert "access" not in first
    assert second["access"]["instances"][0]["host"] == "pve"
    (gc,) = daemon.requests("gc")
    assert gc["args"]["access"] == second["access"]
