"""Commands as the Proxmox plugin ran them for a user: in a login of that user. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from inspect_ai.util import ExecResult

_CANNOT_RUN = 126  # a shell's exit code


def login_command(
    user: str, cmd: Sequence[str], cwd: str | None, env: Mapping[str, str]
) -> list[str]:
    """The command that makes root become a user, with what a login sets, and run `cmd`.

    It starts in the user's home directory, where a relative `cwd` starts, too. The user's shell
    runs it, so that its own commands work as well.
    """
    steps = [f"cd -- {shlex.quote(cwd)} || exit"] if cwd else []
    steps += [f"export {shlex.quote(key)}={shlex.quote(value)}" for key, value in env.items()]
    script = "; ".join([*steps, '"$@"'])
    return ["su", "-l", "-c", script, "--", user, "sh", *cmd]


def check_permission(result: ExecResult[str], command: str) -> None:
    """Raise what Inspect expects if the shell was not allowed to run the command.

    Raises:
        PermissionError: it was not.
    """
    if result.returncode == _CANNOT_RUN and "permission denied" in result.stderr.lower():
        raise PermissionError(f"{command}: {result.stderr.strip()}")
