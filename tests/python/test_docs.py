"""The commands of README.md and docs/*.md, run as they stand there.

A fenced block is

- a file, if it begins with a comment that is the file's name: `# lab.yaml`,
- commands, if it is of `sh` and no script (`#!`). They run in order, in a directory of the page's
  own; one that fails is an error of the page. A block that begins with `# needs: ...` is left out
  here. NEEDS lists them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, blocks

# Why blocks are left out, and how many there are. `make newcomer` runs those that need root and
# the Internet.
NEEDS = {
    "root": 2,
    "the Internet": 5,
    "systemd": 2,
    "a terminal": 1,
    "a disk": 1,
    "a Proxmox VE server": 1,
    "Vagrant": 1,
}


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A user who has moat and Inspect on the path, and nothing else of moat but images."""
    home = tmp_path_factory.mktemp("home")
    moat = Path(os.environ["MOAT_BIN"])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOAT_")}
    shared = {name: os.environ[name] for name in ("MOAT_DATA_DIR", "MOAT_CACHE_DIR")}
    path = f"{moat.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**kept, **shared, "HOME": str(home), "PATH": path, "MOAT_BIN": str(moat)}
    for name in list(env):
        if name.startswith("XDG_"):
            del env[name]
    yield env
    subprocess.run([moat, "serve", "--stop", "--force"], env=env, check=True)


WITH_COMMANDS = [page for page in PAGES if any(b.is_commands and not b.needs for b in blocks(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands(page: Path, env: dict[str, str], tmp_path: Path) -> None:
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        if not block.is_commands or block.needs:
            continue
        done = subprocess.run(
            ["sh", "-eux", "-c", block.text],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{page.name}:{block.line}: {done.stdout}"
    left = subprocess.run(["moat", "ls", "-q"], env=env, check=True, capture_output=True)
    assert left.stdout == b"", "a page cleans up"


def test_pages_of_tasks_are_run() -> None:
    run = {page.stem for page in WITH_COMMANDS}
    assert {"README", "first-eval", "attacker-victim", "server"} <= run


def test_what_is_left_out() -> None:
    assert Counter(b.needs for page in PAGES for b in blocks(page) if b.needs) == NEEDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_what_they_say(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "json":
            json.loads(block.text)
        elif block.kind == "python":
            compile(block.text, f"{page.name}:{block.line}", "exec")
        elif block.kind == "sh":
            subprocess.run(["sh", "-n", "-c", block.text], check=True)
