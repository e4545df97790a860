"""The sandbox environment that all providers of this package share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from logging import getLogger
from typing import Any, ClassVar

import anyio
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentConfigType, trace_action
from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ._client import Connection, Request
from ._config import SandboxConfig, describe
from ._connect import connect
from ._errors import MoatError, MoatNotInstalledError, WrongConfigError, to_exception
from ._guest import VmGuest
from ._inspect_private import PrerequisiteError, usable_cpus
from ._labels import cleanup_labels, sample_labels
from ._login import kept_notice
from ._relative_paths import (
    Locate,
    RelativePaths,
    config_key,
    note_start,
    paths_of_sample,
    paths_of_task,
)
from ._running_sandboxes import RunningSandbox, running_sandboxes
from ._sandbox_requests import (
    TRACE,
    begin_removal,
    detach_sandbox,
    leftovers,
    make_all,
    remove_sandbox,
    tell_touched,
    up_sandbox,
    validate_spec,
)
from ._standby import end_standby, start_standby

logger = getLogger(__name__)

SPEC_IS_WRONG = ("invalid", "unsupported")  # the kinds of error by which the daemon says so


class VmSandboxEnvironment(VmGuest):
    """One VM of a sandbox. The class methods manage whole sandboxes."""

    # What each provider says about its configuration.

    config_type: ClassVar[type[SandboxConfig]]

    @classmethod
    def access(cls, config: SandboxConfig) -> dict[str, Any] | None:
        """How this process reaches the backend, where the daemon cannot know it."""
        return None

    @classmethod
    def is_on_server(cls, config: SandboxConfig) -> bool:
        """Whether a removal is mostly waiting, which no sample is kept for."""
        return False

    @classmethod
    def standby(cls, config: SandboxConfig) -> int:
        """How many sandboxes to keep ready for the next samples."""
        return 0

    @classmethod
    async def remove_leftovers(cls, connection: Connection) -> dict[str, Any]:
        """Remove what a crash left, for `inspect sandbox cleanup`. Returns the answer of `gc`."""
        return {}

    @classmethod
    async def prepare(cls, connection: Connection, spec: dict[str, Any]) -> None:
        """Get what a specification needs and is not there yet, before the samples start."""

    @classmethod
    async def complete_spec(
        cls,
        connection: Connection,
        config: SandboxConfig,
        spec: dict[str, Any],
        metadata: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The specification, where only the daemon can make it.

        metadata: of the sample; empty before there is one.
        """
        return spec

    # From what the user wrote to the specification.

    @classmethod
    def parse_config(
        cls, config: SandboxEnvironmentConfigType | None, paths: RelativePaths | None = None
    ) -> SandboxConfig:
        """The provider's own model of what the user wrote."""
        wanted = cls.config_type
        if config is None:
            return wanted()
        if isinstance(config, wanted):
            return config
        if isinstance(config, str) and wanted.reads_files:
            return wanted.from_file(config)
        raise ValueError(
            f"sandbox {cls.provider}: the configuration is a {type(config).__name__}, "
            f"it should be a {wanted.__name__}"
        )

    @classmethod
    @override
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return cls.config_type.model_validate(config)

    @classmethod
    def to_spec(cls, config: SandboxConfig, locate: Locate = os.path.abspath) -> dict[str, Any]:
        """The sandbox specification for the daemon, which has another working directory."""
        return config.to_spec(locate)

    @classmethod
    def _read(
        cls, config: SandboxEnvironmentConfigType | None, paths: RelativePaths
    ) -> tuple[SandboxConfig, dict[str, Any]]:
        """The configuration, and the specification that it stands for."""
        try:
            parsed = cls.parse_config(paths.locate_file(config), paths)
            return parsed, cls.to_spec(parsed, paths.locate)
        except ValidationError as ex:
            raise ValueError(f"sandbox {cls.provider}: {describe(ex)}") from None

    @staticmethod
    def has_containers(spec: dict[str, Any]) -> bool:
        """Whether container images are to be got or built before the samples."""
        return any({"oci", "dockerfile"} & vm.get("source", {}).keys() for vm in spec["vms"])

    # The life of a sandbox.

    @classmethod
    @override
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        paths = paths_of_task(config)
        try:
            parsed, spec = cls._read(config, paths)
        except (ValueError, OSError) as ex:
            if paths.unsure:
                return  # checked by the first sample, which knows the file that is meant
            if isinstance(ex, PrerequisiteError):
                raise
            said, who = str(ex), f"sandbox {cls.provider}: "
            raise WrongConfigError(said if said.startswith(who) else who + said) from None
        if paths.start is not None:
            cls.access(parsed)  # raises before the samples if something is wrong with it
        try:
            connection = await connect()
            spec = await cls.complete_spec(connection, parsed, spec, {})
            if paths.unsure or cls.has_containers(spec):
                await cls.prepare(connection, spec)
            if paths.unsure:
                return
            try:
                await validate_spec(connection, spec)
            except MoatError as ex:
                if ex.kind != "not_found":
                    raise
                # an image is missing: get it, then check the rest
                await cls.prepare(connection, spec)
                await validate_spec(connection, spec)
            count = cls.standby(parsed)
            await start_standby(connection, cls.provider, config_key(config), spec, count)
        except MoatError as ex:
            said = ex.message
            if isinstance(config, str) and ex.kind in SPEC_IS_WRONG and config not in said:
                said = f"{config}: {said}"
            raise PrerequisiteError(f"sandbox {cls.provider}: {said}") from ex
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
        parsed, spec = cls._read(config, paths_of_sample(config))
        labels = sample_labels(cls.provider, task_name, metadata)
        args: dict[str, Any] = {"spec": spec, "labels": labels}
        access = cls.access(parsed)
        if access is not None:
            args["access"] = access
        try:
            connection = await connect()
            args["spec"] = await cls.complete_spec(connection, parsed, spec, metadata)
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
            on_server=cls.is_on_server(parsed),
        )
        try:
            return cls._environments(connection, sandbox_id, result["vms"], parsed)
        except BaseException:
            # Inspect does not clean up after a failed sample_init, and the eval may go on for days
            with anyio.CancelScope(shield=True):
                await remove_sandbox(running_sandboxes().pop(sandbox_id), even_detached=True)
            raise

    @classmethod
    def _environments(
        cls,
        connection: Connection,
        sandbox_id: str,
        vms: list[dict[str, Any]],
        config: SandboxConfig | None = None,
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
            environment.sandbox_id: environment._connection
            for environment in environments.values()
            if isinstance(environment, VmSandboxEnvironment)
        }
        running = running_sandboxes()
        for entry in [one for one in running.values() if one.removal and one.removal.finished]:
            await remove_sandbox(entry)  # says whether it is gone, and does not wait
            if not entry.stays:
                running.pop(entry.id, None)
        for sandbox_id, connection in ids.items():
            if sandbox_id not in running:  # made in another event loop, or removed already
                await remove_sandbox(RunningSandbox(sandbox_id, cls.provider, connection))
            # Forgotten only when removed: after a cancellation here, task_cleanup removes the rest.
            for entry in [one for one in running.values() if sandbox_id in (one.id, one.parent)]:
                await tell_touched(entry)
                if entry.on_server:
                    await begin_removal(entry)
                    continue  # task_cleanup waits for its end
                await remove_sandbox(entry)
                if not entry.stays:
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
        left = []
        for entry in mine:
            if (cleanup or entry.removal) and not entry.stays:
                await remove_sandbox(entry)
            else:
                left.append(entry)
        kept = [entry for entry in mine if entry.stays]
        kept += [one for one in left if not (one.stays or cleanup) and await detach_sandbox(one)]
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
            # the id may be that of a sandbox of which only a crash left something
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
    def default_concurrency(cls) -> int | None:
        note_start()
        return usable_cpus()

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
