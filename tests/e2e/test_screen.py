"""Screens: what is seen of a VM's desktop from outside it, and what reaches the desktop."""

from __future__ import annotations

import json
import random
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from desktop_image import SQUARE, Desk
from home import Home, Wire

from tools import until, wire

SHIFT, CTRL, ALT, DELETE, F5, BACK = 0xFFE1, 0xFFE3, 0xFFE9, 0xFFFF, 0xFFC2, 0x1008FF26


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    home = Home()
    try:
        made = Desk(home)
        until(
            lambda: (
                made.home.run("exec", made.sandbox, "test", "-s", "/run/target.log").returncode == 0
            ),
            "the window is there",
            120,
        )
        yield made
    finally:
        home.close()


def since(desk: Desk, before: int, kinds: tuple[str, ...]) -> list[list[Any]]:
    return [event for event in desk.log()[before:] if event[0] in kinds]


def reaches(desk: Desk, before: int, kinds: tuple[str, ...], wanted: list[list[Any]]) -> None:
    """What was sent arrives, and nothing else."""
    until(lambda: len(since(desk, before, kinds)) >= len(wanted), f"{wanted} arrive")
    assert since(desk, before, kinds) == wanted


def text_of(desk: Desk, before: int) -> str:
    return "".join(event[1] for event in since(desk, before, ("key",))).replace("\r", "\n")


def test_the_picture(desk: Desk) -> None:
    assert desk.log()[0] == ["shown", 1920, 1080]
    width, height, pixels = desk.shot("--settle", "10")
    assert (width, height) == (1920, 1080)

    def colour(x: int, y: int) -> int:
        return pixels[(y * width + x) * 3]

    for row in (1, 2, 5, 12):
        for column in (3, 4, 9):
            black = (column + row) % 2 == 0
            at = (column * SQUARE + SQUARE // 2, row * SQUARE + SQUARE // 2)
            assert colour(*at) == (0 if black else 255), at
    small = desk.shot("--size=1366x768")
    assert small[:2] == (1366, 768)
    # A part of it as it is, in pixels of the picture before.
    part = desk.shot("--region=0,0,683,384")
    assert part[:2] == (960, 540)
    assert part[2][: 960 * 3] == pixels[: 960 * 3]
    assert desk.shot("--size=100x50", "--region=0,0,960,540", "--of=1920x1080")[:2] == (100, 50)


def test_clicks(desk: Desk) -> None:
    """In pixels of the last picture, which was smaller than the screen."""
    desk.shot("--size=1366x768")
    before = len(desk.log())
    desk.input("click", "683", "384")
    reaches(desk, before, ("down", "up"), [["down", 1, 960, 540], ["up", 1, 960, 540]])
    assert desk.input("where") == "683 384"
    before = len(desk.log())
    desk.input("--of=1920x1080", "move", "1919", "1079")
    reaches(desk, before, ("at",), [["at", 1919, 1079]])
    assert desk.input("where") == "1365 767"
    before = len(desk.log())
    desk.input("--of=1920x1080", "--button=middle", "click", "0", "0")
    desk.input("--button=right", "click")
    desk.input("--of=1920x1080", "--count=2", "click", "300", "200")
    desk.input("--count=3", "click")
    corner, place = [0, 0], [300, 200]
    reaches(
        desk,
        before,
        ("down", "up"),
        [
            [what, button, *at]
            for button, at, count in ((2, corner, 1), (3, corner, 1), (1, place, 5))
            for _ in range(count)
            for what in ("down", "up")
        ],
    )
    before = len(desk.log())
    desk.input("--button=back", "click")
    reaches(desk, before, ("key",), [["key", "", BACK]])


def test_drag_and_wheel(desk: Desk) -> None:
    before = len(desk.log())
    desk.input("--of=1920x1080", "drag", "100", "100", "500", "300")
    got = until(lambda: since(desk, before, ("down", "up", "at")), "it is dragged")
    got = until(
        lambda: (e := since(desk, before, ("down", "up", "at")))[-1][0] == "up" and e, "it ends"
    )
    assert got[:2] == [["at", 100, 100], ["down", 1, 100, 100]]
    assert got[-2:] == [["at", 500, 300], ["up", 1, 500, 300]]
    assert len(got) > 6  # it goes through places between
    before = len(desk.log())
    desk.input("scroll", "down", "3")
    desk.input("scroll", "up")
    reaches(desk, before, ("down",), [["down", 5, 500, 300]] * 3 + [["down", 4, 500, 300]])
    before = len(desk.log())
    desk.input("scroll", "right", "2")
    reaches(desk, before, ("key", "down"), [["key", "", SHIFT]] + [["down", 5, 500, 300]] * 2)
    before = len(desk.log())
    desk.input("--of=1920x1080", "down", "10", "10")
    desk.input("--of=1920x1080", "up", "20", "20")
    reaches(desk, before, ("down", "up"), [["down", 1, 10, 10], ["up", 1, 20, 20]])


def test_keys(desk: Desk) -> None:
    before = len(desk.log())
    desk.input("key", "ctrl+alt+Delete F5  shift+a")
    reaches(
        desk,
        before,
        ("key",),
        [
            *(["key", "", CTRL], ["key", "", ALT], ["key", "\x7f", DELETE], ["key", "", F5]),
            *(["key", "", SHIFT], ["key", "A", ord("A")]),
        ],
    )
    before = len(desk.log())
    desk.input("--keys=ctrl", "click")
    reaches(desk, before, ("key",), [["key", "", CTRL]])


def test_every_character(desk: Desk) -> None:
    text = "".join(map(chr, range(32, 127))) + "\t\n"
    before = len(desk.log())
    desk.input("type", "-", input=text)
    until(lambda: len(text_of(desk, before)) >= len(text), "all of it arrives")
    assert text_of(desk, before) == text


def test_two_thousand_characters(desk: Desk) -> None:
    rng = random.Random(22)
    text = "".join(rng.choice([*map(chr, range(32, 127)), "\n"]) for _ in range(2000))
    before = len(desk.log())
    desk.input("type", "-", input=text, timeout=600)
    until(lambda: len(text_of(desk, before)) >= len(text), "all of it arrives", 60)
    assert text_of(desk, before) == text


def test_two_who_type_take_turns(desk: Desk) -> None:
    before = len(desk.log())
    one = desk.home.start("input", desk.sandbox, "type", "a" * 200)
    two = desk.home.start("input", desk.sandbox, "type", "b" * 200)
    assert one.wait(120) == two.wait(120) == 0
    until(lambda: len(text_of(desk, before)) >= 400, "all of it arrives")
    assert text_of(desk, before) in ("a" * 200 + "b" * 200, "b" * 200 + "a" * 200)


def test_what_is_cancelled_lets_go(desk: Desk) -> None:
    """No key stays down when a client hangs up in the middle."""
    before = len(desk.log())
    client = wire(desk.home)
    client.request(
        "input",
        {"sandbox": desk.sandbox, "actions": [{"do": "key", "keys": "ctrl+shift", "hold": 60}]},
    )
    until(lambda: len(since(desk, before, ("key",))) == 2, "they are down")
    client.sock.close()
    desk.input("type", "a")
    reaches(desk, before, ("key",), [["key", "", CTRL], ["key", "", SHIFT], ["key", "a", 97]])


def test_refusals(desk: Desk) -> None:
    before = len(desk.log())
    box = desk.sandbox
    desk.shot("--size=1366x768")
    for words, said in (
        (["click", "1366", "0"], "1366,0 is outside the picture, which has 1366x768 pixels"),
        (["key", "ctrl+hyper"], 'no key is called "hyper"'),
        (["type", "gr\u00fcn"], 'the character "\u00fc" (U+00FC) is not on a US keyboard'),
        (["jump"], '"jump" is none of'),
        (["click", "1"], "a place is X Y"),
    ):
        assert said in desk.home.fails("input", box, *words)
    assert "is no part of a picture" in desk.home.fails(
        "screenshot", "--region", "0,0,1367,10", box
    )
    for text, said in (("a\0b", "a NUL character"), ("x" * 2**21, "more than 1048576 bytes")):
        assert said in desk.home.fails("input", box, "type", "-", input=text)
    # All or nothing: the second action is wrong, so the first is not done.
    client = wire(desk.home)
    bad = [{"do": "type", "text": "x"}, {"do": "click", "count": 9}]
    final = client.final(client.request("input", {"sandbox": box, "actions": bad}))
    assert final["error"]["message"] == "actions[1]: count: is 1, 2 or 3"
    assert desk.log()[before:] == []


class Viewer:
    """A VNC client that asks for raw pixels, over the protocol's `screen`."""

    def __init__(self, desk: Desk, **args: Any) -> None:
        self.wire: Wire = wire(desk.home)
        args = {"sandbox": desk.sandbox, **args}
        self.id = self.wire.request("screen", args, input="stream")
        self.got = b""
        assert self.take(12) == b"RFB 003.008\n"
        self.send(b"RFB 003.008\n")
        assert self.take(2) == b"\1\1"
        self.send(b"\1")
        assert self.take(4) == bytes(4)
        self.send(b"\0")  # to be the only viewer
        self.width, self.height = struct.unpack(">HH", self.take(4))
        self.take(16)
        self.take(struct.unpack(">I", self.take(4))[0])

    def take(self, count: int) -> bytes:
        while len(self.got) < count:
            message, blob = self.wire.receive()
            assert message["type"] in ("data", "credit"), message
            self.got += blob
        taken, self.got = self.got[:count], self.got[count:]
        return taken

    def send(self, data: bytes) -> None:
        self.wire.send({"type": "data", "id": self.id}, data)

    def row(self) -> bytes:
        """Asks for 16 pixels, and reads what comes, which may be more."""
        self.send(struct.pack(">BBHi", 2, 0, 1, 0))
        self.send(struct.pack(">BBHHHH", 3, 0, 0, 0, 16, 1))
        self.take(1)
        pixels = b""
        for _ in range(struct.unpack(">xH", self.take(3))[0]):
            _, _, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
            assert encoding == 0
            pixels += self.take(width * height * 4)
        return pixels


def screen_of(desk: Desk) -> Any:
    return json.loads(desk.home.ok("ls", "--json", desk.sandbox))["sandboxes"][0]


def test_viewers(desk: Desk) -> None:
    """They look side by side; only who asks for control has it, and that is recorded."""
    before = len(desk.log())
    assert "touched" not in screen_of(desk)
    first, second = Viewer(desk), Viewer(desk)
    assert (first.width, first.height) == (1920, 1080)
    key = [struct.pack(">BBHI", 4, down, 0, ord("q")) for down in (1, 0)]
    click = [struct.pack(">BBHH", 5, buttons, 30, 40) for buttons in (0, 1, 0)]
    for piece in (*key, *click):
        first.send(piece)
    for viewer in (first, second):  # the second did not send the first away
        assert viewer.row()
    assert screen_of(desk)["vms"][0]["screen"] == {"viewers": 2, "controllers": 0}
    assert "touched" not in screen_of(desk)
    third = Viewer(desk, control=True)
    third.row()
    for piece in (*key, *click):
        third.send(piece)
    third.row()
    until(lambda: len(since(desk, before, ("key", "down", "up"))) == 3, "they arrive")
    typed, *clicks = since(desk, before, ("key", "down", "up"))
    assert typed == ["key", "q", ord("q")]
    assert [event[:2] for event in clicks] == [["down", 1], ["up", 1]]
    # QEMU's VNC server rounds down.
    assert all(30 - x in (0, 1) and 40 - y in (0, 1) for _, _, x, y in clicks)
    state = screen_of(desk)
    assert state["vms"][0]["screen"] == {"viewers": 3, "controllers": 1}
    assert [(t["what"], t["by"]) for t in state["touched"]] == [("controlled", "viewer")]
    # What is pressed when a viewer leaves does not stay so.
    before = len(desk.log())
    third.send(click[1])
    until(lambda: since(desk, before, ("down",)), "the button is down")
    for viewer in (first, second, third):
        viewer.wire.sock.close()
    until(lambda: "screen" not in screen_of(desk)["vms"][0], "they have gone")
    until(lambda: since(desk, before, ("up",)), "the button goes up")
    # Nobody knows where the viewer left the pointer.
    assert "has not moved" in desk.home.fails("input", desk.sandbox, "where")


def arrived(desk: Desk, before: int, text: str) -> bool:
    return text_of(desk, before) == text


class Visitor:
    """A VNC viewer at the port of `moat screen`."""

    def __init__(self, port: int, password: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        assert self.take(12) == b"RFB 003.008\n"
        self.sock.sendall(b"RFB 003.008\n")
        assert self.take(2) == b"\1\2"
        self.sock.sendall(b"\2")
        key = bytes(int(f"{letter:08b}"[::-1], 2) for letter in password.encode())
        cipher = ["-des-ecb", "-nopad", "-provider", "legacy", "-provider", "default"]
        answer = subprocess.run(
            ["openssl", "enc", *cipher, "-K", key.hex()],
            input=self.take(16),
            capture_output=True,
            check=True,
        )
        self.sock.sendall(answer.stdout)
        self.let_in = self.take(4) == bytes(4)

    def take(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            piece = self.sock.recv(count - len(got))
            assert piece, "it has hung up"
            got += piece
        return got


def test_a_port_for_viewers(desk: Desk) -> None:
    """`moat screen` lets in who knows the password, one viewer after the other, until it ends."""
    before = len(desk.log())
    shown = desk.home.start(
        "screen", "--control", desk.sandbox, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert shown.stdout
    address, _, password = shown.stdout.readline().decode().split()
    port = int(address.removeprefix("127.0.0.1:"))
    for _ in range(25):  # who says nothing, such as a scan of ports, has guessed nothing
        socket.create_connection(("127.0.0.1", port)).close()
    assert not Visitor(port, "x" * 8).let_in
    for typed in ("m", "mn"):
        visitor = Visitor(port, password)
        assert visitor.let_in
        visitor.sock.sendall(b"\0")
        assert struct.unpack(">HH", visitor.take(4)) == (1920, 1080)
        visitor.sock.sendall(
            b"".join(struct.pack(">BBHI", 4, d, 0, ord(typed[-1])) for d in (1, 0))
        )
        until(partial(arrived, desk, before, typed), f"{typed} is typed")
        visitor.sock.close()
    shown.send_signal(signal.SIGINT)
    _, said = shown.communicate(timeout=60)
    assert shown.returncode == 0
    assert said.decode().count("a viewer had a wrong password") == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_viewer_that_talks_nonsense(desk: Desk) -> None:
    viewer = Viewer(desk)
    viewer.send(b"\x77garbage")
    final = viewer.wire.final(viewer.id)
    assert "unknown message, of type 119" in final["error"]["message"]


def test_a_viewer_that_does_not_read(desk: Desk) -> None:
    """Nobody else notices, and the daemon keeps nothing for it."""
    viewer = Viewer(desk)
    for _ in range(200):
        viewer.send(struct.pack(">BBHHHH", 3, 0, 0, 0, 1920, 1080))
    before = len(desk.log())
    desk.input("type", "still here")
    until(lambda: text_of(desk, before) == "still here", "it arrives")
    status = Path(f"/proc/{desk.home.daemon_pid()}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) < 500_000
    viewer.wire.sock.close()
    until(lambda: "screen" not in screen_of(desk)["vms"][0], "it has gone")


def test_too_many_viewers(desk: Desk) -> None:
    viewers = [Viewer(desk) for _ in range(16)]
    one_more = wire(desk.home)
    final = one_more.final(one_more.request("screen", {"sandbox": desk.sandbox}, input="stream"))
    assert final["error"]["kind"] == "busy"
    for viewer in viewers:
        viewer.wire.sock.close()
    until(lambda: "screen" not in screen_of(desk)["vms"][0], "they have gone")


def test_inspects_own_computer_tool(desk: Desk, tmp_path: Path) -> None:
    """Every action of it, in an eval whose model is a script."""
    inspect = [sys.executable, "-m", "inspect_ai", "eval"]
    options = ["--display", "plain", "--log-dir", str(tmp_path), "--log-format", "json"]
    done = subprocess.run(
        [*inspect, "desktop.py", "-T", f"image={desk.image}", *options],
        cwd=Path(__file__).parents[1] / "python" / "evals",
        env=desk.home.env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    (file,) = tmp_path.glob("*.json")
    log = json.loads(file.read_text())
    assert log["status"] == "success", done.stdout
    assert log["samples"][0]["scores"]["reached"]["value"] == 1, log["samples"][0]["scores"]


def test_firmware_and_text_console(desk: Desk) -> None:
    """A guest without a driver for the tablet: keys reach it, the pointer does not."""
    home = desk.home
    vm = {"source": "tiny", "ram_mb": 128, "vcpus": 1, "vga": "std"}
    box = home.ok("up", home.spec({"vms": [vm], "networks": "none"}), timeout=600)
    home.ok("input", box, "key", "Return")
    assert "has not started its tablet" in home.fails("input", box, "click", "1", "1")
    home.ok("input", box, "up")  # to let a button go takes no driver
    plain = home.up()
    said = home.fails("screenshot", plain, str(home.dir / "none.png"))
    assert "has no display: set `vga: std`" in said
    assert "has no display" in home.fails("input", plain, "key", "a")
    home.ok("rm", box, plain)


def test_the_end_of_a_vm_ends_its_screen(desk: Desk) -> None:
    """Comes last."""
    viewer = Viewer(desk)
    pid = screen_of(desk)["vms"][0]["pid"]
    desk.home.ok("rm", desk.sandbox)
    final = viewer.wire.final(viewer.id)
    assert final["type"] == "error"
    assert desk.sandbox in final["error"]["message"]
    assert pid
