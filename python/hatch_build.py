"""Build hook: compiles moat and puts it into the wheel.

MOAT_WHEEL_BINARY=no leaves it out, for those who have moat from elsewhere.
MOAT_WHEEL_PREFIX=DIR takes it from an installation there (bin/moat, libexec, share).
MOAT_WHEEL_PLATFORM=TAG says where that runs; otherwise it is as this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PREFIX = "/moat"
REASON_LINES = 12
HOW_TO_DO_WITHOUT = "If you have the command moat from elsewhere, set MOAT_WHEEL_BINARY=no."


class CannotBuildError(Exception):
    """The binary cannot be built here; the text says why."""


class MoatBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="moat-wheel-"))
        if version == "editable" or os.environ.get("MOAT_WHEEL_BINARY") == "no":
            return
        try:
            prefix = os.environ.get("MOAT_WHEEL_PREFIX")
            source = source_of(Path(self.root))
            installed = Path(prefix) if prefix else build(source, self._scratch)
        except CannotBuildError as ex:
            shutil.rmtree(self._scratch, ignore_errors=True)
            # Without a traceback: nothing is wrong with this program.
            sys.exit(f"\nmoat could not be compiled: {ex}\n\n{HOW_TO_DO_WITHOUT}")
        # Into the environment's own bin, libexec and share: `moat` is on PATH, and finds the rest.
        build_data["shared_scripts"][str(installed / "bin")] = "."
        for part in ("libexec", "share"):
            build_data["shared_data"][str(installed / part)] = part
        platform = os.environ.get("MOAT_WHEEL_PLATFORM") or sysconfig.get_platform()
        platform = platform.replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def source_of(root: Path) -> Path:
    """Where the C sources are: in an sdist below the package, in a checkout above it."""
    return root / "moat" if (root / "moat").is_dir() else root.parent


def build(source: Path, scratch: Path) -> Path:
    """Compile and install moat into a directory below `scratch`; return that directory."""
    if not (source / "meson.build").is_file():
        raise CannotBuildError("the C sources are not beside the package")
    try:
        return _build(source, scratch)
    except CannotBuildError as ex:
        packages = " ".join(packages_for_building(source))
        raise CannotBuildError(
            f"{ex}\n\nOn Debian and Ubuntu: apt-get install {packages}"
        ) from None


def packages_for_building(source: Path) -> list[str]:
    lines = (source / "tools" / "packages").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.split()[1:] == ["build"]]


def _build(source: Path, scratch: Path) -> Path:
    for tool in ("meson", "ninja"):
        if shutil.which(tool) is None:
            raise CannotBuildError(f"{tool} is not installed")
    tree = scratch / "build"
    # no -Werror: somebody else's compiler may have opinions that ours has not
    options = [f"--prefix={PREFIX}", "--libdir=lib", "-Dwerror=false", "-Dtests=false"]
    _run(["meson", "setup", *options, str(tree), str(source)])
    _run(["ninja", "-C", str(tree)])
    stage = scratch / "stage"
    _run(["meson", "install", "-C", str(tree), "--no-rebuild", "--strip", "--destdir", str(stage)])
    installed = stage / PREFIX.lstrip("/")
    if not (installed / "bin" / "moat").is_file():
        raise CannotBuildError("the build finished, but made no binary")
    return installed


def _run(command: list[str]) -> None:
    # pip's build environment must not become that of meson, which is a Python program itself
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        errors = [line for line in lines if "error:" in line.lower()] or lines
        said = "\n".join(errors[-REASON_LINES:])
        raise CannotBuildError(f"`{' '.join(command[:2])}` failed:\n{said}")
