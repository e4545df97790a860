"""The sandbox environment that all providers of this package share."""

from __future__ import annotations

import os
import sys
from logging import getLogger
from typing import Any

import anyio
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentConfigType, trace_action
from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ._client import Connection, Request
from ._config import describe
from ._connect import connect
from ._cpus import usable_cpus
from ._errors import MoatError, MoatNotInstalledError, to_exception
from ._guest import VmGuest
from ._labels import cleanup_labels, sample_labels
from ._login import kept_notice
from ._places import (
    Locate,
    Places,
    config_key,
    note_start,
    places_of_sample,
    places_of_task,
)
from ._running import RunningSandbox, running_sandboxes
from ._standby import end_standby, start_standby
from ._upkeep import (
    TRACE,
    detach_sandbox,
    leftovers,
    make_all,
    remove_sandbox,
    up_sandbox,
    validate_spec,
)

logger = getLogger(__name__)


class VmSandboxEnvironment(VmGuest):
    """One VM of a sandbox. The class methods manage whole sandboxes."""

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
        try:
            return cls._environments(connection, sandbox_id, result["vms"], parsed)
        except BaseException:
            # Inspect cleans up after no sample_init that failed, and the eval may go on for days
            with anyio.CancelScope(shield=True):
                await remove_sandbox(running_sandboxes().pop(sandbox_id))
            raise

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
        return usable_cpus()

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
        self._forget_directories()
