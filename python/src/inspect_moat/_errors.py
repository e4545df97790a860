"""The daemon's errors, and the exceptions that Inspect expects for them."""

from __future__ import annotations

import errno
import os

from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
)

from ._inspect_private import PrerequisiteError

# For a reader, a path that cannot name a file is a file that does not exist.
_NO_SUCH_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


class MoatError(Exception):
    """An operation of the daemon failed (or the daemon could not be asked)."""

    def __init__(self, kind: str, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.errno = errno


class WrongConfigError(PrerequisiteError, ValueError):
    """A configuration that cannot be used. Inspect shows it in a line, without a traceback."""


class MoatNotInstalledError(RuntimeError):
    """The moat binary, or the daemon that it should have started, is not there."""


class LimitError(RuntimeError):
    """Something does not fit: a snapshot on the disk, or a command into a call of the agent."""


def to_exception(error: MoatError) -> Exception:
    """The exception for a failure of an operation that is not about one file."""
    if error.kind == "unavailable":
        return SandboxUnavailableError(error.message)
    if error.kind == "invalid":
        return ValueError(error.message)
    if error.kind == "not_found":
        return LookupError(error.message)
    if error.kind == "permission":
        return PermissionError(error.errno or errno.EACCES, error.message)
    if error.kind == "timeout":
        return TimeoutError(error.message)
    if error.kind == "unsupported":
        return NotImplementedError(error.message)
    if error.kind == "limit":
        return LimitError(error.message)
    if error.kind == "internal":
        return RuntimeError(f"moat has a bug: {error.message}")
    return RuntimeError(error.message)


def to_vm_exception(error: MoatError) -> Exception:
    """The exception for a failed operation inside a VM: a sandbox that is gone is unavailable."""
    if error.kind == "not_found":
        return SandboxUnavailableError(error.message)
    return to_exception(error)


def to_exec_exception(error: MoatError) -> Exception:
    """The exception for a command that was sent to a VM."""
    if error.kind == "limit" and error.errno is None:
        # a limit with an errno is not that of the output: the command is too long, say
        return OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, None)
    return to_vm_exception(error)


def to_read_exception(error: MoatError, file: str) -> Exception:
    """The exception for a failed read of `file`."""
    if error.kind == "limit":
        # without the part that was read, which is of no use
        return OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
    if error.errno in _NO_SUCH_FILE:
        return FileNotFoundError(error.errno, os.strerror(error.errno), file)
    return _to_file_exception(error, file)


def to_write_exception(error: MoatError, file: str) -> Exception:
    """The exception for a failed write of `file`."""
    return _to_file_exception(error, file)


def _to_file_exception(error: MoatError, file: str) -> Exception:
    if error.kind == "is_directory":
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
    if error.kind == "permission":
        number = error.errno or errno.EACCES
        return PermissionError(number, os.strerror(number), file)
    if error.kind == "not_found" and error.errno is not None:
        return FileNotFoundError(error.errno, os.strerror(error.errno), file)
    if error.errno is not None and error.kind not in ("unavailable", "timeout"):
        return OSError(error.errno, os.strerror(error.errno), file)
    return to_vm_exception(error)
