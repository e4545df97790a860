"""A Windows guest on a Proxmox server: its agent and cmd are all there is."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util._sandbox.limits import SandboxEnvironmentLimits
from lives import named
from server import PveServer

from driver import PveHome, add_template, left
from inspect_moat import ProxmoxSandboxEnvironment
from inspect_moat._proxmox_config import ProxmoxSandboxEnvironmentConfig

PROBE = "C:\\Tools\\My App\\probe.exe"
# Whatever cmd or a program could take for something else.
NASTY = [
    "plain",
    "two words",
    "",
    'say "hi"',
    'a"b',
    "50%PATH%100%",
    "%",
    "^caret^",
    "a&b|c<d>e(f)",
    '"&echo oops&"',
    "C:\\dir\\",
    "C:\\a dir\\",
    'back\\"slash\\\\',
    "!bang!",
    "é☃",
]


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=0.1, task_time=0.05) as server:
        add_template(server, vmid=9001, tags="win;inspect", ostype="win10")
        yield server


@pytest.fixture(scope="module")
def sandbox(home: PveHome) -> Iterator[str]:
    source = {"existing_vm_template_tag": "win"}
    vm = {"source": source, "os_type": "win10", "ram_mb": 512, "vcpus": 1}
    name = home.up({"driver": "proxmox", "vms": [vm]})
    yield name
    home.ok("rm", name)


def probe(home: PveHome, sandbox: str, *words: str, **more: Any) -> dict[str, Any]:
    """What the program in the guest saw."""
    before = more.pop("options", [])
    told: dict[str, Any] = json.loads(
        home.ok("exec", *before, sandbox, "--", PROBE, *words, **more)
    )
    return told


def test_commands_end_as_they_end(home: PveHome, sandbox: str) -> None:
    assert home.ok("exec", sandbox, "whoami") == "nt authority\\system"
    done = home.run("exec", sandbox, "--", PROBE, "--exit=7", "--err=oops")
    assert (done.returncode, done.stderr) == (7, "oops")
    assert json.loads(done.stdout)["argv"] == ["--exit=7", "--err=oops"]
    assert home.run("exec", sandbox, "--", "cmd", "/c", "exit 3").returncode == 3
    crashed = json.loads(home.run("exec", "--json", sandbox, "--", PROBE, "--crash").stdout)
    assert crashed["exit_code"] & 0xFFFFFFFF == 0xC0000005


def test_arguments_arrive_as_they_are(home: PveHome, sandbox: str) -> None:
    assert probe(home, sandbox, *NASTY)["argv"] == NASTY
    # Through cmd, which would have made something of nearly all of them.
    assert probe(home, sandbox, *NASTY, options=["-w", "C:\\Tools"])["argv"] == NASTY


def test_directory_and_variables(home: PveHome, sandbox: str) -> None:
    given = [f"V{i}={text}" for i, text in enumerate(NASTY) if text]
    options = [word for pair in given for word in ("-e", pair)]
    told = probe(home, sandbox, options=["-w", "C:/Tools/My App", *options])
    assert told["cwd"] == "C:\\Tools\\My App"
    assert {name: told["env"][name] for name in (pair.split("=")[0] for pair in given)} == dict(
        pair.split("=", 1) for pair in given
    )
    # What the guest has of its own is still there.
    assert told["env"]["SYSTEMROOT"] == "C:\\Windows"
    done = home.run("exec", "-w", "C:\\nowhere", sandbox, "whoami")
    assert (done.returncode, "No such file or directory" in done.stderr) == (126, True)
    done = home.run("exec", "-w", PROBE, sandbox, "whoami")
    assert (done.returncode, "Not a directory" in done.stderr) == (126, True)


def test_commands_of_cmd_itself(home: PveHome, sandbox: str) -> None:
    assert home.ok("exec", sandbox, "--", "echo", "hello", "100%", "a&b") == "hello 100% a&b"
    assert "Microsoft Windows" in home.ok("exec", sandbox, "ver")
    assert home.run("exec", sandbox, "--", "exit", "5").returncode == 5
    assert home.ok("exec", sandbox, "--", "cmd", "/c", "echo one & echo two").split() == [
        "one",
        "two",
    ]


def test_what_does_not_run(home: PveHome, sandbox: str) -> None:
    for program in ("sh", "/bin/sh", "no-such-program", "C:\\Tools\\none.exe"):
        done = home.run("exec", sandbox, "--", program, "-c", "true")
        assert (done.returncode, "No such file" in done.stderr) == (127, True), done
    assert home.run("exec", "-w", "C:\\", sandbox, "no-such-program").returncode == 127
    assert "SYSTEM" in home.fails("exec", "-u", "root", sandbox, "whoami")
    assert "terminal" in home.fails("exec", "-t", sandbox, "cmd")


def test_input(home: PveHome, sandbox: str) -> None:
    words = ["exec", "-i", sandbox, "--", "findstr", "^"]
    assert home.ok(*words, input="one\ntwo\n") == "one\ntwo"
    # With NULs, or too much for one call of the agent: by a file.
    for data in (bytes(range(256)), os.urandom(200_000)):
        done = home.run("exec", "-i", sandbox, "--", PROBE, input=data, text=False)
        assert done.returncode == 0, done.stderr
        assert base64.b64decode(json.loads(done.stdout)["stdin"]) == data


def test_timeouts_end_the_tree(home: PveHome, sandbox: str, pve: PveServer) -> None:
    done = home.run("exec", "--timeout", "1", sandbox, "--", "ping", "-n", "1000", "127.0.0.1")
    assert (done.returncode, "after 1 second" in done.stderr) == (124, True)
    assert "Pinging" in done.stdout
    done = home.run(
        "exec", "--timeout", "1", "-w", "C:\\", sandbox, "ping", "-n", "1000", "127.0.0.1"
    )
    assert done.returncode == 124
    assert home.ok("exec", sandbox, "hostname")


def test_output_is_whole(home: PveHome, sandbox: str) -> None:
    """Short, or longer than a server can have of the agent at once."""
    sizes = ((1000, 200_000), (262_144, 262_145), (3_000_000, 0), (17_000_000, 300_000))
    for out, errors in sizes:
        done = home.run("exec", sandbox, "--", PROBE, f"--out={out}", f"--errors={errors}")
        assert done.returncode == 0, done.stderr
        assert (done.stdout, done.stderr) == ("x" * out, "y" * errors)


@pytest.mark.parametrize(
    "data",
    [bytes(range(256)), "\ufeffUTF-16 é☃\r\n".encode("utf-16-le"), b"a\x1ab", b"\r\n", b"\n"],
    ids=["all", "utf-16", "ctrl-z", "line", "newline"],
)
def test_output_is_exact(home: PveHome, sandbox: str, data: bytes) -> None:
    done = home.run("exec", sandbox, "--", PROBE, f"--hex={data.hex()}", text=False)
    assert (done.returncode, done.stdout) == (0, data)


def test_what_cmd_cannot_be_given_runs_without_it(home: PveHome, sandbox: str) -> None:
    lines = ["import os\nprint(1)\n", "x" * 9000]
    assert probe(home, sandbox, *lines)["argv"] == lines
    # There is no other way for these.
    assert "line break" in home.fails("exec", "-w", "C:\\", sandbox, "--", PROBE, "a\nb")
    assert "too long" in home.fails("exec", "-w", "C:\\", sandbox, "--", PROBE, "x" * 9000)
    assert "lost" in home.fails("exec", sandbox, "--", PROBE, "a\nb", "--out=4000000")


def test_batch_files_are_programs(home: PveHome, sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "hello.cmd").write_bytes(b"@echo off\r\necho hello\r\nexit /b 6\r\n")
    home.ok("cp", str(tmp_path / "hello.cmd"), f"{sandbox}:C:\\Tools\\hello.cmd")
    for name in ("C:\\Tools\\hello.cmd", "C:/Tools/hello"):
        done = home.run("exec", sandbox, "--", name)
        assert (done.returncode, done.stdout.strip()) == (6, "hello")


@pytest.mark.parametrize("size", [0, 5, 46_080, 46_081, 5_000_000])
def test_files_go_there_and_back(home: PveHome, sandbox: str, tmp_path: Path, size: int) -> None:
    (tmp_path / "there").write_bytes(os.urandom(size))
    where = f"{sandbox}:C:\\data\\new dir\\100% é & co\\file.bin"
    home.ok("cp", str(tmp_path / "there"), where)
    home.ok("cp", where, str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o644
    # Nothing but the last script stays behind in the guest.
    left = home.ok("exec", sandbox, "--", "cmd", "/c", "dir /b C:\\Windows\\Temp").split()
    assert len({name.split(".")[0] for name in left}) <= 1, left


def test_directories(home: PveHome, sandbox: str, tmp_path: Path) -> None:
    for text in ("a.txt", "deep/er/b & c.txt", "é.txt"):
        (tmp_path / "in" / text).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / text).write_text(text)
    (tmp_path / "in" / "empty").mkdir()
    home.ok("cp", str(tmp_path / "in"), f"{sandbox}:C:\\tree")
    home.ok("cp", f"{sandbox}:C:/tree", str(tmp_path / "out"))
    there = [p.relative_to(tmp_path / "in") for p in (tmp_path / "in").rglob("*")]
    assert there
    for name in there:
        copy = tmp_path / "out" / name
        assert copy.is_dir() or copy.read_text() == str(name)
        assert copy.is_dir() == (tmp_path / "in" / name).is_dir()
    # A path in the guest's own words has a last part, too.
    (tmp_path / "here").mkdir()
    home.ok("cp", f"{sandbox}:C:\\tree\\a.txt", str(tmp_path / "here"))
    assert (tmp_path / "here" / "a.txt").read_text() == "a.txt"


def test_files_that_cannot_be_had(home: PveHome, sandbox: str, tmp_path: Path) -> None:
    out, here = str(tmp_path / "x"), str(tmp_path / "file")
    Path(here).write_text("x")
    assert "No such file" in home.fails("cp", f"{sandbox}:C:\\none.txt", out)
    assert "No such file" in home.fails("cp", f"{sandbox}:C:\\no\\dir\\none.txt", out)
    assert "Is a directory" in home.fails("cp", f"{sandbox}:C:\\Windows", "-")
    denied = f"{sandbox}:C:\\System Volume Information\\x"
    assert "Permission denied" in home.fails("cp", here, denied)
    assert "Invalid argument" in home.fails("cp", here, f"{sandbox}:C:\\what?")


def test_calls_that_fail(home: PveHome, sandbox: str, pve: PveServer) -> None:
    """Nothing runs twice; what was not even sent is tried again."""
    path = "/agent/exec$"
    for fault in ({"status": 500, "message": "QEMU guest agent is not running"},):
        pve.fault(path=path, action="status", when="before", **fault)
        assert home.ok("exec", sandbox, "whoami") == "nt authority\\system"
    pve.fault(path=path, action="drop", when="after")
    done = home.run("exec", sandbox, "whoami")
    assert done.returncode != 0
    assert "No such file" not in done.stderr
    pve.clear()


def test_a_snapshot_goes_back(home: PveHome, sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("first")
    home.ok("cp", str(tmp_path / "f"), f"{sandbox}:C:\\state.txt")
    home.ok("snapshot", sandbox, "start")
    (tmp_path / "f").write_text("second")
    home.ok("cp", str(tmp_path / "f"), f"{sandbox}:C:\\state.txt")
    home.ok("restore", sandbox, "start")
    assert home.ok("exec", sandbox, "--", "cmd", "/c", "type C:\\state.txt") == "first"


def test_nothing_is_left(home: PveHome, pve: PveServer) -> None:
    before = left(pve)
    # The template's own ostype is enough.
    vm = {"source": {"existing_vm_template_tag": "win"}, "ram_mb": 512, "vcpus": 1}
    name = home.up({"driver": "proxmox", "vms": [vm]})
    assert home.ok("exec", name, "whoami") == "nt authority\\system"
    info = json.loads(home.ok("ls", "--json", name))["sandboxes"][0]["vms"][0]
    assert (info["user"], info["way"]) == ("SYSTEM", "agent")
    home.ok("rm", name)
    assert left(pve) == before


@pytest.mark.anyio
async def test_through_inspect(pve: PveServer, tmp_path: Path) -> None:
    source = {"existing_vm_template_tag": "win"}
    vm = {"vm_source_config": source, "ram_mb": 512, "vcpus": 1, "os_type": "win10"}
    config = ProxmoxSandboxEnvironmentConfig.model_validate({"vms_config": [vm]})
    with named(pve, tmp_path):
        sandboxes = await ProxmoxSandboxEnvironment.sample_init("windows", config, {})
        default = sandboxes["default"]
        told = await default.exec([PROBE, "a b"], cwd="C:\\Tools", env={"A": "b"}, input="in")
        seen = json.loads(told.stdout)
        assert (seen["argv"], seen["cwd"], seen["env"]["A"]) == (["a b"], "C:\\Tools", "b")
        await default.write_file("C:\\notes\\n.txt", "line\n")
        assert await default.read_file("C:\\notes\\n.txt") == "line\n"
        with pytest.raises(FileNotFoundError):
            await default.read_file("C:\\notes\\none.txt")
        with pytest.raises(IsADirectoryError):
            await default.read_file("C:\\notes")
        with pytest.raises(IsADirectoryError):
            await default.write_file("C:\\notes", "x")
        # Beyond what Inspect allows the end is kept, and beyond what one call of the server reads.
        told = await default.exec([PROBE, f"--out={17 * 1024 * 1024}", "--last=end"])
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        assert told.stdout == "x" * (most - 3) + "end"
        with pytest.raises(TimeoutError):
            await default.exec(["ping", "-n", "1000", "127.0.0.1"], timeout=1)
        await ProxmoxSandboxEnvironment.sample_cleanup("windows", config, sandboxes, False)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
