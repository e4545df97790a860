"""Builds for aarch64: the runner, and all of moat, which runs under qemu-user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
SYSROOT = ROOT / "build-sysroot"
CROSS = ROOT / "build-aarch64"
X86_64, AARCH64 = 62, 183  # e_machine of ELF


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def ok(*command: str | Path) -> str:
    done = run(*command)
    assert done.returncode == 0, done.stdout
    return done.stdout


def machine(program: Path) -> int:
    return int.from_bytes(program.read_bytes()[18:20], "little")


def build_packages() -> list[str]:
    lines = (ROOT / "tools/packages").read_text().splitlines()
    names = [line.split()[0] for line in lines if line.endswith(" build")]
    return [name for name in names if name.endswith("-dev")]


# --- the runner ---


# Not `exec`: that needs vfork as the kernel has it.
@pytest.mark.parametrize("test", ["files", "line", "users"])
def test_the_runner_works(test: str, tmp_path: Path) -> None:
    """The same tests as on this machine. Commands of this machine are run by it."""
    runner = tmp_path / "runner"
    runner.write_text(
        f'#!/bin/sh\nexec qemu-aarch64 {BUILD}/src/moat-guest/moat-guest-aarch64 "$@"\n'
    )
    runner.chmod(0o755)
    done = run(BUILD / "tests/unit" / f"test-moat-guest-{test}", MOAT_GUEST=str(runner))
    assert done.returncode == 0, done.stdout
    assert "not ok" not in done.stdout
    assert done.stdout.count("\nok ") > 10


def with_compiler(where: Path, compiler: str) -> subprocess.CompletedProcess[str]:
    """Configures a build in which this is the compiler for aarch64."""
    file = where / "native.ini"
    file.write_text(f"[binaries]\naarch64-linux-musl-gcc = '{compiler}'\n")
    options = ("--native-file", file, "-Dtests=false")
    return run("meson", "setup", *options, where / "build")


def test_a_compiler_for_another_machine_is_refused(tmp_path: Path) -> None:
    done = with_compiler(tmp_path, "/usr/bin/x86_64-linux-musl-gcc")
    assert done.returncode == 0, done.stdout
    made = run("ninja", "-C", tmp_path / "build", "src/moat-guest/moat-guest-aarch64")
    assert made.returncode != 0
    assert "the compiler is for another architecture than this runner" in made.stdout


def test_without_a_compiler_that_runner_is_left_out(tmp_path: Path) -> None:
    done = with_compiler(tmp_path, "/bin/false")
    assert done.returncode == 0, done.stdout
    (said,) = [line for line in done.stdout.splitlines() if "WARNING" in line]
    assert "moat will lack moat-guest for aarch64 guests" in said
    assert "gcc-aarch64-linux-gnu" in said
    targets = ok("ninja", "-C", tmp_path / "build", "-t", "targets", "all")
    assert "moat-guest-x86_64" in targets
    assert "moat-guest-aarch64" not in targets


# --- all of it ---


@pytest.fixture(scope="module")
def cross() -> Path:
    ok("tools/sysroot", "arm64", SYSROOT, *build_packages())
    if not (CROSS / "build.ninja").exists():
        # What gcc warns about depends on how much it optimizes; other builds see to that.
        quick = ("-Doptimization=0", "-Ddebug=false", "-Dwerror=false", "-Dtests=false")
        ok("meson", "setup", "--cross-file", SYSROOT / "cross.ini", *quick, CROSS)
    ok("ninja", "-C", CROSS)
    return CROSS


def test_each_program_is_for_the_machine_that_runs_it(cross: Path) -> None:
    for name in ("moat", "moat-daemon", "moat-helper", "moat-ssh"):
        assert machine(cross / "src/cli" / name) == AARCH64
    for build in (BUILD, cross):
        assert machine(build / "src/moat-guest/moat-guest-aarch64") == AARCH64
        assert machine(build / "src/moat-guest/moat-guest-x86_64") == X86_64


def test_moat_runs_on_aarch64(cross: Path) -> None:
    here = ok(BUILD / "src/cli/moat", "version")
    for name in ("moat", "moat-daemon"):
        assert ok("qemu-aarch64", "-L", SYSROOT, cross / "src/cli" / name, "version") == here
