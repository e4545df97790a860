"""`pip install` of a source distribution: it compiles moat, or says what that takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# It is about what gets in, not about speed.
QUICK = {"CFLAGS": "-O0 -g0"}


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOAT_", "PYTHON"))}
    return subprocess.run(
        [*command],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def ok(*command: str | Path, **variables: str) -> str:
    done = run(*command, **variables)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip and nothing else but what builds the package."""
    where = tmp_path_factory.mktemp("sdist") / "venv"
    ok(sys.executable, "-m", "venv", where)
    ok(where / "bin/pip", "-q", "install", "hatchling>=1.27")
    return where


@pytest.fixture(scope="module")
def sdist(venv: Path) -> Path:
    script = f"import hatchling.build as b; b.build_sdist({str(venv.parent)!r})"
    ok("sh", "-c", f'cd "{ROOT}/python" && exec "{venv}/bin/python" -c "{script}"')
    return next(venv.parent.glob("*.tar.gz"))


def test_moat_is_compiled_from_it(venv: Path, sdist: Path) -> None:
    """Far from the sources, and with pip's own building environment."""
    ok(venv / "bin/pip", "-q", "install", "--no-deps", sdist, **QUICK)
    moat = venv / "bin/moat"
    assert ok(moat, "version") == ok(ROOT / "build/src/cli/moat", "version")
    parts = {part.name for part in (venv / "libexec/moat").iterdir()}
    assert {"moat-daemon", "moat-helper", "moat-ssh", "recipes"} <= parts
    assert {"moat-guest-x86_64", "moat-guest-aarch64", "moat-init-x86_64"} <= parts


def test_without_a_compiler_pip_says_which_packages(venv: Path, sdist: Path) -> None:
    done = run(venv / "bin/pip", "install", "--no-deps", sdist, PATH=f"{venv}/bin:/bin-of-nobody")
    assert done.returncode != 0
    lines = (ROOT / "tools/packages").read_text().splitlines()
    wanted = [line.split()[0] for line in lines if line.endswith(" build")]
    assert f"apt-get install {' '.join(wanted)}" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_python_part_alone(venv: Path, sdist: Path) -> None:
    ok(
        *(venv / "bin/pip", "-q", "wheel", "--no-deps", "--wheel-dir", venv.parent, sdist),
        MOAT_WHEEL_BINARY="no",
    )
    assert next(venv.parent.glob("*.whl")).name.endswith("-py3-none-any.whl")
