"""Commands and files in one VM, as Inspect asks for them."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, overload

import anyio
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
)
from typing_extensions import override

from ._client import Connection, Reply
from ._computer import PROGRAM, looks_for_program, run_program, runs_program
from ._errors import MoatError, to_exec_exception, to_read_exception, to_write_exception
from ._eval_state import eval_state
from ._login import shell_command, vscode_command
from ._result import (
    NOT_FOUND,
    cannot_enter,
    refused,
    timeout_error,
    to_exec_result,
    user_unsupported,
)
from ._sandbox_requests import QUERY_TIMEOUT
from ._screen import VmScreen
from ._text import is_valid_text, valid_text
from ._wire import FrameTooLargeError

# How much longer than its command's own timeout an exec may take before the VM counts as stuck.
EXEC_GRACE = 30.0
FILE_TIMEOUT = 600.0
PATH_MAX = 4096
INSPECT_DIRECTORY = "/root/.cache/inspect/"
# Inspect recognises these very words, and tells the model instead of failing the sample.
NUL_IN_TEXT = "embedded null byte"
# The limits of Inspect's contract for commands that are tried again after a timeout.
RETRY_TIMEOUTS = (60, 30)


@dataclass
class _Directories:
    """Where relative paths start, by sandbox and VM; "" where the guest does not say."""

    known: dict[str, dict[str, str]] = field(default_factory=dict)


class VmGuest(VmScreen, SandboxEnvironment):
    """One VM of a sandbox, seen from inside. How sandboxes come and go is in _sandbox.py."""

    provider: ClassVar[str]

    # Where commands and relative paths start, for all users. Empty: wherever the guest has it.
    start_directory = ""

    def __init__(self, connection: Connection, sandbox_id: str, vm_name: str) -> None:
        super().__init__()
        self._connection = connection
        self.sandbox_id = sandbox_id
        self.vm_name = vm_name

    def untimed_limit(self) -> int | None:
        """How many seconds a command may take for which no timeout was given; None: any number."""
        return None

    @override
    def default_polling_interval(self) -> float:
        return 0.2

    @override
    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        parts = (
            *cmd,
            cwd or "",
            user or "",
            *(text for pair in (env or {}).items() for text in pair),
        )
        if any("\0" in part for part in parts):
            raise ValueError(NUL_IN_TEXT)
        if timeout is None:
            timeout, timeout_retry = self.untimed_limit(), False
        elif timeout <= 0:  # the rest of a limit, say: no time is left
            raise timeout_error(timeout, "")
        if (looks_for_program(cmd) or runs_program(cmd)) and await self._has_display():
            return await self._as_computer(cmd, timeout)
        cwd = os.path.join(self.start_directory, valid_text(cwd or ""))
        if cmd and not cmd[0]:
            return refused(f"'': {os.strerror(errno.ENOENT)}", NOT_FOUND)
        # read at each call: Inspect changes it for the duration of a call
        output_max = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        cmd = [valid_text(argument) for argument in cmd]
        args = self._args(argv=cmd, capture=True)
        args["output_max"] = output_max
        if cwd:
            args["cwd"] = cwd
        if env:
            args["env"] = {valid_text(key): valid_text(value) for key, value in env.items()}
        data = valid_text(input).encode("utf-8") if isinstance(input, str) else input
        command = cmd[0] if cmd else ""
        try:
            if user:
                args["user"] = valid_text(user)
                if not os.path.isabs(cwd):
                    directory = await self._working_directory(timeout, timeout_retry)
                    if start := os.path.join(directory, cwd):
                        args["cwd"] = start
            reply = await self._exec_with_retries(args, data, timeout, timeout_retry)
            if user and not cwd and args.pop("cwd", None) and cannot_enter(reply):
                # that user may not enter it: start in the user's own home
                reply = await self._exec_with_retries(args, data, timeout, timeout_retry)
        except FrameTooLargeError:
            return refused(f"{command}: {os.strerror(errno.E2BIG)}")
        except MoatError as ex:
            if ex.kind == "timeout":
                raise timeout_error(timeout, "") from ex
            if ex.kind == "unsupported" and user:
                # the guest is Windows, where commands run as one user only
                return user_unsupported(user, ex.message)
            if ex.kind == "unsupported" or (ex.kind == "limit" and ex.errno == errno.E2BIG):
                return refused(f"{command}: {ex.message}")
            raise to_exec_exception(ex) from ex
        return to_exec_result(reply, command, user, timeout, output_max)

    async def _has_display(self) -> bool:
        """Whether Inspect's computer tool is to find its program here."""
        return bool((await self.running_vm()).get("display"))

    async def _as_computer(self, cmd: list[str], timeout: int | None) -> ExecResult[str]:
        """Be the program of Inspect's computer tool."""
        if looks_for_program(cmd):
            return ExecResult(True, 0, "", "")
        try:
            with anyio.fail_after(timeout):
                return await run_program(self, cmd[2:])
        except TimeoutError as ex:
            raise timeout_error(timeout or 0, "") from ex

    async def _working_directory(self, timeout: int | None, retry: bool) -> str:
        """Where relative paths start: in one directory for all users, as in a container."""
        known = eval_state(_Directories).known.setdefault(self.sandbox_id, {})
        if self.vm_name not in known:
            args = self._args(argv=["pwd"], capture=True, output_max=PATH_MAX)
            reply = await self._exec_with_retries(args, None, timeout, retry)
            if reply.result.get("exit_code") != 0:
                return ""  # not remembered: a guest in trouble may answer later
            said = reply.stdout.decode("utf-8", "replace").removesuffix("\n")
            known[self.vm_name] = said if said.startswith("/") and said.isprintable() else ""
        return known[self.vm_name]

    def _forget_directories(self) -> None:
        """Ask the guests again: they may be in another state now."""
        eval_state(_Directories).known.pop(self.sandbox_id, None)

    async def _exec_with_retries(
        self, args: dict[str, Any], input: bytes | None, timeout: int | None, retry: bool
    ) -> Reply:
        """Run a command; again, with less time, if no answer came at all.

        A command that ran and took too long is an answer. Running that one again would do its work
        twice and time out again.
        """
        if timeout is None:
            return await self._connection.request("exec", args, input=input)
        retries = [min(timeout, limit) for limit in RETRY_TIMEOUTS] if retry else []
        for seconds in (timeout, *retries):
            try:
                return await self._connection.request(
                    "exec",
                    {**args, "timeout": seconds},
                    input=input,
                    timeout=seconds + EXEC_GRACE,
                )
            except MoatError as ex:
                if ex.kind != "timeout":
                    raise
                last = ex
        raise last

    @override
    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode("utf-8") if isinstance(contents, str) else contents
        if "\0" in file:
            raise ValueError(NUL_IN_TEXT)
        _check_names_a_file(file)
        if not is_valid_text(file):
            raise _no_such_file(file)
        try:
            await self._connection.request(
                "write", self._args(path=file), input=bytes(data), timeout=FILE_TIMEOUT
            )
        except MoatError as ex:
            raise to_write_exception(ex, file) from ex

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    @override
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        if "\0" in file or not is_valid_text(file):
            raise _no_such_file(file)
        _check_names_a_file(file)
        if file == PROGRAM and await self._has_display():
            return "" if text else b""
        size_max = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            reply = await self._fetch(file, size_max)
        except MoatError as ex:
            raise to_read_exception(ex, file) from ex
        if len(reply.body) > size_max:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return reply.body.decode("utf-8") if text else reply.body

    async def _fetch(self, file: str, size_max: int) -> Reply:
        args = self._args(path=file, max=size_max)
        try:
            return await self._connection.request("read", args, timeout=FILE_TIMEOUT)
        except MoatError as ex:
            if ex.kind != "permission" or not _is_of_inspect(args["path"]):
                raise
        return await self._connection.request(
            "read", {**args, "user": "root"}, timeout=FILE_TIMEOUT
        )

    @override
    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        vm = await self.running_vm()
        forwards = await self._forwards()
        # validated instead of called: Inspect does not export the type of a port mapping
        return SandboxConnection.model_validate(
            {
                "type": self.provider,
                "command": shell_command(self.sandbox_id, self.vm_name, user),
                "vscode_command": vscode_command(vm, forwards, user),
                "container": self.sandbox_id,
                "ports": [_port_mapping(forward) for forward in forwards] or None,
            }
        )

    async def _forwards(self) -> list[dict[str, Any]]:
        """The ports of this VM that `moat forward` has forwarded."""
        try:
            reply = await self._connection.request(
                "net.show", {"sandbox": self.sandbox_id}, timeout=QUERY_TIMEOUT
            )
        except MoatError:
            return []  # this driver, or this sandbox, has no networks that can be shown
        return [one for one in reply.result.get("forwards", ()) if one["vm"] == self.vm_name]

    async def running_vm(self) -> dict[str, Any]:
        """What the daemon knows of the VM.

        Raises:
            ConnectionError: it does not run.
        """
        try:
            reply = await self._connection.request(
                "ls", {"sandbox": self.sandbox_id}, timeout=QUERY_TIMEOUT
            )
        except MoatError as ex:
            raise ConnectionError(f"the sandbox is not running: {ex.message}") from ex
        vms = [vm for sandbox in reply.result["sandboxes"] for vm in sandbox["vms"]]
        vm: dict[str, Any] | None = next((vm for vm in vms if vm["name"] == self.vm_name), None)
        if vm is None or vm["state"] != "running":
            raise ConnectionError(f"the VM {self.vm_name} is not running")
        return vm

    def _args(self, **more: Any) -> dict[str, Any]:
        if "path" in more:
            more["path"] = os.path.join(self.start_directory, more["path"])
        return {"sandbox": self.sandbox_id, "vm": self.vm_name, **more}


def _port_mapping(forward: dict[str, Any]) -> dict[str, Any]:
    """A forwarded port as Inspect describes it."""
    mapping = {"host_ip": forward["host"], "host_port": forward["host_port"]}
    return {"container_port": forward["port"], "protocol": "tcp", "mappings": [mapping]}


def _check_names_a_file(path: str) -> None:
    """Refuse the empty path: it is where relative paths start, a directory."""
    if not path:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _is_of_inspect(path: str) -> bool:
    """Whether a file is where Inspect's checkpoints stage files, as root and for root alone."""
    return os.path.normpath(path).startswith(INSPECT_DIRECTORY)


def _no_such_file(path: str) -> FileNotFoundError:
    """The error for a path that no file can have, with a text that can be written into a log."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), valid_text(path))
