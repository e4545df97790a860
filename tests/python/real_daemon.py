"""The real daemon with real VMs, for tests.

There are two daemons in a run, each with directories of its own: `moat`, where tests make sandboxes
and look that nothing is left, and `lab`, whose VMs stay for all tests that do them no harm. Images
are kept between runs, in $MOAT_DATA_DIR if it is set. Without a binary, or without what VMs need,
the tests are skipped; MOAT_TEST_REQUIRE=qemu makes that a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inspect_moat import MoatSandboxEnvironment
from inspect_moat._connect import connect
from inspect_moat._daemon import find_binary
from inspect_moat._errors import MoatNotInstalledError

REPOSITORY = Path(__file__).parents[2]
IMAGE_TIMEOUT = 1800
GONE_TIMEOUT = 120.0

SMALL = {"source": "tiny", "ram_mb": 192, "vcpus": 1}
TINY = {"vms": [SMALL]}
LAB = {"vms": [{**SMALL, "name": "one"}, {**SMALL, "name": "two", "user": "root"}]}
DEBIAN = {"vms": [{"source": "debian12", "ram_mb": 1024, "vcpus": 2}]}


class Moat:
    """The command line, against one daemon of the tests."""

    def __init__(self, binary: str, home: Path, data: str) -> None:
        self.binary = binary
        self.home = home
        self.settings = {"MOAT_BIN": binary, "MOAT_HOME": str(home), "MOAT_DATA_DIR": data}

    def run(
        self, *arguments: str, timeout: float = 600, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.binary, *arguments],
            env={**os.environ, **self.settings},
            input=input or "",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @contextmanager
    def web(self) -> Iterator[str]:
        """The address of a web console that runs meanwhile."""
        console = subprocess.Popen(
            [self.binary, "web"],
            env={**os.environ, **self.settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert console.stdout is not None
            yield console.stdout.readline().strip()
        finally:
            console.terminate()
            console.communicate()

    def shell(self, command: str, input: str) -> str:
        """What a line says that a person would type."""
        return subprocess.run(
            ["sh", "-c", command], input=input, capture_output=True, text=True, check=True
        ).stdout

    def up(self, spec: dict[str, Any]) -> str:
        done = self.run("up", "-", input=json.dumps(spec))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def image(self, name: str) -> None:
        done = self.run("image", "build", name, timeout=IMAGE_TIMEOUT)
        if done.returncode != 0:
            _need(f"the image {name} cannot be built: {done.stderr.strip()[-500:]}")

    def sandboxes(self) -> list[dict[str, Any]]:
        done = self.run("ls", "--json")
        assert done.returncode == 0, done.stderr
        listed = json.loads(done.stdout)
        found = listed["sandboxes"] if isinstance(listed, dict) else listed
        assert isinstance(found, list)
        return found

    def daemon_pid(self) -> int:
        return int(json.loads(self.run("info", "--json").stdout)["pid"])

    def vm_processes(self, vm: str = "") -> list[int]:
        """The QEMU processes of our daemons, also those that the present daemon does not know.

        Args:
            vm: only those of VMs with this name.
        """
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
            name = f"/{vm}".encode() + b"\0" if vm else b""
            if command.startswith(b"qemu-system") and name in command and mark in environment:
                found.append(int(entry.name))
        return found

    def assert_nothing_left(self) -> None:
        """Wait for removals, which take a moment after a client was killed: nothing may stay."""
        deadline = time.monotonic() + GONE_TIMEOUT
        while (left := (self.sandboxes(), self.vm_processes())) != ([], []):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.2)


def _need(text: str) -> None:
    if "qemu" in os.environ.get("MOAT_TEST_REQUIRE", "").split(","):
        pytest.fail(text)
    pytest.skip(text)


@contextmanager
def daemon(data: str | None = None) -> Iterator[Moat]:
    """A daemon for the duration of the block. It may have images in the directory `data`."""
    try:
        binary = find_binary()
    except MoatNotInstalledError as ex:
        _need(str(ex))
        raise
    home = Path(tempfile.mkdtemp(prefix="moat-", dir="/tmp"))
    default = os.environ.get("MOAT_DATA_DIR", f"/tmp/moat-test-data-{os.getuid()}")
    client = Moat(binary, home, data or default)
    try:
        yield client
        client.run("serve", "--stop", "--force")
        assert client.vm_processes() == []
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def moat() -> Iterator[Moat]:
    """The daemon that the package finds in the environment for the rest of the run."""
    with daemon() as client:
        before = {name: os.environ.get(name) for name in client.settings}
        os.environ.update(client.settings)
        yield client
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def tiny(moat: Moat) -> Moat:
    """The daemon, with the image `tiny`."""
    moat.image("tiny")
    return moat


@pytest.fixture(scope="session")
def debian(moat: Moat) -> Moat:
    """The daemon, with the image `debian12`."""
    moat.image("debian12")
    return moat


@pytest.fixture
def bare(moat: Moat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Moat]:
    """A daemon for one test, with no images."""
    with daemon(str(tmp_path / "data")) as client:
        for name, value in client.settings.items():
            monkeypatch.setenv(name, value)
        yield client


@pytest.fixture(scope="session")
def lab(tiny: Moat) -> Iterator[tuple[Moat, str]]:
    """A daemon and a sandbox of two small VMs: in `one` an ordinary user is the default."""
    with daemon() as client:
        yield client, client.up(LAB)


@pytest.fixture
async def machine(lab: tuple[Moat, str], monkeypatch: pytest.MonkeyPatch) -> MoatSandboxEnvironment:
    """A VM that other tests use, too."""
    client, sandbox = lab
    monkeypatch.setenv("MOAT_HOME", str(client.home))
    return MoatSandboxEnvironment(await connect(), sandbox, "one")


@pytest.fixture(scope="session")
def debian_lab(debian: Moat) -> Iterator[tuple[Moat, str]]:
    """A daemon and a sandbox with Debian."""
    with daemon() as client:
        yield client, client.up(DEBIAN)


@pytest.fixture
async def debian_machine(
    debian_lab: tuple[Moat, str], monkeypatch: pytest.MonkeyPatch
) -> MoatSandboxEnvironment:
    """A VM with Debian that other tests use, too."""
    client, sandbox = debian_lab
    monkeypatch.setenv("MOAT_HOME", str(client.home))
    return MoatSandboxEnvironment(await connect(), sandbox, "default")
