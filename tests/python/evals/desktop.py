"""An eval for the tests: a model that is a script uses Inspect's own computer tool."""

import base64
import json
import struct
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ContentImage, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import computer
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig

# Actions, and for each whether the answer has a picture, or a part of the text that it has.
SCRIPT: list[tuple[dict[str, Any], bool | str]] = [
    ({"action": "screenshot"}, True),
    ({"action": "mouse_move", "coordinate": [683, 384]}, True),
    ({"action": "cursor_position"}, "X=683,Y=384"),
    ({"action": "left_click", "coordinate": [100, 100]}, True),
    ({"action": "right_click", "coordinate": [100, 100]}, True),
    ({"action": "middle_click", "coordinate": [100, 100]}, True),
    ({"action": "back_click", "coordinate": [100, 100]}, True),
    ({"action": "double_click", "coordinate": [100, 100]}, True),
    ({"action": "triple_click", "coordinate": [100, 100]}, True),
    ({"action": "left_mouse_down"}, True),
    ({"action": "left_mouse_up"}, True),
    ({"action": "left_click_drag", "start_coordinate": [9, 9], "coordinate": [300, 200]}, True),
    (
        {
            "action": "scroll",
            "coordinate": [5, 5],
            "scroll_amount": 2,
            "scroll_direction": "down",
        },
        True,
    ),
    ({"action": "key", "text": "ctrl+shift+t", "repeat": 2}, True),
    ({"action": "hold_key", "text": "Escape", "duration": 1}, True),
    ({"action": "type", "text": "Hello, world! --no-options"}, True),
    ({"action": "wait", "duration": 1}, True),
    ({"action": "zoom", "region": [0, 0, 683, 384]}, True),
    ({"action": "left_click", "coordinate": [1366, 0]}, "outside the picture"),
    ({"action": "key", "text": "nonsense"}, 'no key is called "nonsense"'),
    ({"action": "type", "text": "\u00fc"}, "(U+00FC) is not on a US keyboard"),
    ({"action": "navigate", "text": "x"}, "open a browser as a person would"),
]


def size_of(picture: str) -> tuple[int, int]:
    png = base64.b64decode(picture.split(",", 1)[1])
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def wrong_answers(state: TaskState) -> list[str]:
    answers = [message for message in state.messages if isinstance(message, ChatMessageTool)]
    wrong = []
    for (action, wanted), answer in zip(SCRIPT, answers, strict=True):
        pictures = [
            size_of(part.image)
            for part in (answer.content if isinstance(answer.content, list) else [])
            if isinstance(part, ContentImage)
        ]
        said = answer.text + (answer.error.message if answer.error else "")
        size = (960, 540) if action["action"] == "zoom" else (1366, 768)
        if pictures != [size] if wanted is True else str(wanted) not in said:
            wrong.append(f"{action}: {pictures} {said}")
    return wrong


@scorer(metrics=[accuracy()])
def reached() -> Scorer:
    """Whether the answers were right, and the window got what was sent."""

    async def score(state: TaskState, target: Target) -> Score:
        events = [
            json.loads(e) for e in (await sandbox().read_file("/run/target.log")).split("\n") if e
        ]
        text = "".join(event[1] for event in events if event[0] == "key" and len(event[1]) == 1)
        buttons = [event[1] for event in events if event[0] == "down"]
        wrong = wrong_answers(state)
        if "Hello, world! --no-options" not in text:
            wrong.append(f"typed: {text!r}")
        if buttons != [1, 3, 2, 1, 1, 1, 1, 1, 1, 1, 5, 5]:
            wrong.append(f"buttons: {buttons}")
        # For scorers and solvers there are methods, too.
        own = sandbox().as_type(MoatSandboxEnvironment)
        await own.click(10, 20)
        if await own.pointer() != (10, 20):
            wrong.append("the pointer is elsewhere")
        if (await own.screenshot())[:4] != b"\x89PNG":
            wrong.append("no picture")
        return Score(value=int(not wrong), explanation="\n".join(wrong))

    return score


@task
def desktop(image: str) -> Task:
    outputs = [
        *(ModelOutput.for_tool_call("mockllm/model", "computer", action) for action, _ in SCRIPT),
        ModelOutput.from_content("mockllm/model", "done"),
    ]
    for output in outputs:
        output.usage = ModelUsage()  # otherwise Inspect counts, by a table that it downloads
    vm = {"name": "desk", "source": image, "ram_mb": 512, "vcpus": 1, "vga": "std"}
    config = MoatSandboxEnvironmentConfig.model_validate({"vms": [vm], "networks": "none"})
    return Task(
        dataset=[Sample(input="Use the computer.")],
        solver=[use_tools(computer()), generate()],
        scorer=reached(),
        model=get_model("mockllm/model", custom_outputs=outputs),
        sandbox=SandboxEnvironmentSpec("moat", config),
    )
