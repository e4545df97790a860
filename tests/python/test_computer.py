"""The answers to Inspect's computer tool, without a VM: what each action asks of the daemon."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from inspect_moat._client import Reply
from inspect_moat._computer import PROGRAM, looks_for_program, run_program, runs_program
from inspect_moat._errors import MoatError
from inspect_moat._screen import VmScreen


class Connection:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.pointer: list[int] | None = [3, 4]
        self.fails: MoatError | None = None

    async def request(self, op: str, args: dict[str, Any], *, timeout: float) -> Reply:
        assert (args.pop("sandbox"), args.pop("vm"), args.pop("of")) == ("box", "desk", [1366, 768])
        self.asked.append((op, args))
        if self.fails:
            raise self.fails
        return Reply({"pointer": self.pointer}, body=b"PNG" if op == "screenshot" else b"")


class Screen(VmScreen):
    def __init__(self) -> None:
        self.fake = Connection()
        self._connection = self.fake  # type: ignore[assignment]
        self.sandbox_id, self.vm_name = "box", "desk"

    async def run(self, *arguments: str) -> dict[str, Any]:
        done = await run_program(self, list(arguments))
        assert done.success
        answer: dict[str, Any] = json.loads(done.stdout)
        assert list(answer) == ["output", "error", "base64_image"]
        return answer


AT = ("--coordinate", "10", "20")
SHOT = ("screenshot", {"settle": 3.0, "size": [1366, 768]})


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        (["screenshot"], None),
        (["mouse_move", *AT], {"do": "move", "x": 10, "y": 20}),
        (["left_click"], {"do": "click", "button": "left", "count": 1}),
        (["left_click", *AT], {"do": "click", "button": "left", "count": 1, "x": 10, "y": 20}),
        (["right_click"], {"do": "click", "button": "right", "count": 1}),
        (["middle_click"], {"do": "click", "button": "middle", "count": 1}),
        (["back_click"], {"do": "click", "button": "back", "count": 1}),
        (["forward_click"], {"do": "click", "button": "forward", "count": 1}),
        (["double_click"], {"do": "click", "button": "left", "count": 2}),
        (["triple_click"], {"do": "click", "button": "left", "count": 3}),
        (["left_mouse_down"], {"do": "down"}),
        (["left_mouse_up"], {"do": "up"}),
        (
            ["left_click_drag", "--start_coordinate", "1", "2", *AT],
            {"do": "drag", "button": "left", "x": 10, "y": 20, "from": [1, 2]},
        ),
        (
            ["scroll", "--scroll_amount", "5", "--scroll_direction", "left", *AT],
            {"do": "scroll", "direction": "left", "amount": 5, "x": 10, "y": 20},
        ),
        (["key", "--text", "ctrl+shift+t"], {"do": "key", "keys": "ctrl+shift+t"}),
        (["hold_key", "--text", "a", "--duration", "2"], {"do": "key", "keys": "a", "hold": 2.0}),
        (["type", "--text=-x --y"], {"do": "type", "text": "-x --y", "other": "refuse"}),
        (["wait", "--duration", "0"], None),
    ],
)
@pytest.mark.anyio
async def test_actions(arguments: list[str], action: dict[str, Any] | None) -> None:
    screen = Screen()
    answer = await screen.run(*arguments)
    assert answer["error"] is None
    assert base64.b64decode(answer["base64_image"]) == b"PNG"
    asked = [] if action is None else [("input", {"actions": [action]})]
    assert screen.fake.asked == [*asked, SHOT]


@pytest.mark.anyio
async def test_zoom_and_cursor() -> None:
    screen = Screen()
    assert (await screen.run("cursor_position"))["output"] == "X=3,Y=4"
    assert (await screen.run("zoom", "--region", "1", "2", "30", "40"))["base64_image"]
    assert screen.fake.asked[-1] == ("screenshot", {"settle": 3.0, "region": [1, 2, 30, 40]})
    screen.fake.pointer = None
    assert "nobody has moved the pointer" in (await screen.run("cursor_position"))["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "there is no action 'fly'"),
        (["mouse_move"], "coordinate must be given"),
        (["mouse_move", "--coordinate", "x", "y"], "invalid _whole value"),
        (["mouse_move", "--coordinate", "9" * 400, "1"], "invalid _whole value"),
        (["key"], "text must be given"),
        (["zoom"], "zoom needs a region"),
        (["hold_key", "--text", "a", "--duration", "1000"], "between 0 and 100 seconds"),
        (["open_web_browser"], "as a person would"),
        (["navigate", "--text", "x"], "as a person would"),
        (["screenshot", "--surprise"], "unrecognized arguments"),
    ],
)
@pytest.mark.anyio
async def test_what_the_model_is_told(arguments: list[str], said: str) -> None:
    screen = Screen()
    answer = await screen.run(*arguments)
    assert said in answer["error"]
    assert not any(op == "input" for op, _ in screen.fake.asked)


@pytest.mark.anyio
async def test_errors_of_the_daemon() -> None:
    """What a model can put right is told to it; a VM that has gone fails the sample."""
    screen = Screen()
    screen.fake.fails = MoatError("invalid", "outside")
    assert (await screen.run("left_click"))["error"] == "outside"
    screen.fake.fails = MoatError("not_found", "no sandbox")
    with pytest.raises(RuntimeError, match="no sandbox"):
        await screen.run("left_click")


def test_how_inspect_asks() -> None:
    assert looks_for_program(["test", "-r", PROGRAM])
    assert looks_for_program(["/bin/sh", "-c", 'exec "$@"', "sh", "test", "-r", PROGRAM])
    assert not looks_for_program(["test", "-r", "/etc/passwd"])
    assert not looks_for_program(["cat", PROGRAM])
    assert runs_program(["python3", PROGRAM, "screenshot"])
    assert not runs_program(["python3", "/opt/other.py"])
