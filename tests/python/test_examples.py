"""The examples, run as `make demo` runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from real_daemon import REPOSITORY, Moat

DEMO = REPOSITORY / "tools" / "demo.py"
NAMES = subprocess.run(
    [sys.executable, str(DEMO), "--list"], stdout=subprocess.PIPE, text=True, check=True
).stdout.split()
PATIENCE = 3600.0


@pytest.fixture(scope="module")
def demo(debian: Moat, tiny: Moat, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints."""
    logs = tmp_path_factory.mktemp("logs")
    done = subprocess.run(
        [sys.executable, str(DEMO), "--logs", str(logs)],
        env={**os.environ, **tiny.settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    tiny.assert_nothing_left()
    assert done.returncode == 0, done.stdout
    assert "accuracy  1.000" in done.stdout, "the first example shows what Inspect prints"
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_example(demo: str, name: str) -> None:
    assert re.search(rf"^{name} +right +\d+ s ", demo, re.MULTILINE), demo


def test_all_examples_are_in_the_demo() -> None:
    # tests/proxmox/test_examples.py runs the one that needs a server; the image of a desktop takes
    # too long to build
    others = {"scripted", "proxmox_ctf", "desktop"}
    evals = {path.stem for path in (REPOSITORY / "examples").glob("*.py")} - others
    assert evals <= set(NAMES)


def test_an_unknown_example_is_named() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "helo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no example helo; there are hello" in done.stderr


def test_the_list_of_examples_is_complete() -> None:
    listed = (Path(REPOSITORY) / "examples" / "README.md").read_text()
    for path in (REPOSITORY / "examples").glob("*.py"):
        assert f"`{path.name}`" in listed
