"""Where the busybox of the tiny images comes from."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from home import Home

RECIPES = Path(__file__).parents[2] / "share" / "recipes"
FETCH = f"""
HERE={RECIPES}
. "$HERE/lib.sh"
. "$HERE/lib-busybox.sh"
recipe_begin out work
apt_setup
apt_update
busybox_fetch "$WORK/tools"
"""


def test_busybox_is_built_without_glibc(home: Home) -> None:
    initrd = Path(json.loads(home.ok("image", "inspect", "tiny", "--json"))["dir"]) / "initrd"
    with initrd.open("rb") as archive:
        busybox = subprocess.run(
            ["cpio", "-i", "--quiet", "--to-stdout", "usr/bin/busybox"],
            stdin=archive,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    assert b"BusyBox v" in busybox
    assert b"glibc" not in busybox


def test_busybox_is_debians_where_it_cannot_be_built(tmp_path: Path) -> None:
    for name in ("out", "work", "cache", "bin"):
        (tmp_path / name).mkdir()
    compiler = tmp_path / "bin" / "musl-gcc"
    compiler.write_text("#!/bin/sh\necho 'the compiler is broken' >&2\nexit 1\n")
    compiler.chmod(0o755)
    path = f"{compiler.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", FETCH],
        cwd=tmp_path,
        env={**os.environ, "MOAT_CACHE_DIR": str(tmp_path / "cache"), "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the compiler is broken" in done.stderr
    assert "taking Debian's own binary" in done.stderr
    assert not list((tmp_path / "cache" / "busybox").iterdir())
    busybox = tmp_path / "work" / "tools" / "bin" / "busybox"
    assert subprocess.run([busybox, "echo", "works"], stdout=subprocess.PIPE).stdout == b"works\n"
    assert b"glibc" in busybox.read_bytes()
