"""Servers of version 8.3, which take no request of more than 64 KiB: nothing of ours is larger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from lives import SPEC, fill
from server import PveServer

from driver import SPEC as SANDBOX
from driver import PveHome, add_template, instance

# As base64 nothing but slashes, each of which takes three characters in a form.
WORST = b"\xff" * 300_000
USUAL = hashlib.shake_256(b"moat").digest(300_000)


@pytest.fixture(scope="module")
def home() -> Iterator[PveHome]:
    with PveServer(vms="container", pve_version="8.3", time_scale=0.02, task_time=0.02) as server:
        fill(server)
        home = PveHome(instance(server))
        yield home
        home.close()


@pytest.fixture(scope="module")
def sandbox(home: PveHome) -> str:
    return home.up(SPEC)


@pytest.mark.parametrize("content", [WORST, USUAL], ids=["worst", "usual"])
def test_files_go_in_and_come_back(
    home: PveHome, sandbox: str, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "in").write_bytes(content)
    home.ok("cp", str(tmp_path / "in"), f"{sandbox}:/root/file")
    home.ok("cp", f"{sandbox}:/root/file", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == content


@pytest.mark.parametrize("size", [12_000, 40_000, 48_000, 100_000])
@pytest.mark.parametrize("content", [WORST, USUAL], ids=["worst", "usual"])
def test_input_goes_in(home: PveHome, sandbox: str, content: bytes, size: int) -> None:
    given = content[:size]
    done = home.run("exec", "-i", sandbox, "--", "sha256sum", input=given, text=False)
    assert done.stdout.decode().split()[0] == hashlib.sha256(given).hexdigest()


def test_arguments_go_in(home: PveHome, sandbox: str) -> None:
    word = "/" * 40_000
    assert home.ok("exec", sandbox, "--", "echo", word) == word


def test_windows_takes_files_and_input(tmp_path: Path) -> None:
    with PveServer(pve_version="8.3", time_scale=0.02, task_time=0.02) as server:
        add_template(server, ostype="win11")
        home = PveHome(instance(server))
        windows = {**SANDBOX, "vms": [{**SANDBOX["vms"][0], "os_type": "win11"}]}
        try:
            sandbox = home.up(windows)
            (tmp_path / "in").write_bytes(WORST)
            home.ok("cp", str(tmp_path / "in"), f"{sandbox}:C:/file")
            home.ok("cp", f"{sandbox}:C:/file", str(tmp_path / "out"))
            assert (tmp_path / "out").read_bytes() == WORST
        finally:
            home.close()
