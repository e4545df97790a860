"""Whole evals through the `inspect` command: what they give, and that they leave nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from real_daemon import Moat

EVALS = Path(__file__).parent / "evals"
EVAL_TIMEOUT = 900.0
INSPECT = [sys.executable, "-m", "inspect_ai"]


class Eval:
    """A running `inspect eval`."""

    def __init__(self, file: Path, logs: Path, *options: str, **environment: str) -> None:
        self.logs = logs
        self.output: str | None = None
        command = [*INSPECT, "eval", file.name, "--model", "mockllm/model", "--display", "plain"]
        self.process = subprocess.Popen(
            [*command, "--log-dir", str(logs), "--log-format", "json", *options],
            cwd=file.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )

    def finish(self) -> str:
        if self.output is None:
            try:
                self.output, _ = self.process.communicate(timeout=EVAL_TIMEOUT)
            finally:
                self.process.kill()
        return self.output

    def log(self) -> dict[str, Any]:
        (file,) = self.logs.glob("*.json")
        log = json.loads(file.read_text())
        assert isinstance(log, dict)
        return log

    def accuracy(self) -> float:
        output = self.finish()
        log = self.log()
        assert log["status"] == "success", output
        return float(log["results"]["scores"][0]["metrics"]["accuracy"]["value"])


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 300.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def many(tmp_path: Path, *options: str, **environment: str) -> Eval:
    return Eval(EVALS / "many.py", tmp_path, *options, **environment)


def test_twenty_samples_four_at_a_time(tiny: Moat, tmp_path: Path) -> None:
    run = many(tmp_path, "-T", "samples=20", "--max-sandboxes", "4")
    seen: dict[str, dict[str, str]] = {}
    most = 0
    while run.process.poll() is None:
        entries = tiny.sandboxes()
        most = max(most, len(entries))
        seen.update({entry["labels"]["sample"]: entry["labels"] for entry in entries})
        time.sleep(0.3)
    assert run.accuracy() == 1.0
    assert len(run.log()["samples"]) == 20
    assert 1 <= most <= 4
    tiny.assert_nothing_left()
    for sample, labels in seen.items():  # what `moat ls` showed meanwhile
        assert labels["task"] == "many"
        assert labels["epoch"] == "1"
        assert labels["model"] == "mockllm/model"
        assert f"s{labels['meta.number']}" == sample
        assert labels["eval"] == run.log()["eval"]["eval_id"]


def test_a_task_for_docker(tiny: Moat, tmp_path: Path) -> None:
    """Unchanged, with nothing but `--sandbox moat`."""
    shutil.copytree(EVALS / "docker", tmp_path / "task")
    shutil.copy("/bin/busybox", tmp_path / "task")
    run = Eval(tmp_path / "task" / "docker_task.py", tmp_path / "logs", "--sandbox", "moat")
    assert run.accuracy() == 1.0, run.output
    assert len(run.log()["samples"]) == 2
    tiny.assert_nothing_left()


def test_samples_take_what_is_in_standby(tiny: Moat, tmp_path: Path) -> None:
    options = ("-T", "samples=6", "-T", "seconds=4", "-T", "standby=2", "--max-sandboxes", "1")
    run = many(tmp_path, *options)
    waited: set[str] = set()
    served: dict[str, str] = {}
    most = 0
    while run.process.poll() is None:
        entries = tiny.sandboxes()
        most = max(most, len(entries))
        for entry in entries:
            if entry["state"] == "standby":
                assert "sample" not in entry["labels"]
                waited.add(entry["id"])
            elif "sample" in entry["labels"]:
                served[entry["id"]] = entry["labels"]["sample"]
        time.sleep(0.1)
    assert run.accuracy() == 1.0
    assert sorted(served.values()) == [f"s{i}" for i in range(6)]  # a new one each
    # On a slow machine a sample may come before the next sandbox is ready.
    assert len(waited & set(served)) >= 2
    assert most <= 4  # one in use, two in standby, one that is being removed
    tiny.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_with_some_in_standby(tiny: Moat, tmp_path: Path, number: signal.Signals) -> None:
    options = ("-T", "samples=2", "-T", "seconds=600", "-T", "standby=2", "--max-sandboxes", "1")
    run = many(tmp_path, *options)

    def all_there() -> bool:
        states = sorted(entry["state"] for entry in tiny.sandboxes())
        return states == ["running", "standby", "standby"]

    wait_until(all_there, "no two were in standby")
    run.process.send_signal(number)
    run.finish()
    tiny.assert_nothing_left()


def test_under_trio(tiny: Moat, tmp_path: Path) -> None:
    run = many(tmp_path, "-T", "samples=2", INSPECT_ASYNC_BACKEND="trio")
    assert run.accuracy() == 1.0
    tiny.assert_nothing_left()


@pytest.mark.parametrize(
    ("number", "state", "at_once"),
    [
        (signal.SIGKILL, "running", 4),
        (signal.SIGKILL, "creating", 2),
        (signal.SIGINT, "running", 2),
        (signal.SIGINT, "creating", 2),
        (signal.SIGTERM, "running", 2),
    ],
)
def test_killed_in_the_middle(
    tiny: Moat, tmp_path: Path, number: signal.Signals, state: str, at_once: int
) -> None:
    options = ("-T", "samples=20", "-T", "seconds=600", "--max-sandboxes", str(at_once))
    # a VM from a template is started too quickly to be seen while it is made
    run = many(tmp_path, *options, "-T", f"warm={'false' if state == 'creating' else 'true'}")

    def two_there() -> bool:
        return len([entry for entry in tiny.sandboxes() if entry["state"] == state]) >= 2

    wait_until(two_there, f"no two sandboxes were {state}")
    wait_until(lambda: tiny.vm_processes() != [], "no VM was started")
    run.process.send_signal(number)
    run.finish()
    tiny.assert_nothing_left()


def test_setup_that_fails_leaves_nothing(tiny: Moat, tmp_path: Path) -> None:
    run = many(tmp_path, "-T", "setup=#!/bin/sh\necho no luck >&2; exit 1")
    assert "no luck" in run.finish()
    assert run.log()["status"] == "error"
    tiny.assert_nothing_left()


def test_kept_sandboxes_can_be_used_and_removed(tiny: Moat, tmp_path: Path) -> None:
    run = many(tmp_path, "-T", "samples=2", "--no-sandbox-cleanup")
    output = run.finish()
    kept = [entry["id"] for entry in tiny.sandboxes()]
    assert len(kept) == 2
    assert all(entry["detached"] for entry in tiny.sandboxes())
    for id in kept:
        assert re.search(rf"{id}.*sample s[01], epoch 1", output), output
    looked = tiny.run("exec", kept[0], "cat", "/home/user/mine.txt")
    assert looked.stdout in ("s0", "s1"), looked.stderr
    one = subprocess.run(
        [*INSPECT, "sandbox", "cleanup", "moat", kept[0]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert kept[0] in one.stdout
    assert [entry["id"] for entry in tiny.sandboxes()] == [kept[1]]
    again = subprocess.run(
        [*INSPECT, "sandbox", "cleanup", "moat", kept[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1, "it was removed already"
    assert kept[0] in again.stderr
    subprocess.run([*INSPECT, "sandbox", "cleanup", "moat"], check=True)
    tiny.assert_nothing_left()


def test_a_driver_that_is_not_there_yet_says_so(tiny: Moat, tmp_path: Path) -> None:
    run = Eval(EVALS / "many.py", tmp_path / "logs", "--sandbox", "proxmox")
    output = run.finish()
    assert run.process.returncode != 0
    assert "sandbox proxmox: " in output
    assert "Traceback" not in output
