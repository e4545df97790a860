"""The daemon and its clients: starting, and clients that break the rules."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from home import TINY, Home, Wire, kill

from tools import (
    STRANGER,
    as_stranger,
    daemons,
    in_guest,
    log_of,
    status_kb,
    until,
    wire,
)

# ---- the socket and the start ----


def socket_path(home: Home) -> Path:
    path = home.dir / "run" / "moat.sock"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return path


def test_stale_socket_is_replaced(home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(socket_path(home)))
    assert home.ok("ls", "--json")
    assert len(daemons(home)) == 1


def test_plain_file_at_the_sockets_place_is_replaced(home: Home) -> None:
    socket_path(home).write_text("not a socket")
    assert home.ok("ls", "--json")
    assert len(daemons(home)) == 1


def test_directory_at_the_sockets_place_is_left_alone(home: Home) -> None:
    precious = socket_path(home) / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    said = home.fails("ls")
    assert "moat.sock: Is a directory" in said
    assert precious.read_text() == "mine"
    assert not daemons(home)
    precious.unlink()
    precious.parent.rmdir()


@pytest.mark.needs_root("another user is needed")
def test_runtime_directory_of_somebody_else_is_refused(home: Home) -> None:
    socket_path(home)
    os.chown(home.dir / "run", STRANGER, STRANGER)
    said = home.fails("ls")
    assert f"{home.dir}/run is not a directory of yours" in said


USER = 300_000 + os.getpid()  # what is planted for this user is in nobody else's way


@pytest.fixture
def user_home(home: Home) -> Path:
    """The directory of an ordinary user, and `home` without anything that moves moat's."""
    place = home.dir / "user"
    place.mkdir()
    home.dir.chmod(0o755)
    os.chown(place, USER, USER)
    kept = {"PATH": os.environ["PATH"], "MOAT_HOME": str(home.dir)}
    home.env = {**kept, "HOME": str(place)}
    return place


def as_user(home: Home, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs moat as the user, who has no MOAT_HOME."""
    return as_stranger(home, "env", "-u", "MOAT_HOME", home.binary, *args, user=USER)


@pytest.mark.needs_root("another user is needed")
def test_what_others_put_into_tmp_locks_nobody_out(home: Home, user_home: Path) -> None:
    planted = Path(f"/tmp/moat-{USER}")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            os.seteuid(STRANGER)
            planted.mkdir(mode=0o755)
            listener.bind(str(planted / "moat.sock"))
            (planted / "moat.sock").chmod(0o777)
            listener.listen()
            os.seteuid(0)
            listed = as_user(home, "ls", "--json")
            assert (listed.returncode, listed.stdout) == (0, '{"sandboxes":[]}\n'), listed
            assert (user_home / ".local/state/moat/moat.sock").is_socket()
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
            assert "has ended" in as_user(home, "serve", "--stop").stderr
    finally:
        os.seteuid(0)
        shutil.rmtree(planted)


@pytest.mark.needs_root("another user is needed")
def test_root_with_the_home_of_a_user_leaves_the_users_moat_alone(
    home: Home, user_home: Path
) -> None:
    """As `sudo` does where it keeps HOME."""
    assert as_user(home, "ls").returncode == 0
    del home.env["MOAT_HOME"]
    assert f"served by another user (uid {USER})" in home.fails("ls")
    assert "has ended" in as_user(home, "serve", "--stop").stderr
    state = user_home / ".local/state/moat"
    assert f"{state} is not a directory of yours" in home.fails("ls")
    assert {path.stat().st_uid for path in user_home.rglob("*")} == {USER}
    assert as_user(home, "ls").returncode == 0
    assert "has ended" in as_user(home, "serve", "--stop").stderr


@pytest.mark.needs_root("another user is needed")
def test_link_of_another_user_in_the_states_place_is_refused(home: Home) -> None:
    """One of our own is fine: it leads to a larger disk, say."""
    home.env = {**home.env, "MOAT_RUNTIME_DIR": f"{home.dir}/state"}
    (home.dir / "disk").mkdir(mode=0o700)
    (home.dir / "state").symlink_to("disk")
    assert home.ok("ls", "--json")
    home.ok("serve", "--stop")
    os.lchown(home.dir / "state", STRANGER, STRANGER)
    assert "state is not a directory of yours" in home.fails("ls")
    os.lchown(home.dir / "state", 0, 0)


@pytest.mark.needs_root("another user is needed")
def test_other_users_are_turned_away(home: Home) -> None:
    home.ok("ls")
    home.dir.chmod(0o755)
    (home.dir / "run").chmod(0o755)
    (home.dir / "run" / "moat.sock").chmod(0o777)
    hello = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        'm = b\'{"type":"hello","protocol":1}\';'
        "s.sendall(len(m).to_bytes(4, 'little') + bytes(4) + m); print('heard', s.recv(100))"
    )
    client = as_stranger(home, sys.executable, "-c", hello, str(socket_path(home)))
    # Too late for the end to be a quiet one, or not.
    quiet = client.stdout == "heard b''\n"
    assert quiet or "Broken pipe" in client.stderr or "reset" in client.stderr, client
    assert "another user" in log_of(home)
    home.ok("ls")


def serve_another_version(listener: socket.socket) -> None:
    """A daemon of a future moat: it says protocol 99 and knows hello and shutdown."""
    while True:
        peer = Wire.__new__(Wire)
        peer.sock = listener.accept()[0]
        hello = peer.receive()[0]
        peer.send({"type": "hello", "protocol": 99, "version": "9.9", "pid": os.getpid()})
        if hello["protocol"] == 99:
            request = peer.receive()[0]
            peer.send({"type": "result", "id": request["id"], "result": {}})
            sys.exit(42 if request["op"] == "shutdown" else 1)
        peer.sock.close()


def test_daemon_of_another_version(home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path(home)))
        listener.listen()
        other = multiprocessing.Process(target=serve_another_version, args=(listener,), daemon=True)
        other.start()
    said = home.fails("ls")
    assert f"pid {other.pid}" in said
    assert "protocol 99" in said
    assert "moat serve --stop" in said
    done = home.run("serve", "--stop")
    assert (done.returncode, done.stderr) == (0, f"moat: the daemon (pid {other.pid}) has ended\n")
    other.join(60)
    assert other.exitcode == 42
    home.ok("ls")


def test_client_of_another_version(home: Home) -> None:
    other = wire(home, protocol=99)
    assert other.hello["protocol"] == 1
    assert other.hello["pid"] == home.daemon_pid()
    said = other.receive()[0]
    assert (said["type"], said["error"]["kind"]) == ("error", "invalid")
    with pytest.raises(EOFError):
        other.receive()


def test_many_clients_start_one_daemon(home: Home) -> None:
    clients = [home.start("ls") for _ in range(20)]
    assert [c.wait(60) for c in clients] == [0] * 20
    assert daemons(home) == [home.daemon_pid()]
    assert log_of(home).count(" serves ") == 1


def test_daemon_of_a_killed_client_is_as_good(home: Home) -> None:
    """Clients are killed while their daemons start: the next one's own daemon may come too late."""
    runtime = socket_path(home).parent
    with open(runtime / "daemon.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the daemons wait here
        for number in range(1, 6):
            client = home.start("ls", stderr=subprocess.PIPE)
            until(lambda n=number: len(daemons(home)) == n, "a daemon for each client")
            if number < 5:
                kill(client.pid)
                client.wait(30)
    said = client.communicate(timeout=60)[1]
    assert client.returncode == 0, said
    until(lambda: daemons(home) == [home.daemon_pid()], "one daemon is left")


def test_second_daemon_is_refused(home: Home) -> None:
    home.ok("ls")
    assert "another daemon is using" in home.fails("serve", timeout=20)
    home.ok("serve", "--background")  # harmless: it runs already
    assert len(daemons(home)) == 1


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("idle_exit: [", "config.yaml"),
        ("idle_exit: soon", "idle_exit"),
        ("idle_exits: 3", "idle_exits"),
        ("- a\n- b\n", "config.yaml"),
        ("accelerator: warp", "accelerator"),
        ("\x00\xff", "config.yaml"),
    ],
)
def test_garbage_configuration_is_explained(home: Home, config: str, names: str) -> None:
    (home.dir / "config.yaml").write_bytes(config.encode("latin-1"))
    said = home.fails("ls")
    assert "config.yaml" in said
    assert names in said
    assert not daemons(home)


def test_doctor_works_with_a_garbage_configuration(home: Home) -> None:
    config = home.dir / "config.yaml"
    config.write_text("idle_exits: 3\n")
    done = home.run("doctor", "--json")
    assert done.returncode == 1, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["qemu"]["state"] == "ok"
    assert checks["config"]["state"] == "missing"
    assert f"{config}: configuration: unknown member: idle_exits" in checks["config"]["detail"]
    # The daemon that said so does nothing else, and leaves at once.
    assert "idle_exits" in home.fails("image", "ls")
    until(lambda: not daemons(home), "the daemon ends")
    config.write_text("idle_exit: 0\n")
    home.ok("ls")


# ---- clients that break the rules ----


@pytest.fixture(scope="module")
def served(images: None) -> Iterator[Home]:
    home = Home()
    home.sandbox = home.up()  # type: ignore[attr-defined]
    yield home
    home.close()


def raw(head: int, body: int, rest: bytes = b"") -> bytes:
    return struct.pack("<II", head, body) + rest


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (raw(4_194_305, 0), "limit"),
        (raw(2, 1_048_577), "limit"),
        (raw(0xFFFFFFFF, 0xFFFFFFFF), "limit"),
        (raw(1, 0, b"1"), "limit"),
        (raw(7, 0, b"garbage"), "invalid"),
        (raw(2, 0, b"[]"), "invalid"),
        (raw(2, 0, b"{}"), "invalid"),
        (raw(13, 0, b'{"type":"\xff\xfe"}'), "invalid"),
        (raw(40_000, 0, b'{"a":' + b"[" * 39_995), "invalid"),
        (raw(45, 0, b'{"type":"request","id":0,"op":"ls","args":{}}'), "invalid"),
        (raw(47, 0, b'{"type":"request","id":"7","op":"ls","args":{}}'), "invalid"),
    ],
)
def test_broken_frames_end_the_connection(served: Home, sent: bytes, kind: str) -> None:
    bad = wire(served)
    bad.sock.sendall(sent)
    said = bad.receive()[0]
    assert said["type"] == "error"
    assert "id" not in said
    assert said["error"]["kind"] == kind, said
    with pytest.raises((EOFError, ConnectionResetError)):
        bad.receive()
    assert served.ok("exec", served.sandbox, "--", "echo", "fine") == "fine"


def test_silence_and_half_frames_hold_nobody_up(served: Home) -> None:
    quiet = [wire(served) for _ in range(20)]
    for one in quiet:
        one.sock.sendall(raw(100, 0, b'{"type":'))
    assert served.ok("exec", served.sandbox, "--", "echo", "fine") == "fine"


@pytest.mark.parametrize(
    ("op", "args", "more", "says"),
    [
        ("dance", {}, {}, 'no operation "dance"'),
        ("ls", {"sandboxen": "x"}, {}, "sandboxen"),
        ("ls", {"sandbox": 5}, {}, "sandbox"),
        ("ls", {"sandbox": "dead"}, {}, "no sandbox dead"),
        ("ls", [], {}, "args"),
        ("ls", {}, {"input": "stream"}, "takes no input"),
        ("exec", {"argv": ["true"]}, {}, "sandbox"),
        ("exec", {"sandbox": "SANDBOX"}, {}, "argv"),
        ("exec", {"sandbox": "SANDBOX", "argv": []}, {}, "argv"),
        ("exec", {"sandbox": "SANDBOX", "argv": ["a", 5]}, {}, "argv"),
        ("exec", {"sandbox": "SANDBOX", "argv": ["true"], "vm": "x"}, {}, "x"),
        ("exec", {"sandbox": "SANDBOX", "argv": ["true"], "env": {"A=B": "1"}}, {}, "env"),
        ("exec", {"sandbox": "SANDBOX", "argv": ["true"], "timeout": -1}, {}, "timeout"),
        ("read", {"sandbox": "SANDBOX", "path": ""}, {}, "path"),
        ("up", {"spec": {"vms": []}}, {}, "vms"),
        ("up", {"spec": TINY, "labels": {"a": 1}}, {}, "labels.a"),
        ("rm", {}, {}, "sandboxes"),
        ("rm", {"sandboxes": "SANDBOX"}, {}, "sandboxes"),
        ("rm", {"labels": {}}, {}, "labels"),
    ],
)
def test_wrong_requests_are_answered_and_harmless(
    served: Home, op: str, args: Any, more: dict[str, Any], says: str
) -> None:
    client = wire(served)
    filled = json.loads(json.dumps(args).replace("SANDBOX", served.sandbox))
    said = client.final(client.request(op, filled, **more))
    assert said["type"] == "error", said
    assert says in said["error"]["message"]
    # The connection goes on.
    assert client.final(client.request("ls", {}))["result"]["sandboxes"][0]["id"] == served.sandbox


def until_closed(client: Wire) -> None:
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            client.receive()


def test_id_in_use_ends_the_connection(served: Home) -> None:
    client = wire(served)
    client.request("exec", {"sandbox": served.sandbox, "argv": ["sleep", "60"]})
    client.next_id -= 1
    client.request("ls", {})
    said = client.receive()[0]
    assert "in use" in said["error"]["message"]
    assert "id" not in said
    until_closed(client)


def test_more_requests_than_allowed(served: Home) -> None:
    client = wire(served)
    for _ in range(256):
        client.request("logs", {"sandbox": served.sandbox, "kind": "qemu", "follow": True})
    client.request("ls", {})
    while (said := client.receive()[0])["type"] == "data":
        pass
    assert "too many" in said["error"]["message"]
    assert "id" not in said
    until_closed(client)
    assert served.ok("exec", served.sandbox, "--", "echo", "fine") == "fine"


def test_input_beyond_the_window_ends_the_connection(served: Home) -> None:
    client = wire(served)
    wanted = client.request(
        "exec", {"sandbox": served.sandbox, "argv": ["sleep", "60"]}, input="stream"
    )
    piece = bytes(65536)
    # The guest takes in a little before nobody reads; after that there is no more credit.
    with contextlib.suppress(OSError):
        for _ in range(client.hello["window"] // len(piece) + 72):
            client.send({"type": "data", "id": wanted}, piece)
    said = client.receive()[0]
    while said["type"] == "credit":
        said = client.receive()[0]
    assert said["error"]["kind"] == "limit"
    assert "id" not in said


def test_frames_for_unknown_requests_are_ignored(served: Home) -> None:
    client = wire(served)
    for kind in ("data", "eof", "cancel", "resize", "signal"):
        client.send({"type": kind, "id": 99}, b"x" if kind == "data" else b"")
    client.send({"type": "cancel"})
    assert client.final(client.request("ls", {}))["type"] == "result"


def test_input_in_tiny_pieces_arrives_whole(served: Home) -> None:
    client = wire(served)
    wanted = client.request(
        "exec", {"sandbox": served.sandbox, "argv": ["wc", "-c"]}, input="stream"
    )
    for _ in range(3000):
        client.send({"type": "data", "id": wanted}, b"x")
    client.send({"type": "eof", "id": wanted})
    output = b"".join(blob for message, blob in client.answers(wanted))
    assert output.strip() == b"3000"


def test_request_timeout(served: Home) -> None:
    client = wire(served)
    wanted = client.request(
        "exec", {"sandbox": served.sandbox, "argv": ["sleep", "4321"]}, timeout=0.5
    )
    assert client.final(wanted)["error"]["kind"] == "timeout"
    until(lambda: "4321" not in in_guest(served, served.sandbox, "ps"), "the command is killed")


def test_timing_is_told_to_those_who_ask(served: Home) -> None:
    client = wire(served)
    began = time.monotonic()
    slow = {"sandbox": served.sandbox, "argv": ["sleep", "0.3"]}
    timing = client.final(client.request("exec", slow, timing=True))["timing"]
    whole = (time.monotonic() - began) * 1e6
    assert timing["guest_us"] >= 300_000
    assert timing["daemon_us"] > 0
    assert timing["daemon_us"] + timing["guest_us"] <= whole
    refused = client.final(client.request("read", {"sandbox": "none"}, timing=True))
    assert refused["type"] == "error"
    assert refused["timing"]["guest_us"] == 0
    assert "timing" not in client.final(client.request("exec", slow))


def test_cancelled_exec_kills_its_tree(served: Home) -> None:
    client = wire(served)
    script = "sleep 4322 & (sleep 4322 & sleep 4322)"
    wanted = client.request("exec", {"sandbox": served.sandbox, "argv": ["sh", "-c", script]})
    until(lambda: in_guest(served, served.sandbox, "ps").count("sleep 4322") >= 3, "it runs")
    client.send({"type": "cancel", "id": wanted})
    assert client.final(wanted)["error"]["kind"] == "cancelled"
    assert "sleep 4322" not in in_guest(served, served.sandbox, "ps | grep -v grep")


# ---- load ----


def stands_still(look: Callable[[], str]) -> bool:
    """Whether it has begun, and looks the same each time."""
    had = look()
    return had.isdigit() and all(look() == had for _ in range(5))


def test_client_that_stops_reading(served: Home) -> None:
    pid = served.daemon_pid()
    before = status_kb(pid, "VmRSS")
    deaf = wire(served)
    pieces = 3000
    script = (
        f"echo $$ >/tmp/deaf-pid; i=0; while [ $i -lt {pieces} ] && head -c 65536 /dev/zero; "
        "do i=$((i+1)); echo $i >/tmp/.deaf; mv /tmp/.deaf /tmp/deaf; done"
    )
    deaf.request("exec", {"sandbox": served.sandbox, "argv": ["sh", "-c", script]})

    def written() -> str:
        return in_guest(served, served.sandbox, "cat /tmp/deaf 2>&1 || true")

    until(lambda: stands_still(written), "nothing more is written", 120)
    # Answers pile up behind the output as well; few enough that the socket takes the questions.
    for _ in range(30):
        deaf.request("dance", {})
    assert served.ok("exec", served.sandbox, "--", "echo", "fine") == "fine"
    assert int(written()) < pieces, "no back-pressure"
    assert status_kb(pid, "VmRSS") < before + 8_000
    lives = "kill -0 $(cat /tmp/deaf-pid) 2>/dev/null && echo lives || echo dead"
    assert in_guest(served, served.sandbox, lives) == "lives"
    deaf.sock.close()
    until(lambda: in_guest(served, served.sandbox, lives) == "dead", "it dies")
    assert int(written()) < pieces


def finish_all(client: Wire, wanted: dict[int, bytes]) -> None:
    """Each of these execs ends well and with its own output."""
    got: dict[int, bytes] = dict.fromkeys(wanted, b"")
    open_ones = set(wanted)
    while open_ones:
        message, blob = client.receive()
        if message["type"] == "data":
            got[message["id"]] += blob
        elif message["type"] in ("result", "error"):
            assert message["type"] == "result", message
            assert message["result"]["exit_code"] == 0
            open_ones.remove(message["id"])
    assert got == wanted


def many_execs(home: Home, client: Wire, count: int, tag: str) -> dict[int, bytes]:
    wanted = {}
    for i in range(count):
        text = f"{tag}-{i}"
        args = {"sandbox": home.sandbox, "argv": ["sh", "-c", f"sleep 1; echo {text}"]}
        wanted[client.request("exec", args)] = text.encode() + b"\n"
    return wanted


def test_200_execs_on_one_connection(served: Home) -> None:
    client = wire(served)
    finish_all(client, many_execs(served, client, 200, "one"))


def test_200_execs_on_20_connections(served: Home) -> None:
    clients = [wire(served) for _ in range(20)]
    running = [(c, many_execs(served, c, 10, f"c{i}")) for i, c in enumerate(clients)]
    for client, wanted in running:
        finish_all(client, wanted)


def test_more_operations_than_allowed(served: Home) -> None:
    """Who looks, or ends something, still gets in."""
    crowd = [wire(served) for _ in range(3)]
    follow = {"sandbox": served.sandbox, "follow": True}
    for client in crowd:
        for _ in range(200):
            client.request("logs", follow)

    def full() -> bool:
        if "running 512 operations" in served.run("image", "ls").stderr:
            return True
        crowd[0].request("logs", follow)  # the look may have taken the last place from one of them
        return False

    until(full, "it is full")
    assert served.sandbox in served.ok("ls")
    served.ok("info")
    assert "no sandbox nobody" in served.fails("rm", "nobody")
    for client in crowd:
        client.sock.close()
    until(lambda: served.run("image", "ls").returncode == 0, "there is room again")


def test_news_for_who_does_not_read_hold_nobody_up(home: Home) -> None:
    recipes = home.dir / "data" / "recipes"
    recipes.mkdir(parents=True)
    tell = "seq -f 'progress %.0f 20000 of a very long story' 20000"
    (recipes / "chatty.sh").write_text(f"#!/bin/sh\n{tell}\necho that was all >&2\nexit 1\n")
    home.env["MOAT_DATA_DIR"] = str(home.dir / "data")
    silent = wire(home)
    silent.request("image.build", {"image": "chatty"})
    assert "that was all" in home.fails("image", "build", "chatty")


def test_more_connections_than_allowed(served: Home) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(140):
            one = crowd.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(20)
            while one.connect_ex(str(served.dir / "run" / "moat.sock")) == errno.EAGAIN:
                time.sleep(0.02)  # the daemon has not accepted the others yet
        assert one.recv(1) == b"", "the last one is turned away"
    until(lambda: served.run("ls").returncode == 0, "there is room again")


def test_stopping_a_daemon_that_has_too_many_connections(home: Home) -> None:
    home.ok("serve", "--background")
    pid = home.daemon_pid()
    path = str(home.dir / "run" / "moat.sock")
    with contextlib.ExitStack() as crowd:
        for _ in range(128):
            client = crowd.enter_context(socket.socket(socket.AF_UNIX))
            while client.connect_ex(path) == errno.EAGAIN:
                time.sleep(0.02)
        urgent = Wire(home, urgent=True)
        refused = urgent.final(urgent.request("ls", {}))
        assert refused["error"]["kind"] == "busy", refused
        home.ok("serve", "--stop")
        until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended")
