"""How a person gets at a VM, from another terminal or an editor."""

from __future__ import annotations

import os
import shlex
from typing import Any

from ._daemon import console_address, find_binary
from ._errors import MoatNotInstalledError
from ._running_sandboxes import RunningSandbox

SSH_PORT = 22
RUNTIME_VARIABLES = ("MOAT_HOME", "MOAT_RUNTIME_DIR", "MOAT_STATE_DIR", "XDG_STATE_HOME")


def kept_notice(provider: str, kept: list[RunningSandbox]) -> str:
    lines = ["", "Sandboxes that are still running:", ""]
    for entry in kept:
        what = f"sample {entry.sample}, epoch {entry.epoch}" if entry.epoch else entry.sample
        lines.append(f"  {entry.id}  {what}  ({', '.join(entry.vms)})")
    moat = shlex.join(_moat_command())
    page = page_address(kept[0].id)
    lines += [
        "",
        f"Look around in one:  {moat} shell {kept[0].id}",
        *([f"... in a browser:    {page}"] if page else []),
        f"List them:           {moat} ls",
        f"Remove one:          inspect sandbox cleanup {provider} {kept[0].id}",
        f"Remove all:          inspect sandbox cleanup {provider}",
        "",
    ]
    return "\n".join(lines)


def _moat_command() -> list[str]:
    """How to call moat in another terminal, where our environment variables may not be set."""
    settings = [f"{name}={os.environ[name]}" for name in RUNTIME_VARIABLES if name in os.environ]
    try:
        binary = find_binary()
    except MoatNotInstalledError:  # another process has started the daemon
        binary = "moat"
    return [*(["env", *settings] if settings else []), binary]


def vscode_command(
    vm: dict[str, Any], forwards: list[dict[str, Any]], user: str | None
) -> list[Any] | None:
    """What VS Code's extension Remote - SSH has to do for a window on the VM.

    None without SSH: it is there if the driver has a name for `ssh`, or if port 22 is forwarded.

    Args:
        vm: what the daemon knows of the VM.
        forwards: the forwarded ports of the VM, as the daemon lists them.
        user: who wants to log in; the user of the VM if None.
    """
    open_window = "opensshremotes.openEmptyWindow"
    if "ssh_host" in vm and user is None:  # as the user that `ssh` logs in as
        return [open_window, {"host": vm["ssh_host"]}]
    for forward in forwards:
        if forward["port"] == SSH_PORT:
            to = {"host": forward["host"], "port": forward["host_port"]}
            return [open_window, {**to, "userName": user or vm["user"]}]
    return None


def page_address(sandbox_id: str) -> str | None:
    """The page of a sandbox, if a web console runs."""
    address = console_address()
    return address and f"{address}/sandbox/{sandbox_id}"


def shell_command(sandbox_id: str, vm_name: str, user: str | None) -> str:
    """A line for a shell.

    The page of the sandbox is behind it: people see it, the shell does nothing with it.
    """
    options = ["--user", user] if user else []
    command = shlex.join([*_moat_command(), "shell", *options, "--vm", vm_name, sandbox_id])
    page = page_address(sandbox_id)
    return f"{command}; : or in a browser {shlex.quote(page)}" if page else command
