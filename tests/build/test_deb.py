"""The Debian packages: built as `make deb` does, checked by lintian, installed in an empty root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURPOSES = {"Depends": "run", "Recommends": "image", "Suggests": "vagrant"}
# Every Debian has them, and lintian wants them not to be named.
ESSENTIAL = {"dpkg", "util-linux"}
# Fast to make; what a user gets is compiled with all of Debian's flags.
QUICK = {"DEB_BUILD_OPTIONS": "noopt nocheck parallel=2"}


def ok(*command: str | Path, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOAT_")}
    done = subprocess.run(
        [*command],
        cwd=ROOT,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def packages() -> Path:
    where = ROOT / "build-deb"
    ok("tools/make-deb", where, **QUICK)
    return where


@pytest.fixture(scope="module")
def moat_deb(packages: Path) -> Path:
    return next(packages.glob("moat_*.deb"))


@pytest.fixture(scope="module")
def installed(moat_deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dpkg's own work, in a root that has nothing else."""
    root = tmp_path_factory.mktemp("root")
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    as_root = () if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user")
    command = (*as_root, "dpkg", f"--root={root}", "--force-depends", "--install", moat_deb)
    ok(*command, PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    return root


def test_lintian_has_nothing_to_say(packages: Path) -> None:
    # The changelog of a version that is not released yet; a debug package is as quick as ours is.
    silent = "--suppress-tags=initial-upload-closes-no-bugs,unreleased-changes"
    command = ("lintian", "--allow-root", "--fail-on", "error,warning", silent)
    assert ok(*command, next(packages.glob("*.changes"))) == ""


def test_moat_runs_from_there(installed: Path) -> None:
    moat = installed / "usr/bin/moat"
    assert ok(moat, "version") == ok(ROOT / "build/src/cli/moat", "version")
    for part in (
        "moat-daemon",
        "moat-guest-x86_64",
        "moat-guest-aarch64",
        "moat-init-x86_64",
        "recipes/debian12.sh",
    ):
        assert (installed / "usr/libexec/moat" / part).exists()
    for part in ("man/man1/moat.1.gz", "bash-completion/completions/moat.bash"):
        assert (installed / "usr/share" / part).exists()


def test_it_depends_on_what_moat_uses(moat_deb: Path) -> None:
    """tools/packages is the one list."""
    words = [line.split() for line in (ROOT / "tools/packages").read_text().splitlines()]
    names: set[str] = set()
    for field, purpose in PURPOSES.items():  # what is in an earlier field is not named again
        said = ok("dpkg-deb", "--field", moat_deb, field).replace("\n", " ").split(", ")
        names |= {name.split(" ")[0] for name in said}
        wanted = {w[0] for w in words if w[1:] == [purpose] and not w[0].startswith("python3")}
        assert wanted - ESSENTIAL <= names
        assert "libc6" in names or field != "Depends"


def test_the_python_package(packages: Path, tmp_path: Path) -> None:
    ok("dpkg-deb", "--extract", next(packages.glob("python3-*.deb")), tmp_path)
    place = tmp_path / "usr/lib/python3/dist-packages"
    script = "import importlib.metadata as m, inspect_moat; print(inspect_moat.__file__)"
    assert ok(sys.executable, "-c", script, PYTHONPATH=str(place)).startswith(str(place))
    (about,) = place.glob("*.dist-info")
    assert "inspect_moat" in (about / "entry_points.txt").read_text()
