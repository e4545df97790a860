"""The real daemon with real VMs, for tests.

All tests of a run share one daemon with directories of its own. Images are kept between runs, in
$MOAT_DATA_DIR if it is set. Without a binary, or without what VMs need, the tests are skipped;
MOAT_TEST_REQUIRE=qemu makes that a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspect_moat._daemon import find_binary
from inspect_moat._errors import MoatNotInstalledError

REPOSITORY = Path(__file__).parents[2]
IMAGE_TIMEOUT = 1800
GONE_TIMEOUT = 60.0

TINY = {"vms": [{"source": "tiny", "ram_mb": 256, "vcpus": 1}]}


class Moat:
    """The command line, against the daemon of the tests."""

    def __init__(self, binary: str, home: Path) -> None:
        self.binary = binary
        self.home = home

    def run(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.binary, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def sandboxes(self) -> list[dict[str, Any]]:
        done = self.run("ls", "--json")
        assert done.returncode == 0, done.stderr
        listed = json.loads(done.stdout)
        found = listed["sandboxes"] if isinstance(listed, dict) else listed
        assert isinstance(found, list)
        return found

    def vm_processes(self) -> list[int]:
        """The QEMU processes of our daemons, whatever the present one knows of them."""
        mark = b"MOAT_HOME=" + os.fsencode(self.home) + b"\0"  # inherited from the daemon
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"qemu-system" in command and mark in environment:
                found.append(int(entry.name))
        return found

    def assert_nothing_left(self) -> None:
        """Removing takes a moment after a client was killed; then nothing may be there."""
        deadline = time.monotonic() + GONE_TIMEOUT
        while (left := (self.sandboxes(), self.vm_processes())) != ([], []):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.2)


def _need(text: str) -> None:
    if "qemu" in os.environ.get("MOAT_TEST_REQUIRE", "").split(","):
        pytest.fail(text)
    pytest.skip(text)


@pytest.fixture(scope="session")
def moat() -> Iterator[Moat]:
    """A daemon for the whole run, with no images promised."""
    try:
        binary = find_binary()
    except MoatNotInstalledError as ex:
        _need(str(ex))
        raise
    home = Path(tempfile.mkdtemp(prefix="moat-", dir="/tmp"))
    changed = {
        "MOAT_BIN": binary,
        "MOAT_HOME": str(home),
        "MOAT_DATA_DIR": os.environ.get("MOAT_DATA_DIR", f"/tmp/moat-test-data-{os.getuid()}"),
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    client = Moat(binary, home)
    try:
        yield client
        client.run("rm", "--all")
        client.run("serve", "--stop")
        assert client.vm_processes() == []
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)


def _image(moat: Moat, name: str) -> None:
    done = moat.run("image", "build", name, timeout=IMAGE_TIMEOUT)
    if done.returncode != 0:
        _need(f"the image {name} cannot be built: {done.stderr.strip()[-500:]}")


@pytest.fixture(scope="session")
def tiny(moat: Moat) -> Moat:
    """The daemon, with the image `tiny`."""
    _image(moat, "tiny")
    return moat


@pytest.fixture(scope="session")
def debian(moat: Moat) -> Moat:
    """The daemon, with the image `debian12`."""
    _image(moat, "debian12")
    return moat
