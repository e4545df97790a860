"""Every login of a user finds the user's daemon, with whatever variables it was started."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inspect_moat._connect import connect
from inspect_moat._daemon import noted_socket_path, socket_path
from inspect_moat._errors import MoatNotInstalledError
from inspect_moat._wire import Message
from real_daemon import Moat
from rogue_daemon import Peer, rogue_daemon

pytestmark = pytest.mark.anyio


async def silent(peer: Peer, message: Message) -> None:
    """Never answers."""


@pytest.fixture
def user_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An ordinary user's directories, with nothing set that moves moat's."""
    for name in list(os.environ):
        if name.startswith(("MOAT_", "XDG_")) and name != "MOAT_BIN":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@contextmanager
def noted(state: Path, place: Path, host: str) -> Iterator[None]:
    """The state directory of a daemon on `host` that listens on `place`."""
    with open(state / "daemon.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{os.getpid()} {host} {place}/moat.sock\n")
        lock.flush()
        yield


@pytest.fixture
def no_binary(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime directory of a client that cannot start a daemon."""
    monkeypatch.delenv("MOAT_BIN", raising=False)
    monkeypatch.setenv("PATH", str(runtime_dir))
    monkeypatch.setattr("inspect_moat._daemon.__file__", str(runtime_dir / "x.py"))
    return runtime_dir


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    place = Path(f"/tmp/moat-elsewhere-{os.getpid()}")
    place.mkdir(mode=0o700)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("runtime", ["/run/user/1", "/no/such", "", None])
def test_logins_agree_on_the_place(
    user_home: Path, monkeypatch: pytest.MonkeyPatch, runtime: str | None
) -> None:
    if runtime is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert socket_path() == f"{user_home}/.local/state/moat/moat.sock"
    monkeypatch.setenv("XDG_STATE_HOME", "/states")
    assert socket_path() == "/states/moat/moat.sock"
    monkeypatch.setenv("MOAT_STATE_DIR", "/own")
    assert socket_path() == "/own/moat.sock"


def test_without_a_home_the_missing_variable_is_named(
    user_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    with pytest.raises(ValueError, match="HOME is not set"):
        socket_path()


async def test_a_daemon_of_a_login_with_another_runtime_directory_is_found(
    bare: Moat, monkeypatch: pytest.MonkeyPatch, elsewhere: Path
) -> None:
    bare.sandboxes()  # starts it
    pid = bare.daemon_pid()
    monkeypatch.setenv("MOAT_RUNTIME_DIR", str(elsewhere))
    assert socket_path() == f"{elsewhere}/moat.sock"
    assert (await connect()).daemon_pid == pid
    assert not list(elsewhere.iterdir())


async def test_a_daemon_whose_socket_was_removed_is_found(bare: Moat) -> None:
    bare.sandboxes()  # starts it
    pid = bare.daemon_pid()
    os.unlink(socket_path())
    assert (await connect()).daemon_pid == pid


async def test_a_path_longer_than_a_sockets_may_be(
    bare: Moat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / ("d" * 150)
    monkeypatch.setenv("MOAT_HOME", str(home))
    connection = await connect()
    assert (home / "run" / "moat.sock").is_socket()
    opened = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert str(home / "run") not in opened
    await connection.request("shutdown", {"force": True})


async def test_the_note_is_followed(no_binary: Path, elsewhere: Path) -> None:
    async with rogue_daemon(elsewhere, silent):
        with noted(no_binary, elsewhere, socket.gethostname()):
            assert (await connect()).daemon_pid == os.getpid()


async def test_the_note_of_a_killed_daemon_is_not_believed(
    no_binary: Path, elsewhere: Path
) -> None:
    async with rogue_daemon(elsewhere, silent) as daemon:
        with noted(no_binary, elsewhere, socket.gethostname()):
            pass
        with pytest.raises(MoatNotInstalledError, match="set MOAT_BIN"):
            await connect()
        assert not daemon.seen


async def test_the_note_of_another_host_is_not_followed(no_binary: Path, elsewhere: Path) -> None:
    async with rogue_daemon(elsewhere, silent):
        with (
            noted(no_binary, elsewhere, "elsewhere.example"),
            pytest.raises(MoatNotInstalledError, match="set MOAT_BIN"),
        ):
            await connect()


@pytest.mark.parametrize(
    "note", ["", "\n", "12", "12 HOST", "12 HOST \n", "12 HOST path\n", "12 HOST /path", "\0" * 99]
)
def test_what_is_no_note(runtime_dir: Path, note: str) -> None:
    with open(runtime_dir / "daemon.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(note.replace("HOST", socket.gethostname()))
        lock.flush()
        assert noted_socket_path() is None
