"""The `vagrant` of one sandbox, as test suites for the Vagrant plugin use it beside the sandbox.

Commands and files need none of this. It runs Vagrant itself, with what moat ran it with.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypedDict

import anyio
import anyio.to_thread

from ._daemon import find_binary

CACHE_NAME = "inspect-vagrant-sandbox"
ENV_FILE = "env"  # beside the directory of the Vagrantfile
GONE = 3  # what `moat rm` ends with if there is no such sandbox


class VagrantFailedError(RuntimeError, subprocess.CalledProcessError):
    """A command of Vagrant failed; `stderr` is what Vagrant said."""

    def __init__(self, message: str, command: Sequence[str] = ("vagrant", "up")) -> None:
        subprocess.CalledProcessError.__init__(self, 1, list(command), "", message)

    def __str__(self) -> str:
        return str(self.stderr)


class ExecCommandReturn(TypedDict):
    """The end of a command."""

    returncode: int
    stdout: str
    stderr: str


class Status(NamedTuple):
    """A machine, as `vagrant status` sees it."""

    name: str
    state: str
    provider: str | None


@dataclass
class TimeoutConfig:
    """How long a command may take before it is killed. Old callers set the other fields, too."""

    timeout: float
    terminate_grace: float = 5.0
    kill_grace: float = 5.0


class SandboxDirectory:
    """Where a sandbox's copy of the Vagrantfile is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)


def get_sandbox_cache_dir() -> Path:
    """Where the directories of sandboxes are made."""
    if own := os.environ.get("INSPECT_SANDBOX_CACHE_DIR"):
        return Path(own)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE_NAME
    return base / os.environ.get("INSPECT_SANDBOX_CACHE_SUFFIX", "")


def list_sandbox_directories() -> list[Path]:
    """The directories of all sandboxes."""
    base = get_sandbox_cache_dir()
    return [path for path in base.iterdir() if path.is_dir()] if base.exists() else []


class Vagrant:
    """Vagrant, in the directory of one sandbox.

    Attributes:
        root: that directory.
        env: the variables that Vagrant runs with.
    """

    def __init__(
        self,
        root: str = ".",
        env: Mapping[str, str] | None = None,
        *,
        sandbox_id: str | None = None,
        machines: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.env = dict(os.environ if env is None else env)
        self._sandbox_id = sandbox_id
        self._machines = machines or {}  # what Vagrant calls them

    @classmethod
    def of_sandbox(cls, root: str, sandbox_id: str, machines: Mapping[str, str]) -> Vagrant:
        """For a sandbox that moat made, with the variables that it was made with."""
        env = {**os.environ, **_saved_env(Path(root).parent / ENV_FILE)}
        return cls(root, env, sandbox_id=sandbox_id, machines=machines)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"Vagrant.{name} is not in moat; `vagrant` itself works in {self.__dict__.get('root')}"
        )

    def status(self, vm_name: str | None = None) -> list[Status]:
        """The machines of the sandbox.

        Raises:
            subprocess.CalledProcessError: Vagrant failed.
        """
        return parse_status(self._run(["status", "--machine-readable", vm_name]))

    def destroy(self, vm_name: str | None = None) -> None:
        """Remove the sandbox, or one of its machines. A sandbox that is gone already is fine.

        Raises:
            subprocess.CalledProcessError: it is still there.
        """
        if vm_name is not None or self._sandbox_id is None:
            self._run(["destroy", "-f", vm_name])
            return
        command = [find_binary(), "rm", "--quiet", self._sandbox_id]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != GONE:
            done.check_returncode()

    async def get_vm_names(self) -> list[str]:
        """What Vagrant calls the machines."""
        return [machine.name for machine in await anyio.to_thread.run_sync(self.status)]

    async def ssh(
        self,
        vm_name: str | None = None,
        command: str | None = None,
        extra_ssh_args: str | None = None,
        input: str | bytes | None = None,
        timeout: float | TimeoutConfig | None = None,
    ) -> ExecCommandReturn:
        """Run a shell command by `vagrant ssh`. The sandbox's own `exec` does it far quicker."""
        more = [] if extra_ssh_args is None else ["--", extra_ssh_args]
        return await self._run_vagrant_command_async(
            ["ssh", vm_name, "--no-tty", "--command", command, *more], input, timeout
        )

    def _make_vagrant_command(self, args: Sequence[str | None]) -> list[str]:
        return ["vagrant", *(self._machines.get(arg, arg) for arg in args if arg is not None)]

    def _run(self, args: Sequence[str | None]) -> str:
        command = self._make_vagrant_command(args)
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            said = parse_error(done.stdout) or done.stderr.strip()
            raise VagrantFailedError(said or f"it ended with {done.returncode}", command)
        return done.stdout

    async def _run_vagrant_command_async(
        self,
        args: Sequence[str | None],
        input: str | bytes | None = None,
        timeout: float | TimeoutConfig | None = None,
    ) -> ExecCommandReturn:
        """Run any command of Vagrant.

        Raises:
            TimeoutError: it took too long, and was killed.
            ValueError: the timeout is no time.
        """
        limit = timeout.timeout if isinstance(timeout, TimeoutConfig) else timeout
        if limit is not None and limit <= 0:
            raise ValueError(f"timeout must be positive, got {limit}")
        data = input.encode() if isinstance(input, str) else input
        stdin: dict[str, Any] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
        try:
            with anyio.fail_after(limit):
                done = await anyio.run_process(
                    self._make_vagrant_command(args),
                    cwd=self.root,
                    env=self.env,
                    check=False,
                    **stdin,
                )
        except TimeoutError:
            raise TimeoutError(f"vagrant timed out after {limit} seconds") from None
        return {
            "returncode": done.returncode,
            "stdout": done.stdout.decode("utf-8", "replace"),
            "stderr": done.stderr.decode("utf-8", "replace"),
        }


def parse_status(text: str) -> list[Status]:
    """The machines in the output of `vagrant status --machine-readable`. Pure."""
    states: dict[str, str] = {}
    providers: dict[str, str] = {}
    for line in text.splitlines():
        _, target, kind, *data = [*line.split(","), "", ""]
        if target and kind == "state":
            states[target] = data[0]
        elif target and kind == "provider-name":
            providers[target] = data[0]
    return [Status(name, state, providers.get(name)) for name, state in states.items()]


def parse_error(text: str) -> str:
    """What a failed command says in its machine-readable output; empty if nothing. Pure."""
    for line in reversed(text.splitlines()):
        _, _, kind, *data = [*line.split(","), "", ""]
        if kind == "error-exit":  # the class of the error, and its text
            return data[1].replace("\\n", "\n").replace("%!(VAGRANT_COMMA)", ",").strip()
    return ""


def _saved_env(file: Path) -> dict[str, str]:
    """The variables that the sandbox was made with. None once it is gone."""
    try:
        text = os.fsdecode(file.read_bytes())
    except FileNotFoundError:
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
