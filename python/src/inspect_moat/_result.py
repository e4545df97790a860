"""What the daemon says about the end of a command, as Inspect wants to hear it. Pure."""

from __future__ import annotations

import errno
from typing import Any

from inspect_ai.util import ExecResult

from ._client import Reply

try:
    from inspect_ai.util import SandboxUserUnsupportedError as UserUnsupportedError
except ImportError:  # an Inspect before it told this from other failures
    UserUnsupportedError = None  # type: ignore[assignment,misc]

# The runner in the guest is not root, or has no program to become another user.
_NO_OTHER_USERS = (errno.EPERM, errno.ENOSYS)
_CANNOT_RUN = 126
NOT_FOUND = 127


def to_exec_result(
    reply: Reply, command: str, user: str | None, timeout: int | None, output_max: int
) -> ExecResult[str]:
    """The result of a command.

    Raises:
        TimeoutError: it took too long; with the output so far as `truncated_output`.
        PermissionError: the user may not run it.
        SandboxUserUnsupportedError: the VM runs nothing as that user, now or ever.
    """
    stdout = decode_tail(reply.stdout, output_max)
    stderr = decode_tail(reply.stderr, output_max)
    if reply.result.get("timed_out"):
        raise timeout_error(timeout, stdout + stderr)
    failure = reply.result.get("failure")
    if isinstance(failure, dict):
        return _not_started(failure, reply.result, command, user)
    code = reply.result.get("exit_code")
    code = code if isinstance(code, int) else _CANNOT_RUN
    return ExecResult(success=code == 0, returncode=code, stdout=stdout, stderr=stderr)


def cannot_enter(reply: Reply) -> bool:
    """Whether the command was not started because its directory could not be entered."""
    failure = reply.result.get("failure")
    return isinstance(failure, dict) and failure.get("stage") == "cwd"


def timeout_error(timeout: int | None, output: str) -> TimeoutError:
    """The error that Inspect expects of a command that took too long."""
    error = TimeoutError(f"the command timed out after {timeout} seconds")
    if output:
        error.truncated_output = output  # type: ignore[attr-defined]
    return error


def refused(message: str, code: int = _CANNOT_RUN) -> ExecResult[str]:
    """The result of a command that no system could run, such as one that is too long."""
    return ExecResult(success=False, returncode=code, stdout="", stderr=f"{message}\n")


def user_unsupported(user: str, message: str) -> ExecResult[str]:
    """The result of a command in a guest that runs commands as one user only.

    Raises:
        SandboxUserUnsupportedError: instead, where Inspect has such an error.
    """
    named = message if user in message else f"{user}: {message}"
    if UserUnsupportedError is not None:
        raise UserUnsupportedError(named)
    return refused(named)


def _not_started(
    failure: dict[str, Any], exit: dict[str, Any], command: str, user: str | None
) -> ExecResult[str]:
    stage = failure.get("stage")
    number = failure.get("errno")
    message = str(failure.get("message", "it could not be started"))
    if stage in ("exec", "cwd") and number in (errno.EACCES, errno.EPERM):
        raise PermissionError(number, message, command)
    if stage == "user" and user and number in _NO_OTHER_USERS:
        return user_unsupported(user, message)
    if stage == "user" and user and user not in message:
        message = f"{user}: {message}"
    code = exit.get("exit_code")
    return ExecResult(
        success=False,
        returncode=code if isinstance(code, int) and code else _CANNOT_RUN,
        stdout="",
        stderr=f"{message}\n",
    )


def decode_tail(data: bytes, size_max: int) -> str:
    """The text, or as much of its end as is at most `size_max` bytes long in UTF-8.

    The daemon cuts at a byte, possibly inside a character, and an invalid byte becomes a
    replacement character of three bytes: without the second look the text could be larger than
    Inspect's limit, and Inspect would refuse it altogether.
    """
    if len(data) >= size_max:
        data = _from_whole_character(data[-size_max:])
    text = data.decode("utf-8", "replace")
    if text.isascii():
        return text
    encoded = text.encode("utf-8")
    if len(encoded) <= size_max:
        return text
    return _from_whole_character(encoded[-size_max:]).decode("utf-8")


def _from_whole_character(data: bytes) -> bytes:
    """Without the up to three bytes at the start that are the rest of a character."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
