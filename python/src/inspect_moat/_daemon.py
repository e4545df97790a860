"""Where the moat binary and the daemon's socket are, and how the daemon is started."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import socket
import subprocess
import tempfile

from ._errors import MoatNotInstalledError

START_TIMEOUT = 60
DISTRIBUTION = "inspect-moat-sandbox"

_HOW_TO_GET_IT = """\
The moat binary was not found. Looked at $MOAT_BIN, at what pip installed with this package and on
$PATH.

Get it in one of these ways:
- install what compiling it needs (`make deps` in moat's sources does), then
  `pip install --force-reinstall ./python`
- build and install moat by itself (`make && sudo make install`), so that it is on $PATH
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
    installed = _installed_with_us()
    if installed is not None:
        return installed
    on_path = shutil.which("moat")
    if on_path is None:
        raise MoatNotInstalledError(_HOW_TO_GET_IT)
    return on_path


def _installed_with_us() -> str | None:
    """The binary that the wheel has put beside the environment's other programs."""
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None  # used from its sources
    for file in files:
        if file.name == "moat" and file.parent.name == "bin":
            path = os.path.abspath(file.locate())
            return path if os.access(path, os.X_OK) else None
    return None


def socket_path() -> str:
    """Where the daemon listens (docs/protocol.md, "Transport")."""
    for variable, below in (("MOAT_RUNTIME_DIR", ""), ("MOAT_HOME", "run")):
        if directory := _directory_of(variable):
            return os.path.join(directory, below, "moat.sock")
    return os.path.join(_state_directory(), "moat.sock")


def noted_socket_path() -> str | None:
    """The socket that the daemon of our state directory has noted in its lock, if one runs here.

    It is another one than `socket_path()` if that daemon was started with other variables.
    """
    try:
        with open(os.path.join(_state_directory(), "daemon.lock"), "rb") as lock:
            if not _is_held(lock.fileno()):
                return None  # a daemon that was killed has left its note
            note = lock.read(8192)
    except OSError:
        return None
    match note.split(b" ", 2):
        case [_, host, path] if os.fsdecode(host) == socket.gethostname():
            if path.startswith(b"/") and path.endswith(b"\n"):
                return os.fsdecode(path[:-1])
    return None


def console_address() -> str | None:
    """The address of the web console (`moat web`), token included, if one runs here."""
    try:
        with open(os.path.join(_state_directory(), "web.address"), "rb") as note:
            if not _is_held(note.fileno()):
                return None  # one that was killed has left it
            address = note.read(256)
    except OSError:
        return None
    if address.startswith(b"http://127.0.0.1:") and address.endswith(b"\n"):
        return address.decode(errors="replace").strip()
    return None


def _is_held(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _state_directory() -> str:
    for variable, below in (
        ("MOAT_STATE_DIR", ""),
        ("MOAT_HOME", "state"),
        ("XDG_STATE_HOME", "moat"),
        ("HOME", ".local/state/moat"),
    ):
        if directory := _directory_of(variable):
            return os.path.join(directory, below)
    raise ValueError("HOME is not set: set it, or MOAT_HOME")


def _directory_of(variable: str) -> str | None:
    """The variable's value, an absolute path, or None if it has none."""
    directory = os.environ.get(variable, "")
    if directory.startswith("/"):
        return directory
    if directory and variable.startswith("MOAT_"):  # wrong variables of XDG are ignored
        raise ValueError(f'{variable}: "{directory}" is not an absolute path')
    return None


def start_daemon() -> None:
    """Run `moat serve --background`; returns when the socket answers. Blocks: call it in a thread.

    Raises:
        MoatNotInstalledError: there is no binary, or it could not start the daemon.
    """
    command = [find_binary(), "serve", "--background"]
    # a file, because the daemon outlives the command and would keep a pipe open for ever
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
