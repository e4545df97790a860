"""The web console and those who have no business there."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from console import Console, console
from home import Home
from walls import check_row, rows
from web_socket import BINARY, PING, TEXT, Refused, WebSocket, ask, get

from tools import until

NO_DAEMON, WRONG_TOKEN, WRONG, GOING = 4000, 4001, 1008, 1001


@pytest.fixture(scope="module")
def empty() -> Iterator[Home]:
    made = Home()
    yield made
    made.close()


@pytest.fixture(scope="module")
def running(empty: Home) -> Iterator[Console]:
    with console(empty) as made:
        yield made
        # Whatever was done to it: it serves its user, and the daemon knows nothing of it.
        assert made.enter().request("ls")["result"] == {"sandboxes": []}


def test_the_process_is_as_the_table_says(running: Console) -> None:
    table = {row["process"]: row for row in rows("Which processes are there?")}
    check_row(running.process.pid, "moat-web", table["moat-web"], table["holder"])


def files_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_the_page_and_its_headers(running: Console) -> None:
    status, answer = get(running.port)
    assert status == 200
    assert running.token not in answer
    head = answer.split("\r\n\r\n")[0].lower()
    for line in (
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
    ):
        assert line in head.split("\r\n")
    policy = head.split("content-security-policy: ")[1].split("\r\n")[0]
    assert "default-src 'none'" in policy
    assert f"connect-src 'self' ws://127.0.0.1:{running.port};" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "access-control" not in head
    for name in ("localhost", "[::1]"):
        assert get(running.port, host=f"{name}:{running.port}")[0] == 200
    assert get(running.port, "/../../etc/passwd")[0] == 404
    assert get(running.port, "/%2e%2e/app.js")[0] == 404
    assert get(running.port, "/socket")[0] == 426


def test_all_of_it_is_small(running: Console) -> None:
    """What is sent for all files of the page, compressed."""
    page = Path(__file__).parents[2] / "src" / "web" / "page"
    names = ["/"] + [f"/{p.relative_to(page)}" for p in page.rglob("*.*") if p.name != "index.html"]
    total = 0
    for name in names:
        status, answer = get(running.port, name)
        if not name.endswith(".md"):
            assert status == 200, name
        total += int(answer.lower().split("content-length: ")[1].split("\r\n")[0])
    assert total < 300_000


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.:PORT"]
)
def test_a_name_that_was_rebound(running: Console, host: str) -> None:
    host = host.replace("PORT", str(running.port))
    assert get(running.port, host=host)[0] == 421
    # Such a page has the origin that it names.
    with pytest.raises(Refused) as refused:
        WebSocket(running.port, host=host, origin=f"http://{host}")
    assert refused.value.status == 421


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:PORT"]
)
def test_a_page_of_somebody_else(running: Console, origin: str | None) -> None:
    origin = origin and origin.replace("PORT", str(running.port))
    with pytest.raises(Refused) as refused:
        WebSocket(running.port, origin=origin)
    assert refused.value.status == 403
    if origin is not None:
        assert get(running.port, more=f"\nOrigin: {origin}")[0] == 403


def test_other_requests(running: Console) -> None:
    host = f"Host: 127.0.0.1:{running.port}"
    assert ask(running.port, f"POST / HTTP/1.1\n{host}")[0] == 405
    assert ask(running.port, f"DELETE / HTTP/1.1\n{host}")[0] == 405
    assert ask(running.port, f"GET / HTTP/1.1\n{host}\nContent-Length: 4\n\nabcd")[0] == 400
    assert ask(running.port, f"GET / HTTP/1.1\n{host}\nTransfer-Encoding: chunked")[0] == 400
    assert ask(running.port, f"GET / HTTP/1.1\n{host}\n{host}")[0] == 400
    assert ask(running.port, "GET / HTTP/1.1")[0] == 421
    assert ask(running.port, f"GET / HTTP/1.1\n{host}\nX: " + "a" * 9000)[0] == 431
    assert ask(running.port, f"GET / HTTP/1.1\n{host}" + "\nX: y" * 100)[0] == 431


@pytest.mark.parametrize("token", ["", "0" * 32, 7, None, "TOKEN0", "TOKE"])
def test_a_wrong_token(running: Console, token: object) -> None:
    if isinstance(token, str):
        token = token.replace("TOKEN", running.token).replace("TOKE", running.token[:-1])
    before = running.enter()
    connections = before.request("info")["result"]["connections"]
    stranger = WebSocket(running.port)
    stranger.say(token=token)
    assert stranger.closed() == WRONG_TOKEN
    assert before.request("info")["result"]["connections"] == connections


def test_who_says_something_else_first(running: Console) -> None:
    stranger = WebSocket(running.port)
    stranger.frame({"type": "hello", "protocol": 1, "client": "test", "person": "test"})
    assert stranger.closed() == WRONG_TOKEN
    stranger = WebSocket(running.port)
    stranger.send(TEXT, b'{"token":"' + b"a" * 600 + b'"}')
    assert stranger.closed() == WRONG
    stranger = WebSocket(running.port)
    stranger.send(TEXT, b"not JSON")
    assert stranger.closed() == WRONG


def test_messages_that_break_the_rules(running: Console) -> None:
    for opcode, payload, how in (
        (TEXT, b"{}", {"masked": False}),
        (3, b"", {}),
        (PING, b"a" * 126, {}),
        (0, b"", {}),
        (BINARY, b"short", {}),
        (BINARY, b"\xff" * 64, {}),
        (BINARY, b"\x02\0\0\0\0\0\0\0[]", {}),
        (BINARY, b"\x02\0\0\0\0\0\0\0{}", {}),
    ):
        page = running.enter()
        page.send(opcode, payload, **how)
        assert page.closed() == WRONG
    page = running.enter()
    page.sock.sendall(b"\x82\xff" + b"\x7f" * 8 + b"mask")
    assert page.closed() == WRONG
    page = running.enter()
    page.frame({"type": "hello", "protocol": 1, "client": "test"})  # not said to be a person
    assert page.closed() == WRONG
    # In pieces is fine, with a ping between them.
    page = running.enter()
    text = json.dumps({"type": "request", "id": 1, "op": "ls"}).encode()
    message = len(text).to_bytes(4, "little") + bytes(4) + text
    page.send(BINARY, message[:20], last=False)
    page.send(PING, b"between")
    page.send(0, message[20:])
    assert page.receive() == (10, b"between")
    assert page.answer()["type"] == "result"


def test_what_a_page_may_not_do(running: Console) -> None:
    page = running.enter(act=True)
    for op, args in (
        ("up", {"spec": {"vms": [{"source": "tiny"}]}}),
        ("image.import", {"path": "/etc/passwd"}),
        ("image.export", {"image": "tiny", "path": "/tmp/a", "format": "raw"}),
        ("image.build", {"image": "tiny", "steps": {"copy": ["/etc/passwd", "/a"]}}),
        ("image.build", {"image": "/etc/passwd"}),
        ("gc", {}),
        ("shutdown", {}),
        ("pool", {"action": "clean"}),
        ("rm", {"all": True}),
        ("nothing", {}),
    ):
        answer = page.request(op, **args)
        assert answer["error"]["kind"] == "permission", (op, answer)
    assert page.request("rm", sandboxes=["nobody"])["error"]["kind"] == "not_found"
    page.say(act=False)
    for op in ("exec", "write", "restore", "fork", "rm", "snapshot", "net.forward"):
        assert page.request(op)["error"]["message"] == "the console only looks"
    assert page.request("ls")["type"] == "result"


def test_a_console_that_only_looks(empty: Home, running: Console) -> None:
    other = Home()
    try:
        with console(other, "--read-only") as looking:
            page = looking.enter(act=True)
            refused = page.request("rm", sandboxes=["nobody"])
            assert refused["error"]["kind"] == "permission"
    finally:
        other.close()


def test_those_who_take_their_time(running: Console) -> None:
    """They are hung up on, one after the other has had its time."""
    silent = socket.create_connection(("127.0.0.1", running.port), 120)
    slow = socket.create_connection(("127.0.0.1", running.port), 120)
    slow.sendall(b"GET / HT")
    untold = WebSocket(running.port)
    untold.sock.settimeout(120)
    assert silent.recv(1) == b""
    assert slow.recv(1) == b""
    assert untold.sock.recv(1) == b""


def test_a_stranger_who_reads_no_answers(running: Console) -> None:
    """What he sends is not kept: he cannot get rid of it until he is hung up on."""
    stranger = WebSocket(running.port)
    pings = (struct.pack(">BB", 0x80 | PING, 0x80 | 125) + bytes(4 + 125)) * 8192
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        stranger.sock.sendall(pings * 64)
    assert get(running.port)[0] == 200


def test_a_thousand_connections(running: Console) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    page = running.enter()
    crowd = []
    try:
        for _ in range(1000):
            crowd.append(socket.create_connection(("127.0.0.1", running.port), 60))
        # The user is served, and gets in.
        assert page.request("ls")["type"] == "result"
        assert running.enter().request("ls")["type"] == "result"
        assert get(running.port)[0] == 200
        assert files_of(running.process.pid) < 300
        with open(f"/proc/{running.process.pid}/status") as status:
            memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        assert memory < 200_000
    finally:
        for one in crowd:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_page_that_reads_nothing(running: Console) -> None:
    """What the daemon says waits in the daemon, not in the console."""
    page = running.enter()
    for _ in range(2000):
        page.frame({"type": "request", "id": 5, "op": "nothing", "args": {}})
    other = running.enter()
    assert other.request("ls")["type"] == "result"
    for _ in range(2000):
        assert page.answer()["error"]["kind"] == "permission"


def test_the_address_and_its_file(empty: Home, running: Console) -> None:
    note = empty.dir / "state" / "web.address"
    assert note.read_text() == running.url + "\n"
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    # Another one finds it, and leaves.
    assert empty.ok("web") == running.url
    assert empty.ok("web", "--url") == running.url
    with open(f"/proc/{running.process.pid}/cmdline") as arguments:
        assert running.token not in arguments.read()


def test_a_console_that_was_killed() -> None:
    home = Home()
    try:
        first = Console(home)
        first.end(signal.SIGKILL)
        done = home.run("web", "--url")  # what it has left means nothing
        assert (done.returncode, done.stdout) == (4, "")
        with console(home) as second:
            assert second.token != first.token
            stranger = WebSocket(second.port)
            stranger.say(token=first.token)
            assert stranger.closed() == WRONG_TOKEN
            page = second.enter()
            assert second.end() == 0
            with pytest.raises(EOFError):
                page.receive()
        assert (home.dir / "state" / "web.address").read_text() == ""
        assert home.ok("web", "--idle", "0.1").startswith("http://127.0.0.1:")
        assert "--url" in home.fails("web", "--url", "--port", "1")
    finally:
        home.close()


def starter(home: Home, script: str) -> None:
    """What `--open` starts in place of a browser."""
    path = home.dir / "bin" / "xdg-open"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    home.env["PATH"] = f"{path.parent}:{os.environ['PATH']}"


def test_a_browser_that_stays() -> None:
    """Where no browser runs yet, xdg-open may become it: the page comes, and the browser lives."""
    home = Home()
    note = home.dir / "opened"
    try:
        starter(home, f'echo $$ "$1" >{note}.new; mv {note}.new {note}; exec sleep 1000')
        with console(home, "--open") as one:
            until(note.exists, "it is opened")
            pid, page = note.read_text().split()
            assert one.url in Path(page).read_text()
            assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
            assert get(one.port)[0] == 200
            assert one.end() == 0
        os.kill(int(pid), signal.SIGKILL)  # it has outlived the console
        starter(home, "exit 3")
        with console(home, "--open") as one:
            assert one.process.stderr is not None
            assert "no browser could be started" in one.process.stderr.readline()
            assert get(one.port)[0] == 200
    finally:
        home.close()


def test_a_daemon_that_goes(running: Console) -> None:
    home = Home()
    try:
        with console(home) as one:
            page = one.enter()
            home.ok("serve", "--stop")
            assert page.closed() == NO_DAEMON
            late = WebSocket(one.port)
            late.say(token=one.token)
            assert late.closed() == NO_DAEMON
            home.ok("ls")
            until(lambda: one.enter().request("ls"), "it is there again")
    finally:
        home.close()
