"""What the daemon says, as the exceptions and results that Inspect expects. No daemon needed."""

from __future__ import annotations

import errno
import os
from typing import Any

import inspect_ai.util
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_max_read_file_size

from inspect_moat import MoatSandboxEnvironment, _inspect_private, _result
from inspect_moat._client import Reply
from inspect_moat._errors import (
    LimitError,
    MoatError,
    to_exception,
    to_exec_exception,
    to_read_exception,
    to_vm_exception,
    to_write_exception,
)
from inspect_moat._labels import VALUE_MAX, sample_labels
from inspect_moat._result import decode_tail, to_exec_result

LIMIT = 10 * 1024 * 1024


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("invalid", ValueError),
        ("not_found", LookupError),
        ("permission", PermissionError),
        ("timeout", TimeoutError),
        ("unavailable", SandboxUnavailableError),
        ("busy", RuntimeError),
        ("unsupported", NotImplementedError),
        ("backend", RuntimeError),
        ("internal", RuntimeError),
        ("limit", LimitError),
        ("something new", RuntimeError),
    ],
)
def test_kinds(kind: str, wanted: type[Exception]) -> None:
    exception = to_exception(MoatError(kind, "the reason"))
    assert type(exception) is wanted
    assert "the reason" in str(exception)


def test_only_limits_of_output_are_output_limits() -> None:
    full = MoatError("limit", "the disk is full")
    assert isinstance(to_exec_exception(full), OutputLimitExceededError)
    assert isinstance(to_read_exception(full, "f"), OutputLimitExceededError)
    for exception in (
        to_exception(full),
        to_vm_exception(full),
        to_write_exception(full, "f"),
        to_exec_exception(MoatError("limit", "the disk is full", errno.ENOSPC)),
    ):
        assert isinstance(exception, RuntimeError)
        assert str(exception) == "the disk is full"


def test_a_sandbox_that_is_gone_is_unavailable() -> None:
    gone = MoatError("not_found", "no sandbox 1234")
    assert isinstance(to_vm_exception(gone), SandboxUnavailableError)
    assert isinstance(to_read_exception(gone, "f"), SandboxUnavailableError)
    assert isinstance(to_write_exception(gone, "f"), SandboxUnavailableError)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (MoatError("not_found", "x", errno.ENOENT), FileNotFoundError),
        (MoatError("invalid", "x", errno.ENOTDIR), FileNotFoundError),
        (MoatError("invalid", "x", errno.ENAMETOOLONG), FileNotFoundError),
        (MoatError("permission", "x", errno.EACCES), PermissionError),
        (MoatError("permission", "x"), PermissionError),
        (MoatError("is_directory", "x", errno.EISDIR), IsADirectoryError),
        (MoatError("backend", "x", errno.EIO), OSError),
    ],
)
def test_read_errors_name_the_file(error: MoatError, wanted: type[OSError]) -> None:
    exception = to_read_exception(error, "dir/file.txt")
    assert type(exception) is wanted
    assert "dir/file.txt" in str(exception)


def test_read_limit_is_that_of_the_moment() -> None:
    with override_max_read_file_size(1024):
        exception = to_read_exception(MoatError("limit", "too large"), "f")
    assert isinstance(exception, OutputLimitExceededError)
    assert "limit of 1 KiB was exceeded" in str(exception)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (MoatError("permission", "x", errno.EROFS), PermissionError),
        (MoatError("is_directory", "x", errno.EISDIR), IsADirectoryError),
        (MoatError("invalid", "x", errno.ENOTDIR), NotADirectoryError),
        (MoatError("backend", "x", errno.ENOSPC), OSError),
        (MoatError("timeout", "x", errno.ETIMEDOUT), TimeoutError),
    ],
)
def test_write_errors(error: MoatError, wanted: type[OSError]) -> None:
    assert type(to_write_exception(error, "f")) is wanted


def reply(stdout: bytes = b"", stderr: bytes = b"", **result: Any) -> Reply:
    return Reply({"exit_code": 0, "signal": 0, "timed_out": False, **result}, stdout, stderr)


def test_result_of_a_command() -> None:
    result = to_exec_result(reply(b"out\n", b"err\n", exit_code=70), "sh", None, None, LIMIT)
    assert (result.success, result.returncode) == (False, 70)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_invalid_utf8_is_replaced() -> None:
    assert (
        to_exec_result(reply(b"a\xffb"), "sh", None, None, LIMIT).stdout
        == "a\N{REPLACEMENT CHARACTER}b"
    )


def test_timeout_carries_the_output_so_far() -> None:
    late = reply(b"part", b"err", timed_out=True, exit_code=124)
    with pytest.raises(TimeoutError, match="5 seconds") as caught:
        to_exec_result(late, "sh", None, 5, LIMIT)
    assert caught.value.truncated_output == "parterr"  # type: ignore[attr-defined]
    with pytest.raises(TimeoutError) as caught:
        to_exec_result(reply(timed_out=True), "sh", None, 5, LIMIT)
    assert not hasattr(caught.value, "truncated_output")


def test_exit_code_124_alone_is_no_timeout() -> None:
    assert to_exec_result(reply(exit_code=124), "sh", None, 5, LIMIT).returncode == 124


def failure(stage: str, number: int, message: str, code: int = 126) -> Reply:
    what = {"stage": stage, "errno": number, "message": message}
    return reply(exit_code=code, failure=what)


@pytest.mark.parametrize("stage", ["exec", "cwd"])
def test_not_allowed_to_run(stage: str) -> None:
    with pytest.raises(PermissionError, match="/etc/passwd"):
        to_exec_result(failure(stage, errno.EACCES, "denied"), "/etc/passwd", None, None, LIMIT)


def test_a_missing_program_is_an_ordinary_failure() -> None:
    result = to_exec_result(failure("exec", 2, "nope: not found", 127), "nope", None, None, LIMIT)
    assert (result.success, result.returncode) == (False, 127)
    assert "nope" in result.stderr


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_user_that_no_command_can_be_run_as(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Vagrant VM without sudo: Inspect then does without root, and does not warn."""
    reply = failure("user", number, os.strerror(number))
    if hasattr(inspect_ai.util, "SandboxUserUnsupportedError"):
        with pytest.raises(inspect_ai.util.SandboxUserUnsupportedError, match="root: "):
            to_exec_result(reply, "id", "root", None, LIMIT)
    monkeypatch.setattr(_result, "UserUnsupportedError", None)
    assert not to_exec_result(reply, "id", "root", None, LIMIT).success


def test_a_missing_user_is_named() -> None:
    result = to_exec_result(failure("user", 2, "no such user"), "id", "nobody2", None, LIMIT)
    assert not result.success
    assert "nobody2" in result.stderr


def test_a_missing_directory_is_an_ordinary_failure() -> None:
    result = to_exec_result(failure("cwd", 2, "/x: no such directory"), "ls", None, None, LIMIT)
    assert not result.success
    assert "/x" in result.stderr


@pytest.mark.parametrize(
    ("data", "limit", "text"),
    [
        (b"abcdef", 3, "def"),
        ("aé".encode(), 10, "aé"),
        ("éé".encode()[1:], 3, "é"),  # cut by the daemon in the middle of a character
        ("🚀🚀".encode()[-7:], 7, "🚀"),
        (b"ab\xff\xff", 4, "\N{REPLACEMENT CHARACTER}"),
        (b"\x80" * 6, 6, "\N{REPLACEMENT CHARACTER}" * 2),
        (b"", 4, ""),
    ],
)
def test_output_never_exceeds_the_limit(data: bytes, limit: int, text: str) -> None:
    assert decode_tail(data, limit) == text
    assert len(text.encode()) <= limit


def test_labels_tell_the_sample() -> None:
    metadata = {"__sample_id__": 7, "topic": "net", "nested": {"a": 1}, "line": "a\nb\x1b[31m"}
    labels = sample_labels("moat", "my_task", metadata)
    assert labels["inspect"] == "1"
    assert labels["provider"] == "moat"
    assert labels["task"] == "my_task"
    assert labels["sample"] == "7"
    assert labels["meta.topic"] == "net"
    assert labels["meta.line"] == "a b [31m"
    assert "meta.nested" not in labels
    assert not any("__" in key for key in labels)


def test_labels_are_bounded() -> None:
    metadata = {f"key{i}": "x" * 1000 for i in range(100)}
    labels = sample_labels("moat", "t" * 1000, metadata)
    assert len(labels) < 40
    assert max(len(value) for value in labels.values()) == VALUE_MAX


def test_as_many_sandboxes_as_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    (first, *_) = usable = os.sched_getaffinity(0)
    for inspect_knows in (True, False):
        if not inspect_knows:
            monkeypatch.setattr(_inspect_private, "effective_cpu_count", None)
        os.sched_setaffinity(0, {first})
        try:
            assert MoatSandboxEnvironment.default_concurrency() == 1
        finally:
            os.sched_setaffinity(0, usable)
