"""moat started by an ordinary user works as for root, with a user namespace around VMs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import COLD, Home, kill
from walls import ALL, SHOWN, probe

from tools import STRANGER, daemons, listed, namespace, until

pytestmark = pytest.mark.needs_root("it runs moat as another user")


class StrangersHome(Home):
    """A home of a user without any rights; `run` and `start` are as that user."""

    def __init__(self, image: Path) -> None:
        super().__init__()
        data = self.dir / "data"
        shutil.copytree(image, data / "images" / image.name)
        shutil.copytree(image.parent / "names", data / "images" / "names")
        self.env = {**self.env, "HOME": str(self.dir), "MOAT_DATA_DIR": str(data)}
        self.hand_over()

    def hand_over(self) -> None:
        for path in (self.dir, *self.dir.rglob("*")):
            os.chown(path, STRANGER, STRANGER, follow_symlinks=False)

    def spec(self, spec: dict[str, Any]) -> str:
        path = super().spec(spec)
        os.chown(path, STRANGER, STRANGER)
        return path

    def run(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return super().run(*args, **more, **AS_STRANGER)

    def start(self, *args: str, **more: Any) -> subprocess.Popen[bytes]:
        return super().start(*args, **more, **AS_STRANGER)


AS_STRANGER: dict[str, Any] = {"user": STRANGER, "group": STRANGER, "extra_groups": []}


@pytest.fixture(scope="module")
def user(images: None) -> Iterator[StrangersHome]:
    root = Home()
    image = Path(json.loads(root.ok("image", "inspect", "tiny", "--json"))["dir"])
    root.close()
    home = StrangersHome(image)
    home.sandbox = home.up()  # type: ignore[attr-defined]
    yield home
    home.close()


def test_nothing_runs_as_root(user: StrangersHome) -> None:
    running = user.processes()
    assert len(running) >= 3, "daemon, guard, QEMU, and a network where there can be one"
    for pid in running:
        assert f"Uid:\t{STRANGER}\t{STRANGER}\t{STRANGER}\t{STRANGER}\n" in status(pid)


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def test_qemu_is_in_namespaces_of_its_own(user: StrangersHome) -> None:
    (daemon,) = daemons(user)
    (qemu,) = user.qemu_pids()
    for kind in ("user", "pid", "net", "mnt", "ipc", "uts"):
        assert namespace(qemu, kind) != namespace(daemon, kind), kind
    uid_map = Path(f"/proc/{qemu}/uid_map").read_text().split()
    assert uid_map == [str(STRANGER), str(STRANGER), "1"], "nobody else is in there"
    assert "CapEff:\t0000000000000000\n" in status(qemu)
    # A VM in use: if memory runs out, the kernel kills others first.
    own = int(Path(f"/proc/{daemon}/oom_score_adj").read_text())
    assert own < int(Path(f"/proc/{qemu}/oom_score_adj").read_text()) < 1000
    assert "NSpid:\t" in status(qemu)
    assert status(qemu).split("NSpid:")[1].split("\n")[0].split()[-1] == "1"


def test_a_qemu_gets_at_no_other_and_at_no_file(user: StrangersHome) -> None:
    """Both are the same user, so only namespaces are between them."""
    (first,) = user.qemu_pids()
    other = user.up()
    (second,) = user.qemu_pids(other)
    inside = probe(STRANGER, [second], inside=first, own_users=True)
    outside = probe(STRANGER, [second])
    user.ok("rm", other)
    assert inside["done"] == []
    assert len(inside["processes"]) == 2, "QEMU and the probe"
    assert set(inside["files"]) <= SHOWN
    assert inside["written"] == []
    assert outside["done"] == ALL, "the probe works"


def test_commands_and_files(user: StrangersHome) -> None:
    assert user.ok("exec", user.sandbox, "--", "id", "-un") == "user"
    assert user.ok("exec", "-u", "root", user.sandbox, "--", "id", "-u") == "0"
    source, back = user.dir / "source", user.dir / "back"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o644)
    user.ok("cp", str(source), f"{user.sandbox}:/tmp/copy")
    user.ok("cp", f"{user.sandbox}:/tmp/copy", str(back))
    assert back.read_bytes() == source.read_bytes()
    assert back.stat().st_uid == STRANGER


def test_roots_client_does_not_trust_it(user: StrangersHome) -> None:
    done = subprocess.run(
        [user.binary, "exec", user.sandbox, "--", "echo", "hello"],
        env=user.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert f"served by another user (uid {STRANGER})" in done.stderr


def test_killed_daemon_leaves_nothing(user: StrangersHome) -> None:
    qemu = user.qemu_pids()
    assert len(qemu) == 1
    user.kill_daemon()
    until(lambda: not user.processes(), "guard and QEMU end by themselves", 60)
    assert listed(user) == []
    user.assert_nothing_left()


def test_killed_guard_takes_qemu_along(user: StrangersHome) -> None:
    client = user.start("up", user.spec(COLD))
    until(user.qemu_pids, "QEMU runs")
    lines = user.processes().items()  # a network may have a guard too
    guards = [pid for pid, line in lines if " guard " in line and " qemu-system" in line]
    assert len(guards) == 1
    kill(guards[0])
    assert client.wait(30) != 0
    user.assert_nothing_left()
