"""What `pip install` puts into an environment: the command `moat` with all that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from real_daemon import Moat

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python"


def run(*command: str | Path, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOAT_", "PYTHON"))}
    done = subprocess.run(
        [*command],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


def pip(*arguments: str | Path, **variables: str) -> str:
    return run(sys.executable, "-m", "pip", "-q", *arguments, **variables)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel; what that needs is taken from the tests' own."""
    where = tmp_path_factory.mktemp("wheel")
    stage = where / "stage"
    run("meson", "install", "-C", ROOT / "build", "--no-rebuild", "--quiet", "--destdir", stage)
    prefix = next(stage.rglob("bin/moat")).parent.parent
    pip("wheel", "--no-deps", "--wheel-dir", where, PACKAGE, MOAT_WHEEL_PREFIX=str(prefix))
    run(sys.executable, "-m", "venv", where / "venv")
    wheel = next(where.glob("*.whl"))
    run(where / "venv/bin/pip", "-q", "install", "--no-deps", wheel)
    site = next((where / "venv/lib").glob("python*/site-packages"))
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return where / "venv"


def test_moat_is_a_command_of_the_environment(
    environment: Path, moat: Moat, tmp_path: Path
) -> None:
    command = environment / "bin/moat"
    assert run(command, "version") == run(moat.binary, "version")
    # The daemon and the recipes are found, too: it says which there are.
    home = {"MOAT_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [command, "image", "build", "no-such-image"],
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "debian12" in done.stderr
    run(command, "serve", "--stop", "--force", **home)


def test_python_finds_that_command(environment: Path) -> None:
    script = "from inspect_moat._daemon import find_binary; print(find_binary())"
    found = run(environment / "bin/python", "-c", script, PATH="/usr/bin:/bin")
    assert found == str(environment / "bin/moat")
