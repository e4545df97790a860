"""`moat-guest once`: single operations of the runner, as the agent starts them. No VM needed."""

from __future__ import annotations

import base64
import os
import re
import runpy
import shutil
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

import pytest
from probe import ROOT, RUNNER

EXEC, DATA, EOF, EXIT = 2, 3, 4, 65
STDIN, CAPTURE = 1, 4
PART = 46080
WAIT_SECONDS = 60


SCRIPTS = ROOT / "src/driver/proxmox/guest/scripts"


def run_script(name: str, before: str, place: Path, *arguments: str) -> tuple[int, str]:
    """A script as it goes into a guest, with some commands of ours before it."""
    embed = runpy.run_path(str(ROOT / "tools/embed.py"))
    script, n = re.subn("(?m)^places=.*$", f"places={place}", embed["text_of"](SCRIPTS / name, []))
    assert n == 1
    done = subprocess.run(
        ["sh", "-c", f"{before}\n{script}", "sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def find_runner(machine: str, place: Path, *arguments: str) -> tuple[int, str]:
    """In a guest that says that it is such a machine."""
    return run_script("find-runner.sh", f"uname() {{ echo {machine}; }}", place, *arguments)


def test_the_script_chooses_by_the_machine(tmp_path: Path) -> None:
    runner = tmp_path / "moat-guest"
    ours = (str(RUNNER.stat().st_size), f"{zlib.crc32(RUNNER.read_bytes()):08x}")
    both = ("x86_64", *ours, "aarch64", "1", "0")
    code, said = find_runner("aarch64", tmp_path, *both)
    assert (code, said.split()[0]) == (92, "aarch64")
    assert said.split()[1].startswith(f"{runner}.")
    shutil.copy(RUNNER, runner)
    assert find_runner("x86_64", tmp_path, *both) == (0, str(runner))
    assert find_runner("aarch64", tmp_path, *both)[0] == 92  # that is not the one it wants
    assert find_runner("aarch64", tmp_path, "x86_64", *ours) == (94, "aarch64")
    assert find_runner("riscv64", tmp_path, *both) == (94, "riscv64")
    assert find_runner("aarch64", tmp_path) == (94, "aarch64")


def test_the_runner_comes_with_the_call_that_looks_for_it(tmp_path: Path) -> None:
    data = RUNNER.read_bytes()
    text = base64.b64encode(data).decode()
    wanted = ("x86_64", str(len(data)), f"{zlib.crc32(data):08x}")
    carried = ("2", text[:100_000], text[100_000:])
    runner = tmp_path / "moat-guest"

    def bring(before: str, *arguments: str) -> tuple[int, str]:
        return run_script("bring-runner.sh", before, tmp_path, *arguments)

    # What cannot be done in one call is said as find-runner.sh says it.
    for before, arguments in (
        ("uname() { echo aarch64; }", (*carried, *wanted, "aarch64", "1", "0")),
        ("base64() { return 127; }", (*carried, *wanted)),
        ("", ("2", text[:100_000], text[100_000:-8], *wanted)),
    ):
        code, said = bring(before, *arguments)
        assert (code, said.split()[1].startswith(f"{runner}.")) == (92, True)
        assert not runner.exists()
    assert bring("uname() { echo riscv64; }", *carried, *wanted) == (94, "riscv64")
    for _ in range(2):  # as when the answer to the first call got lost
        assert bring("", *carried, *wanted) == (0, str(runner))
        assert runner.read_bytes() == data
    assert (tmp_path / "moat-spool").is_dir()


class Once:
    """A runner in a directory of its own, with its spool beside it."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "moat-guest"
        self.spool = folder / "moat-spool"
        shutil.copy(RUNNER, self.program)

    def run(self, *words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.program), *words],
            input=text,
            capture_output=True,
            check=False,
            timeout=WAIT_SECONDS * 5,
        )

    def once(self, name: str, request: bytes, *old: str) -> Result:
        parts = 0
        if len(request) > PART:
            self.run("forget", "0")  # makes the spool
            for at in range(0, len(request), PART):
                (self.spool / f"{name}.{parts}").write_bytes(request[at : at + PART])
                parts += 1
        head = f"moat1 {name} {parts} {len(request)} {zlib.crc32(request):08x}\n".encode()
        body = b"" if parts else base64.b64encode(request)
        return Result(self, self.run("once", name, *old, text=head + body))


class Result:
    def __init__(self, once: Once, done: subprocess.CompletedProcess[bytes]) -> None:
        self.status = done.returncode
        self.out: dict[int, bytes] = {}
        self.end: tuple[int, bytes] | None = None
        if self.status:
            return
        head, _, rest = done.stdout.partition(b"\n")
        word, name, parts, length, crc = head.decode().split()
        assert word == "moat1"
        self.parts = int(parts)
        if self.parts:
            folder = once.spool / name
            raw = b"".join((folder / str(i)).read_bytes() for i in range(self.parts))
        else:
            raw = base64.b64decode(rest.strip())
        assert (len(raw), zlib.crc32(raw)) == (int(length), int(crc, 16))
        at = 0
        pieces: dict[int, list[bytes]] = {}
        while at < len(raw):
            head_len, body_len = struct.unpack_from("<II", raw, at)
            body_at = at + 8 + head_len
            head_bytes = raw[at + 8 : body_at]
            at = body_at + body_len
            if head_bytes[0] == DATA:
                pieces.setdefault(head_bytes[5], []).append(raw[body_at:at])
            else:
                assert head_bytes[0] == EXIT
                self.end = (head_bytes[5], head_bytes[6:])
        self.out = {stream: b"".join(list_) for stream, list_ in pieces.items()}

    @property
    def code(self) -> int:
        assert self.end is not None
        return int(struct.unpack("<I", self.end[1][:4])[0])


def frame(head: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<II", len(head), len(body)) + head + body


def command(*argv: str, capture: int = 0, timeout_ms: int = 0, given: bytes | None = None) -> bytes:
    flags = (STDIN if given is not None else 0) | (CAPTURE if capture else 0)
    numbers = struct.pack("<IIQHHII", flags, timeout_ms, capture, 0, 0, len(argv), 0)
    strings = b"\0\0" + b"".join(word.encode() + b"\0" for word in argv)
    request = frame(struct.pack("<BI", EXEC, 1) + numbers, strings)
    if given is not None:
        for at in range(0, len(given), 65536):
            request += frame(struct.pack("<BIB", DATA, 1, 3), given[at : at + 65536])
        request += frame(struct.pack("<BI", EOF, 1))
    return request


@pytest.fixture
def once(tmp_path: Path) -> Once:
    tmp_path.chmod(0o755)
    return Once(tmp_path)


def test_a_command_and_its_streams(once: Once) -> None:
    done = once.once("a1", command("sh", "-c", "echo hi; echo no >&2; exit 3"))
    assert (done.out, done.code) == ({1: b"hi\n", 2: b"no\n"}, 3)


def test_nothing_is_done_twice(once: Once, tmp_path: Path) -> None:
    ask = command("sh", "-c", f"echo x >>{tmp_path}/count; cat {tmp_path}/count")
    first, second = once.once("a1", ask), once.once("a1", ask)
    assert first.out == second.out == {1: b"x\n"}
    assert once.once("a2", ask, "a1").out == {1: b"x\nx\n"}
    assert sorted(os.listdir(once.spool)) == ["a2"]
    assert once.run("fetch", "a2").returncode == 0
    assert once.run("fetch", "a1").returncode == 3


def test_much_input_and_output(once: Once) -> None:
    given = os.urandom(9_000_000)
    done = once.once("b1", command("cat", given=given))
    assert done.out[1] == given
    assert done.parts == 3  # pieces of what one agent call carries well
    done = once.once("b2", command("cat", given=given, capture=1000), "b1")
    assert done.out[1] == given[-1000:]
    assert done.parts == 0


def test_endless_output_ends(once: Once) -> None:
    done = once.once("b3", command("yes"))
    assert done.end is not None
    assert 60e6 < len(done.out[1]) < 70e6
    once.run("forget", "b3")
    assert os.listdir(once.spool) == []


def test_kill_ends_the_whole_tree(once: Once, tmp_path: Path) -> None:
    ask = command("sh", "-c", f"(sleep 1000 & echo $! >{tmp_path}/pid; wait) & wait")
    waiting: list[Result] = []
    thread = threading.Thread(target=lambda: waiting.append(once.once("c1", ask)))
    thread.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert once.run("kill", "c1").returncode == 0
    thread.join()
    assert waiting[0].end is not None
    pid = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.01)


def test_timeout(once: Once) -> None:
    done = once.once("c2", command("sleep", "1000", timeout_ms=200))
    assert done.end is not None
    assert done.end[1][4] == 1  # timed out


def test_background_processes_can_go_on_writing(once: Once, tmp_path: Path) -> None:
    script = f"(sleep 0.5; echo more; echo done >{tmp_path}/done) & echo now"
    assert once.once("d1", command("sh", "-c", script)).out == {1: b"now\n"}
    deadline = time.monotonic() + WAIT_SECONDS
    while not (tmp_path / "done").exists():
        assert time.monotonic() < deadline, "it died of SIGPIPE"
        time.sleep(0.02)


def test_damaged_requests_are_refused(once: Once) -> None:
    request = command("true")
    head = f"moat1 e1 0 {len(request)} {zlib.crc32(request):08x}\n".encode()
    text = base64.b64encode(request)
    assert once.run("once", "e1", text=head + text[:-4]).returncode == 2
    assert once.run("once", "e1", text=head + b"AAAA" + text[4:]).returncode == 2
    assert once.run("once", "e2", text=head + text).returncode == 2
    assert once.run("once", "../x", text=head + text).returncode == 2
    assert once.run("once", "e1", text=b"").returncode == 2
    assert once.run("once", "e1", text=head + text).returncode == 0


def test_it_knows_itself(once: Once) -> None:
    data = RUNNER.read_bytes()
    assert once.run("check", str(len(data)), f"{zlib.crc32(data):08x}").returncode == 0
    assert once.run("check", str(len(data)), "00000000").returncode == 1
    assert once.run("check", "1", f"{zlib.crc32(data):08x}").returncode == 1
