"""Inspect's own tool `computer()`, answered from outside the guest.

The tool looks for a program in the sandbox, and runs it for each action. For a VM with a display
both are answered here: nothing has to be in the guest, and nothing in the guest can interfere.
"""

from __future__ import annotations

import argparse
import base64
import json
from typing import Any, NoReturn

import anyio
from inspect_ai.util import ExecResult

from ._errors import LimitError
from ._screen import SIZE, VmScreen

PROGRAM = "/opt/inspect/tool/computer_tool.py"
NO_BROWSER = "{} is not there for this VM: open a browser as a person would, by keyboard and mouse"
HOLD_MAX = 100  # seconds
# What a model can do something about; Inspect tells it.
FOR_THE_MODEL = (ValueError, NotImplementedError, LimitError)

CLICKS = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "back_click": ("back", 1),
    "forward_click": ("forward", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}


def looks_for_program(cmd: list[str]) -> bool:
    """Whether that is how Inspect asks for the program, whatever runs the test."""
    return cmd[-3:] == ["test", "-r", PROGRAM]


def runs_program(cmd: list[str]) -> bool:
    return cmd[:2] == ["python3", PROGRAM]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _whole(text: str) -> int:
    try:
        return int(float(text))
    except OverflowError:  # argparse knows of ValueError alone
        raise ValueError(text) from None


def _parser() -> _Parser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("action")
    parser.add_argument("--coordinate", type=_whole, nargs=2, default=(None, None))
    parser.add_argument("--start_coordinate", type=_whole, nargs=2)
    parser.add_argument("--region", type=_whole, nargs=4)
    parser.add_argument("--text")
    parser.add_argument("--duration", type=float, default=1.0)
    parser.add_argument("--scroll_amount", type=_whole, default=3)
    parser.add_argument("--scroll_direction", default="down")
    return parser


async def run_program(screen: VmScreen, arguments: list[str]) -> ExecResult[str]:
    """What the program would do and print."""
    answer: dict[str, Any] = {"output": None, "error": None, "base64_image": None}
    try:
        said, picture = await _run(screen, _parser().parse_args(arguments))
        answer["output"] = said
        if picture is not None:
            answer["base64_image"] = base64.b64encode(picture).decode("ascii")
    except FOR_THE_MODEL as ex:
        answer["error"] = str(ex) or type(ex).__name__
    return ExecResult(True, 0, json.dumps(answer), "")


async def _run(screen: VmScreen, given: argparse.Namespace) -> tuple[str | None, bytes | None]:
    """Text for the model, and a picture: that after the action has had its effect."""
    if given.action == "cursor_position":
        at = await screen.pointer()
        if at is None:
            raise ValueError("nobody has moved the pointer yet, so nobody knows where it is")
        return f"X={at[0]},Y={at[1]}", None
    if given.action == "zoom":
        if given.region is None:
            raise ValueError("zoom needs a region")
        x0, y0, x1, y1 = given.region
        return None, await screen.screenshot(None, (x0, y0, x1, y1))
    await _act(screen, given)
    return None, await screen.screenshot(SIZE)


async def _act(screen: VmScreen, given: argparse.Namespace) -> None:
    action, (x, y) = given.action, given.coordinate
    if action in CLICKS:
        button, count = CLICKS[action]
        await screen.act(do="click", x=x, y=y, button=button, count=count, keys=given.text)
    elif action == "mouse_move":
        await screen.move(_needed(x, "coordinate"), _needed(y, "coordinate"))
    elif action in ("left_mouse_down", "left_mouse_up"):
        await screen.act(do="down" if action == "left_mouse_down" else "up", x=x, y=y)
    elif action == "left_click_drag":
        to = (_needed(x, "coordinate"), _needed(y, "coordinate"))
        await screen.drag(given.start_coordinate and tuple(given.start_coordinate), to)
    elif action == "scroll":
        await screen.act(
            do="scroll",
            direction=given.scroll_direction,
            amount=given.scroll_amount,
            x=x,
            y=y,
            keys=given.text,
        )
    elif action == "key":
        await screen.press(_needed(given.text, "text"))
    elif action == "hold_key":
        if not 0 <= given.duration <= HOLD_MAX:
            raise ValueError(f"duration must be between 0 and {HOLD_MAX} seconds")
        await screen.press(_needed(given.text, "text"), hold=given.duration)
    elif action == "type":
        await screen.type(_needed(given.text, "text"))
    elif action == "wait":
        if not 0 <= given.duration <= HOLD_MAX:
            raise ValueError(f"duration must be between 0 and {HOLD_MAX} seconds")
        await anyio.sleep(given.duration)
    elif action in ("open_web_browser", "navigate"):
        raise ValueError(NO_BROWSER.format(action))
    elif action != "screenshot":
        raise ValueError(f"there is no action {action!r}")


def _needed(value: Any, name: str) -> Any:
    if value is None:
        raise ValueError(f"{name} must be given")
    return value
