"""The sandbox environment that all providers of this package share."""

from __future__ import annotations

import errno
import os
import sys
from logging import getLogger
from typing import Any, ClassVar, Literal, TypeVar, overload

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    trace_action,
)
from inspect_ai.util._sandbox.environment import HostMapping, PortMapping
from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ._client import Connection, Reply, Request
from ._config import describe
from ._connect import connect
from ._errors import (
    MoatError,
    MoatNotInstalledError,
    to_exception,
    to_exec_exception,
    to_read_exception,
    to_write_exception,
)
from ._labels import cleanup_labels, sample_labels
from ._login import kept_notice, shell_command, vscode_command
from ._places import (
    Locate,
    Places,
    config_key,
    note_start,
    places_of_sample,
    places_of_task,
)
from ._result import NOT_FOUND, cannot_enter, refused, timeout_error, to_exec_result
from ._running import RunningSandbox, running_sandboxes
from ._standby import end_standby, start_standby
from ._upkeep import (
    QUERY_TIMEOUT,
    TRACE,
    detach_sandbox,
    leftovers,
    make_all,
    remove_sandbox,
    up_sandbox,
    validate_spec,
)
from ._wire import FrameTooLargeError

logger = getLogger(__name__)

# How much longer than its command's own timeout an exec may take before the VM counts as stuck.
EXEC_GRACE = 30.0
FILE_TIMEOUT = 600.0
PATH_MAX = 4096
# By these very words Inspect knows what to tell the model instead of failing the sample.
NUL_IN_TEXT = "embedded null byte"
# The limits of Inspect's contract for commands that are tried again after a timeout.
RETRY_TIMEOUTS = (60, 30)

T = TypeVar("T")


class VmSandboxEnvironment(SandboxEnvironment):
    """One VM of a sandbox. The class methods manage whole sandboxes."""

    provider: ClassVar[str]

    # Where commands and relative paths start, for all users. Empty: wherever the guest has it.
    start_directory = ""

    def __init__(self, connection: Connection, sandbox_id: str, vm_name: str) -> None:
        super().__init__()
        self._connection = connection
        self.sandbox_id = sandbox_id
        self.vm_name = vm_name
        self._directory: str | None = None  # "" where the guest does not say

    def untimed_limit(self) -> int | None:
        """How many seconds a command may take for which no timeout was given; None: any number."""
        return None

    # What a provider has to say about its configuration.

    @classmethod
    def parse_config(cls, config: SandboxEnvironmentConfigType | None) -> BaseModel:
        """The provider's own model of what the user wrote."""
        raise NotImplementedError

    @classmethod
    def to_spec(cls, config: BaseModel, locate: Locate = os.path.abspath) -> dict[str, Any]:
        """The sandbox specification for the daemon, which has another working directory."""
        raise NotImplementedError

    @classmethod
    def access(cls, config: BaseModel) -> dict[str, Any] | None:
        """How this process reaches the backend, where the daemon cannot know it."""
        return None

    @classmethod
    def standby(cls, config: BaseModel) -> int:
        """How many sandboxes to keep ready for the next samples."""
        return 0

    @classmethod
    async def remove_leftovers(cls, connection: Connection) -> dict[str, Any]:
        """For `inspect sandbox cleanup`: the answer of `gc` where that finds what a crash left."""
        return {}

    @classmethod
    async def prepare(cls, connection: Connection, spec: dict[str, Any]) -> None:
        """Get what a specification needs and what is not there, before the samples start."""

    # The life of a sandbox.

    @classmethod
    @override
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        places = places_of_task(config)
        try:
            parsed, spec = cls._read(config, places)
        except (ValueError, OSError):
            if places.unsure:
                return  # a sample will tell: it knows which file is meant
            raise
        if places.start is not None:
            cls.access(parsed)  # what is wrong with it is said before the samples
        try:
            connection = await connect()
            if places.unsure:
                await cls.prepare(connection, spec)
                return
            try:
                await validate_spec(connection, spec)
            except MoatError as ex:
                if ex.kind != "not_found":
                    raise
                # an image is missing; what else may be wrong is found out when it is there
                await cls.prepare(connection, spec)
                await validate_spec(connection, spec)
            count = cls.standby(parsed)
            await start_standby(connection, cls.provider, config_key(config), spec, count)
        except MoatError as ex:
            raise PrerequisiteError(f"sandbox {cls.provider}: {ex.message}") from ex
        except MoatNotInstalledError as ex:
            raise PrerequisiteError(str(ex)) from ex

    @classmethod
    @override
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        parsed, spec = cls._read(config, places_of_sample(config))
        labels = sample_labels(cls.provider, task_name, metadata)
        args: dict[str, Any] = {"spec": spec, "labels": labels}
        access = cls.access(parsed)
        if access is not None:
            args["access"] = access
        try:
            connection = await connect()
            with trace_action(logger, TRACE, f"up {labels}"):
                result = await up_sandbox(connection, args)
        except MoatError as ex:
            raise to_exception(ex) from ex
        sandbox_id = str(result["sandbox"])
        running_sandboxes()[sandbox_id] = RunningSandbox(
            sandbox_id,
            cls.provider,
            connection,
            labels.get("sample", ""),
            labels.get("epoch", ""),
            [str(vm["name"]) for vm in result["vms"]],
        )
        return cls._environments(connection, sandbox_id, result["vms"], parsed)

    @classmethod
    def _environments(
        cls,
        connection: Connection,
        sandbox_id: str,
        vms: list[dict[str, Any]],
        config: BaseModel | None = None,
    ) -> dict[str, SandboxEnvironment]:
        """The VMs by name, and the default one as "default" as well, before all others.

        config: None for a copy that `fork` made.
        """
        usable = [vm for vm in vms if vm.get("sandbox", True)]
        default = next((vm for vm in usable if vm.get("default")), usable[0])
        environments: dict[str, SandboxEnvironment] = {
            "default": cls(connection, sandbox_id, default["name"])
        }
        for vm in usable:
            if vm is default:
                environments.setdefault(vm["name"], environments["default"])
            else:
                environments[vm["name"]] = cls(connection, sandbox_id, vm["name"])
        return environments

    @classmethod
    @override
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        ids = {
            environment.sandbox_id
            for environment in environments.values()
            if isinstance(environment, VmSandboxEnvironment)
        }
        running = running_sandboxes()
        for sandbox_id in ids:
            # Forgotten only when removed: whoever is cancelled here leaves it to task_cleanup.
            for entry in [one for one in running.values() if sandbox_id in (one.id, one.parent)]:
                await remove_sandbox(entry)
                running.pop(entry.id, None)

    @classmethod
    @override
    async def task_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool
    ) -> None:
        running = running_sandboxes()
        mine = [entry for entry in running.values() if entry.provider == cls.provider]
        for entry in mine:
            del running[entry.id]
        if cleanup:
            for entry in mine:
                await remove_sandbox(entry)
        kept = [] if cleanup else [entry for entry in mine if await detach_sandbox(entry)]
        # the configuration is not read again: its files may be gone, the sandboxes are not
        await end_standby(cls.provider, config_key(config))
        if kept:
            print(kept_notice(cls.provider, kept))

    @classmethod
    @override
    async def cli_cleanup(cls, id: str | None) -> None:
        args: dict[str, Any] = (
            {"labels": cleanup_labels(cls.provider)} if id is None else {"sandboxes": [id]}
        )
        try:
            connection = await connect()
        except (MoatError, MoatNotInstalledError) as ex:
            print(f"moat: {ex}", file=sys.stderr)
            raise SystemExit(1) from None
        gone, errors = await leftovers(cls.remove_leftovers(connection))
        try:
            reply = await connection.request("rm", args)
            removed = reply.result.get("removed", [])
        except MoatError as ex:
            # an id may be known by what a crash left of the sandbox alone
            removed = [id] if id is not None and any(id in line for line in gone) else []
            if ex.kind != "not_found" or not removed:
                errors.append(ex.message)
        for line in gone:
            print(f"Removed {line}")
        print(f"Removed {len(removed)} sandbox(es){': ' if removed else ''}{' '.join(removed)}")
        for text in errors:
            print(f"moat: {text}", file=sys.stderr)
        if errors:
            raise SystemExit(1)

    @classmethod
    @override
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        raise NotImplementedError

    @classmethod
    @override
    def default_concurrency(cls) -> int | None:
        note_start()
        return os.cpu_count() or 1

    @override
    def default_polling_interval(self) -> float:
        return 0.2

    @classmethod
    def _read(
        cls, config: SandboxEnvironmentConfigType | None, places: Places
    ) -> tuple[BaseModel, dict[str, Any]]:
        """The configuration, and the specification that it stands for."""
        try:
            parsed = cls.parse_config(places.locate_file(config))
            return parsed, cls.to_spec(parsed, places.locate)
        except ValidationError as ex:
            raise ValueError(f"sandbox {cls.provider}: {describe(ex)}") from None

    # Commands and files.

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
        elif timeout <= 0:  # of no time at all, such as the rest of a limit, there is none left
            raise timeout_error(timeout, "")
        cwd = os.path.join(self.start_directory, cwd or "")
        if cmd and not cmd[0]:
            return refused(f"'': {os.strerror(errno.ENOENT)}", NOT_FOUND)
        # read at each call: Inspect changes it for the duration of a call
        output_max = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        args = self._args(argv=[_valid_text(argument) for argument in cmd], capture=True)
        args["output_max"] = output_max
        if cwd:
            args["cwd"] = cwd
        if env:
            args["env"] = {key: _valid_text(value) for key, value in env.items()}
        data = _valid_text(input).encode("utf-8") if isinstance(input, str) else input
        command = cmd[0] if cmd else ""
        try:
            if user:
                args["user"] = user
                if not os.path.isabs(cwd):
                    start = os.path.join(await self._working_directory(timeout), cwd)
                    if start:
                        args["cwd"] = start
            reply = await self._exec_with_retries(args, data, timeout, timeout_retry)
            if user and not cwd and args.pop("cwd", None) and cannot_enter(reply):
                # in that user's own home, then
                reply = await self._exec_with_retries(args, data, timeout, timeout_retry)
        except FrameTooLargeError:
            return refused(f"{command}: {os.strerror(errno.E2BIG)}")
        except MoatError as ex:
            if ex.kind == "timeout":
                raise timeout_error(timeout, "") from ex
            if ex.kind == "limit" and ex.errno == errno.E2BIG:
                return refused(f"{command}: {ex.message}")
            raise to_exec_exception(ex) from ex
        return to_exec_result(reply, command, user, timeout, output_max)

    async def _working_directory(self, timeout: int | None) -> str:
        """Where relative paths start: as in a container one place, whoever runs a command."""
        if self._directory is None:
            args = self._args(argv=["pwd"], capture=True, output_max=PATH_MAX)
            limit = None if timeout is None else timeout + EXEC_GRACE
            reply = await self._connection.request("exec", args, timeout=limit)
            said = reply.stdout.decode("utf-8", "replace").removesuffix("\n")
            self._directory = said if said.startswith("/") and said.isprintable() else ""
        return self._directory

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
        if "\0" in file or not _is_valid_text(file):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        _check_names_a_file(file)
        size_max = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            reply = await self._connection.request(
                "read", self._args(path=file, max=size_max), timeout=FILE_TIMEOUT
            )
        except MoatError as ex:
            raise to_read_exception(ex, file) from ex
        if len(reply.body) > size_max:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return reply.body.decode("utf-8") if text else reply.body

    @override
    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        vm = await self.running_vm()
        ports = await self._ports()
        return SandboxConnection(
            type=self.provider,
            command=shell_command(self.sandbox_id, self.vm_name, user),
            vscode_command=vscode_command(vm, ports, user),
            container=self.sandbox_id,
            ports=ports,
        )

    async def _ports(self) -> list[PortMapping] | None:
        """What `moat forward` made of this VM's ports; None if there are none."""
        try:
            reply = await self._connection.request(
                "net.show", {"sandbox": self.sandbox_id}, timeout=QUERY_TIMEOUT
            )
        except MoatError:
            return None  # a driver or a sandbox without networks to look into
        return [
            PortMapping(
                container_port=one["port"],
                protocol="tcp",
                mappings=[HostMapping(host_ip=one["host"], host_port=one["host_port"])],
            )
            for one in reply.result.get("forwards", ())
            if one["vm"] == self.vm_name
        ] or None

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

    # Reached by sandbox().as_type(VmSandboxEnvironment), or a subclass.

    async def create_snapshot(self, snapshot_name: str) -> None:
        """Save the state of the whole sandbox: disks, memory and running processes.

        Raises:
            NotImplementedError: the driver cannot do it.
        """
        await self._snapshot("snapshot", snapshot_name)

    async def restore_snapshot(self, snapshot_name: str) -> None:
        """Put the whole sandbox back to a state that was saved.

        Raises:
            LookupError: there is no snapshot of that name.
            NotImplementedError: the driver cannot do it.
        """
        await self._snapshot("restore", snapshot_name)

    async def list_snapshots(self) -> list[str]:
        """The names of the snapshots, the oldest first."""
        try:
            reply = await self._connection.request("snapshots", {"sandbox": self.sandbox_id})
        except MoatError as ex:
            raise to_exception(ex) from ex
        found = sorted(reply.result["snapshots"], key=lambda s: int(s["created_us"]))
        return [str(snapshot["name"]) for snapshot in found]

    async def remove_snapshot(self, snapshot_name: str) -> None:
        """Forget a snapshot.

        Raises:
            LookupError: there is none of that name.
        """
        await self._snapshot("snapshot.rm", snapshot_name)

    async def fork(self, n: int = 1) -> list[dict[str, SandboxEnvironment]]:
        """Copy the running sandbox, VMs and networks together, n times: all copies, or none.

        Each copy is what Inspect would get for a sandbox: its VMs by name, with "default" first.
        Inside, names and addresses are those of the original. The copies are removed with the
        sample, unless `remove_fork` did it before.

        Raises:
            NotImplementedError: the driver cannot do it.
        """
        try:
            with trace_action(logger, TRACE, f"fork {self.sandbox_id} {n}"):
                args = {"sandbox": self.sandbox_id, "n": n}
                made = await make_all(self._connection, Request("fork", args))
        except MoatError as ex:
            raise to_exception(ex) from ex
        running = running_sandboxes()
        mine = running.get(self.sandbox_id)
        copies = []
        for one in made["sandboxes"]:
            running[one["sandbox"]] = RunningSandbox(
                str(one["sandbox"]),
                self.provider,
                self._connection,
                mine.sample if mine else "",
                mine.epoch if mine else "",
                [str(vm["name"]) for vm in one["vms"]],
                parent=(mine.parent or mine.id) if mine else self.sandbox_id,
            )
            copies.append(self._environments(self._connection, one["sandbox"], one["vms"]))
        return copies

    async def remove_fork(self) -> None:
        """Remove the sandbox that this VM is in, if it is a copy that `fork` made.

        Raises:
            ValueError: it is no copy: Inspect itself removes it.
        """
        running = running_sandboxes()
        mine = running.get(self.sandbox_id)
        if mine is None or not mine.parent:
            raise ValueError(f"{self.sandbox_id} is no copy of a sandbox")
        del running[self.sandbox_id]
        await remove_sandbox(mine)

    async def _snapshot(self, op: str, name: str, **more: str) -> None:
        args = {"sandbox": self.sandbox_id, "name": name, **more}
        try:
            with trace_action(logger, TRACE, f"{op} {self.sandbox_id} {name}"):
                await self._connection.request(op, args)
        except MoatError as ex:
            raise to_exception(ex) from ex
        self._directory = None  # what the guest said of it may be of another state

    def _args(self, **more: Any) -> dict[str, Any]:
        if "path" in more:
            more["path"] = os.path.join(self.start_directory, more["path"])
        return {"sandbox": self.sandbox_id, "vm": self.vm_name, **more}


def _check_names_a_file(path: str) -> None:
    """Refuse the empty path: it is where relative paths start, a directory."""
    if not path:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _valid_text(text: str) -> str:
    """Text with half characters replaced (models do produce them); there is no UTF-8 for those."""
    return (
        text
        if _is_valid_text(text)
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def _is_valid_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
