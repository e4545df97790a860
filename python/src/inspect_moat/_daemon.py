"""Where the moat binary and the daemon's socket are, and how the daemon is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ._errors import MoatNotInstalledError

START_TIMEOUT = 60

_HOW_TO_GET_IT = """\
The moat binary was not found. Looked at $MOAT_BIN, in this package and on $PATH.

Get it in one of these ways:
- install what README.md names under "Building", then `pip install --force-reinstall ./python`
- build and install moat by itself, so that it is on $PATH
- set MOAT_BIN to a binary that you have"""


def find_binary() -> str:
    """The path of the `moat` binary.

    Raises:
        MoatNotInstalledError: with a text that says how to get it.
    """
    configured = os.environ.get("MOAT_BIN")
    if configured:
        if not os.access(configured, os.X_OK) or os.path.isdir(configured):
            raise MoatNotInstalledError(f"MOAT_BIN is {configured}, which is not a program")
        return os.path.abspath(configured)
    bundled = Path(__file__).parent / "bin" / "moat"
    if os.access(bundled, os.X_OK):
        return str(bundled)
    on_path = shutil.which("moat")
    if on_path is None:
        raise MoatNotInstalledError(_HOW_TO_GET_IT + _why_not_bundled())
    return on_path


def _why_not_bundled() -> str:
    try:
        reason = (Path(__file__).parent / "_no_binary.txt").read_text(encoding="utf-8")
    except OSError:
        return ""
    return f"\n\nWhy this package has none: {reason.strip()}"


def socket_path() -> str:
    """Where the daemon listens (docs/protocol.md, "Transport")."""
    for variable, below in (
        ("MOAT_RUNTIME_DIR", ""),
        ("MOAT_HOME", "run"),
        ("XDG_RUNTIME_DIR", "moat"),
    ):
        directory = os.environ.get(variable, "")
        if directory.startswith("/"):
            return os.path.join(directory, below, "moat.sock")
        if directory and variable.startswith("MOAT_"):  # XDG's would be ignored
            raise ValueError(f'{variable}: "{directory}" is not an absolute path')
    return f"/tmp/moat-{os.getuid()}/moat.sock"


def start_daemon() -> None:
    """Run `moat serve --background`; returns when the socket answers. Blocks: call it in a thread.

    Raises:
        MoatNotInstalledError: there is no binary, or it could not start the daemon.
    """
    command = [find_binary(), "serve", "--background"]
    # a file and no pipe: the daemon outlives the command, and would keep a pipe open for ever
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for inspect, not for the daemon
                timeout=START_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MoatNotInstalledError(
                f"`{' '.join(command)}` did not finish within {START_TIMEOUT} seconds"
            ) from None
        if done.returncode != 0:
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
            raise MoatNotInstalledError(
                f"`{' '.join(command)}` failed ({done.returncode}): {said or 'no message'}"
            )
