"""The providers: `moat`, and drop-ins for evals written for `proxmox` and `vagrant`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from logging import INFO, NOTSET, getLogger
from pathlib import Path
from typing import Any

from inspect_ai.util import (
    ExecResult,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    sandboxenv,
)
from pydantic import ValidationError
from typing_extensions import override

from ._client import Connection
from ._compose import FILES as COMPOSE_FILES
from ._compose import ComposeFile, compose_file
from ._config import MoatSandboxEnvironmentConfig, OsType, SandboxConfig, describe
from ._connect import connect
from ._download import DownloadError, download
from ._errors import MoatError, MoatNotInstalledError
from ._inspect_private import PrerequisiteError
from ._proxmox_config import (
    SANDBOXES_IF_UNKNOWN,
    ProxmoxInstanceConfig,
    ProxmoxSandboxEnvironmentConfig,
    access_to,
    instances_for,
    known_instances,
    load_instances,
    untimed_wait,
)
from ._proxmox_exec import check_permission, login_command
from ._relative_paths import Locate, RelativePaths, note_start
from ._sandbox import VmSandboxEnvironment
from ._sandbox_requests import progress_text
from ._text import is_valid_text
from ._vagrant_command import (
    SandboxDirectory,
    Vagrant,
    VagrantFailedError,
    get_sandbox_cache_dir,
)
from ._vagrant_config import VagrantSandboxEnvironmentConfig
from ._wire import Message

logger = getLogger(__name__)
# Where that plugin says which server a sample was on. Inspect's log has what is said at this level;
# of packages other than its own it asks for warnings only, unless they say otherwise.
proxmox_logger = getLogger("proxmoxsandbox._proxmox_sandbox_environment")
if (package := getLogger("proxmoxsandbox")).level == NOTSET:
    package.setLevel(INFO)

WINDOWS_USER = "SYSTEM"
CACHE_DIR = "INSPECT_SANDBOX_CACHE_DIR"  # of Vagrant sandboxes
DIRECTORY_PREFIX = "moat-"  # of the directories in there, before the id


@sandboxenv(name="moat")
class MoatSandboxEnvironment(VmSandboxEnvironment):
    """VMs on this machine."""

    provider = "moat"
    config_type = MoatSandboxEnvironmentConfig

    @classmethod
    @override
    def config_files(cls) -> list[str]:
        return ["moat.yaml", "moat.yml", "moat.json", *COMPOSE_FILES]

    @classmethod
    @override
    def parse_config(
        cls, config: SandboxEnvironmentConfigType | None, paths: RelativePaths | None = None
    ) -> SandboxConfig:
        directory = paths.directory() if paths else os.getcwd()
        return compose_file(config, directory) or super().parse_config(config, paths)

    @classmethod
    @override
    async def complete_spec(
        cls,
        connection: Connection,
        config: SandboxConfig,
        spec: dict[str, Any],
        metadata: Mapping[str, Any],
    ) -> dict[str, Any]:
        if isinstance(config, ComposeFile):
            return await config.ask_spec(connection, metadata)
        return spec

    @classmethod
    @override
    async def task_init_environment(
        cls, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, str]:
        """Variables of a compose file that say which images a sample has."""
        file = compose_file(config, os.getcwd())
        if file is None or not file.metadata_variables(metadata):
            return {}
        try:
            return await file.images_of_sample(await connect(), metadata)
        except (MoatError, MoatNotInstalledError):
            return file.metadata_variables(metadata)  # task_init says what is wrong

    @classmethod
    @override
    def _environments(
        cls,
        connection: Connection,
        sandbox_id: str,
        vms: list[dict[str, Any]],
        config: SandboxConfig | None = None,
    ) -> dict[str, SandboxEnvironment]:
        """As for all providers; those of a compose file by the names of its services."""
        if not isinstance(config, ComposeFile):
            return super()._environments(connection, sandbox_id, vms, config)
        return {
            service: cls(connection, sandbox_id, str(vm["name"]))
            for service, vm in config.name_services(vms).items()
        }

    @classmethod
    @override
    def standby(cls, config: SandboxConfig) -> int:
        return config.standby if isinstance(config, MoatSandboxEnvironmentConfig) else 0

    @classmethod
    @override
    def access(cls, config: SandboxConfig) -> dict[str, Any] | None:
        """The Proxmox servers of the environment, for a specification that asks for them."""
        if isinstance(config, ComposeFile) or getattr(config, "driver", "") != "proxmox":
            return None
        return access_to(known_instances())

    @classmethod
    @override
    def is_on_server(cls, config: SandboxConfig) -> bool:
        return isinstance(config, MoatSandboxEnvironmentConfig) and config.driver == "proxmox"

    @classmethod
    @override
    async def remove_leftovers(cls, connection: Connection) -> dict[str, Any]:
        # without servers there is nothing to look for: the daemon itself looks after this host
        return await _clean_servers(connection) if _names_servers() else {}

    @classmethod
    @override
    async def prepare(cls, connection: Connection, spec: dict[str, Any]) -> None:
        sources = [vm["source"] for vm in spec["vms"]]
        for image in dict.fromkeys(one["image"] for one in sources if "image" in one):
            await _ensure_image(connection, image)
        for reference in dict.fromkeys(one["oci"] for one in sources if "oci" in one):
            args = {"from": reference, "missing": True}
            await _with_progress(connection, "image.pull", reference, args)
        built: list[dict[str, Any]] = []
        for dockerfile in (one["dockerfile"] for one in sources if "dockerfile" in one):
            if dockerfile not in built:
                built.append(dockerfile)
                name = os.path.join(dockerfile["context"], dockerfile.get("file", "Dockerfile"))
                await _with_progress(connection, "image.build", name, {"dockerfile": dockerfile})


@sandboxenv(name="proxmox")
class ProxmoxSandboxEnvironment(VmSandboxEnvironment):
    """VMs on Proxmox servers.

    Attributes:
        vm_id: the number of the VM on its server.
        all_vm_ids: those of all VMs of the sandbox.
        instance: the server, and pool_id: the pool that it is of.
        os_type: the kind of system, as the configuration names it.
        sdn_zone_id: the zone of the sandbox's networks; None if it has none of its own.
    """

    provider = "proxmox"
    config_type = ProxmoxSandboxEnvironmentConfig

    vm_id: int
    all_vm_ids: tuple[int, ...]
    instance: ProxmoxInstanceConfig | None
    pool_id: str
    os_type: OsType | None
    sdn_zone_id: str | None
    # what code for that plugin logs and traces with
    logger = proxmox_logger
    TRACE_NAME = "proxmox_sandbox_environment"

    start_directory = "/"  # that plugin's commands and files started where the agent was

    @classmethod
    @override
    def default_concurrency(cls) -> int | None:
        note_start()
        instances = load_instances()
        return max(1, sum(one.max_sandboxes or SANDBOXES_IF_UNKNOWN for one in instances))

    @classmethod
    @override
    def access(cls, config: SandboxConfig) -> dict[str, Any] | None:
        """The servers that the environment of the eval names, with their logins."""
        assert isinstance(config, ProxmoxSandboxEnvironmentConfig)
        return access_to(instances_for(config))

    @classmethod
    @override
    def is_on_server(cls, config: SandboxConfig) -> bool:
        return True

    @classmethod
    @override
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        if isinstance(config, ProxmoxSandboxEnvironmentConfig):
            try:
                await _download_ovas(config)
            except DownloadError as ex:
                raise PrerequisiteError(f"sandbox proxmox: {ex}") from None
        await super().task_init(task_name, config)

    @classmethod
    @override
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        parsed = cls.parse_config(config)
        assert isinstance(parsed, ProxmoxSandboxEnvironmentConfig)
        await _download_ovas(parsed)
        wanted = parsed.instance_pool_id
        pools = dict.fromkeys(server.pool_id for server in instances_for(parsed))
        if wanted not in pools:  # not in task_init: its configuration may be one that no sample has
            raise RuntimeError(
                f"sandbox proxmox: no server is of the pool {wanted}; there are {', '.join(pools)}"
            )
        try:
            return await super().sample_init(task_name, config, metadata)
        except LookupError as ex:
            # for that plugin a missing template or network was a wrong configuration
            raise ValueError(f"sandbox proxmox: {ex}") from ex

    def _is_windows(self) -> bool:
        """What suites for that plugin ask it."""
        return (self.os_type or "").startswith("w")

    @classmethod
    @override
    def _environments(
        cls,
        connection: Connection,
        sandbox_id: str,
        vms: list[dict[str, Any]],
        config: SandboxConfig | None = None,
    ) -> dict[str, SandboxEnvironment]:
        """As for all providers, and VMs with a health check as well: that plugin had them, too."""
        assert isinstance(config, ProxmoxSandboxEnvironmentConfig)
        checked = {
            name
            for name, vm in zip(config.vm_names(), config.vms_config, strict=True)
            if vm.requires_guest_agent
        }
        usable = [{**vm, "sandbox": vm["name"] in checked} for vm in vms]
        environments = super()._environments(connection, sandbox_id, usable, config)
        ids = {vm["name"]: int(vm["vmid"]) for vm in vms}
        windows = {vm["name"] for vm in vms if vm["user"] == WINDOWS_USER}
        servers = {server.instance_id: server for server in instances_for(config)}
        server = servers.get(vms[0]["server"])
        where = f"host={server.host} port={server.port} node={server.node}" if server else ""
        proxmox_logger.info(
            "sandbox %s is on the server %s of the pool %s: %s VMs %s",
            *(sandbox_id, vms[0]["server"], config.instance_pool_id, where, ids),
        )
        kinds = dict(zip(config.vm_names(), config.vms_config, strict=True))
        for environment in environments.values():
            assert isinstance(environment, ProxmoxSandboxEnvironment)
            if environment.vm_name in windows:
                environment.start_directory = ""
            environment.vm_id = ids[environment.vm_name]
            environment.all_vm_ids = tuple(ids.values())
            environment.instance = server
            environment.os_type = kinds[environment.vm_name].os_type
            environment.sdn_zone_id = vms[0].get("zone")
            environment.pool_id = config.instance_pool_id
        return environments

    @override
    def untimed_limit(self) -> int | None:
        return untimed_wait()

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
        """As for all providers; with a user, in a login of that user, as that plugin had it."""
        if not user or not cmd or not self.start_directory:  # in Windows there are no users
            return await super().exec(cmd, input, cwd, env, user, timeout, timeout_retry)
        login = login_command(user, cmd, cwd, env or {})
        result = await super().exec(login, input, None, None, "root", timeout, timeout_retry)
        check_permission(result, cmd[0])
        return result

    # For that plugin a snapshot is of one VM, not of the whole sandbox.

    @override
    async def create_snapshot(self, snapshot_name: str) -> None:
        """Save the state of this VM: disks, memory and running processes."""
        await self._snapshot("snapshot", snapshot_name, vm=self.vm_name)

    @override
    async def restore_snapshot(self, snapshot_name: str) -> None:
        """Put this VM back to a state that was saved.

        Raises:
            LookupError: there is no snapshot of that name.
        """
        await self._snapshot("restore", snapshot_name, vm=self.vm_name)

    @classmethod
    @override
    async def remove_leftovers(cls, connection: Connection) -> dict[str, Any]:
        return await _clean_servers(connection)


@sandboxenv(name="vagrant")
class VagrantSandboxEnvironment(VmSandboxEnvironment):
    """VMs that a Vagrantfile describes."""

    provider = "vagrant"
    config_type = VagrantSandboxEnvironmentConfig

    def __init__(self, connection: Connection, sandbox_id: str, vm_name: str) -> None:
        super().__init__(connection, sandbox_id, vm_name)
        self._vagrant: Vagrant | None = None
        self._variables: dict[str, str] = {}

    @classmethod
    @override
    def to_spec(cls, config: SandboxConfig, locate: Locate = os.path.abspath) -> dict[str, Any]:
        assert isinstance(config, VagrantSandboxEnvironmentConfig)
        file = config.vagrantfile(locate)
        if not os.path.isfile(file):
            raise ValueError(f"sandbox vagrant: there is no file {file}")
        return super().to_spec(config, locate)

    @classmethod
    @override
    def access(cls, config: SandboxConfig) -> dict[str, Any] | None:
        """Vagrant, and the Vagrantfile, see the environment of the eval."""
        env = {name: value for name, value in os.environ.items() if is_valid_text(name + value)}
        if env.get(CACHE_DIR):
            env[CACHE_DIR] = os.path.abspath(env[CACHE_DIR])  # the daemon has another directory
        return {"env": env}

    @classmethod
    @override
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        try:
            environments = await super().sample_init(task_name, config, metadata)
        except RuntimeError as ex:
            why = ex.__cause__
            if isinstance(why, MoatError) and why.kind == "backend":
                raise VagrantFailedError(why.message) from why
            raise
        parsed = cls.parse_config(config)
        assert isinstance(parsed, VagrantSandboxEnvironmentConfig)
        wanted = parsed.primary_vm_name
        if wanted and not any(name.lower().startswith(wanted.lower()) for name in environments):
            names = ", ".join(name for name in environments if name != "default")
            logger.warning(
                "sandbox vagrant: the Vagrantfile has no VM %s; it has %s", wanted, names
            )
        return environments

    @classmethod
    @override
    def _environments(
        cls,
        connection: Connection,
        sandbox_id: str,
        vms: list[dict[str, Any]],
        config: SandboxConfig | None = None,
    ) -> dict[str, SandboxEnvironment]:
        assert isinstance(config, VagrantSandboxEnvironmentConfig)
        environments = super()._environments(connection, sandbox_id, vms, config)
        machines = {str(vm["name"]): str(vm["known_as"]) for vm in vms}
        vagrant = Vagrant.of_sandbox(str(vms[0]["place"]), sandbox_id, machines)
        for environment in environments.values():
            assert isinstance(environment, VagrantSandboxEnvironment)
            environment._vagrant = vagrant
            environment._variables = dict(config.vagrantfile_env_vars)
        return environments

    @classmethod
    @override
    async def cli_cleanup(cls, id: str | None) -> None:
        print(f"Sandbox cache directory: {get_sandbox_cache_dir()}")
        # the name of a directory in there is taken as well
        await super().cli_cleanup(None if id is None else id.removeprefix(DIRECTORY_PREFIX))

    @classmethod
    @override
    async def remove_leftovers(cls, connection: Connection) -> dict[str, Any]:
        args = {"access": cls.access(VagrantSandboxEnvironmentConfig())}
        return (await connection.request("gc", args)).result

    @property
    def vagrant(self) -> Vagrant:
        """Vagrant itself, for this sandbox."""
        assert self._vagrant is not None, "sample_init did not make this sandbox"
        return self._vagrant

    @property
    def sandbox_dir(self) -> SandboxDirectory:
        """Where the copy of the Vagrantfile is."""
        return SandboxDirectory(Path(self.vagrant.root))

    async def vagrant_ssh_command(self) -> str:
        """The `vagrant ssh` command for this VM, as another way in than `moat shell`."""
        vm = await self.running_vm()
        variables = {
            "VAGRANT_CWD": str(vm["place"]),
            "INSPECT_VM_SUFFIX": f"-{self.sandbox_id}",  # or the Vagrantfile names other machines
            **{name: os.environ[name] for name in ("VAGRANT_HOME",) if name in os.environ},
            **self._variables,
        }
        settings = [f"{name}={value}" for name, value in variables.items()]
        return shlex.join(["env", *settings, "vagrant", "ssh", str(vm["known_as"])])


def _names_servers() -> bool:
    return any(os.environ.get(name) for name in ("PROXMOX_CONFIG_FILE", "PROXMOX_HOST"))


async def _clean_servers(connection: Connection) -> dict[str, Any]:
    """Remove what a crash left on Proxmox servers.

    A pool file that cannot be read is reported at the end: the daemon knows some servers itself.
    """
    args: dict[str, Any] = {}
    failed: list[str] = []
    try:
        instances = load_instances()
        args = {"access": access_to(instances)} if instances else {}
    except (ValueError, OSError) as ex:
        failed = [f"what is on the servers that the environment names: {_in_one_line(ex)}"]
    try:
        answer = (await connection.request("gc", args)).result
    except MoatError as ex:
        answer = {"failed": [ex.message]}
    return {**answer, "failed": [*answer.get("failed", ()), *failed]}


def _in_one_line(error: Exception) -> str:
    return describe(error) if isinstance(error, ValidationError) else str(error)


async def _download_ovas(config: ProxmoxSandboxEnvironmentConfig) -> None:
    """Get the files of `ova_url` that are not in the cache yet, one after the other."""
    for source in dict.fromkeys(vm.vm_source_config for vm in config.vms_config):
        file = source.downloaded()
        if source.ova_url is not None and file is not None and not file.exists():
            print(f"moat: downloading {file.name} (once; it is kept)", flush=True)
            await download(source.ova_url, source.ova_sha256, file)


async def _ensure_image(connection: Connection, image: str) -> None:
    try:
        await connection.request("image.inspect", {"image": image}, timeout=30)
        return
    except MoatError as ex:
        if ex.kind != "not_found":
            raise
    print(f"moat: building the image {image} (once; it is kept)", flush=True)
    await _with_progress(connection, "image.build", image, {"image": image})


async def _with_progress(connection: Connection, op: str, image: str, args: dict[str, Any]) -> None:
    """Get or build an image, and show how that goes."""
    last = ""

    def show(message: Message) -> None:
        nonlocal last
        text = str(message.get("text", ""))
        if text != last:
            last = text
            print(f"moat: {image}: {progress_text(message)}", flush=True)

    await connection.request(op, args, progress=show)
