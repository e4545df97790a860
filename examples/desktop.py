"""A desktop, seen and used from outside the VM: with Inspect's own computer tool.

Needs the image: `moat image build desktop`. The mock model looks for the first program in the panel
at the bottom of the picture, which is a terminal, opens it by a click, and types.
"""

from __future__ import annotations

import base64
import struct
import zlib

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ContentImage, ModelOutput
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.tool import computer
from inspect_ai.util import sandbox

from scripted import MOCK, call, part

ANSWER = "/home/user/answer.txt"


def rows_of(png: bytes) -> list[bytes]:
    """The rows of a picture of moat's, with three bytes a pixel; each was packed as its difference
    from the one above."""
    (width,) = struct.unpack(">I", png[16:20])
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    packed = zlib.decompress(png[start + 4 : start + 4 + length])
    rows, above = [], bytes(3 * width)
    for at in range(0, len(packed), 3 * width + 1):
        row = packed[at + 1 : at + 1 + 3 * width]
        above = bytes((a + b) & 255 for a, b in zip(above, row, strict=True))
        rows.append(above)
    return rows


def first_in_panel(png: bytes) -> list[int]:
    """The middle of the leftmost thing in the panel: what has another colour than the corner."""
    rows = rows_of(png)
    height, corner = len(rows), rows[-1][:3]
    middle = height - 18  # of the panel
    row = [rows[middle][at : at + 3] for at in range(0, len(rows[middle]), 3)]
    begin = next(x for x, colour in enumerate(row) if colour != corner)
    return [begin + 8, middle]


def click_first_in_panel(messages: list[ChatMessage]) -> ModelOutput:
    content = messages[-1].content
    (picture,) = [part.image for part in content if isinstance(part, ContentImage)]
    place = first_in_panel(base64.b64decode(picture.partition(",")[2]))
    arguments = {"action": "left_click", "coordinate": place}
    return ModelOutput.for_tool_call(MOCK, "computer", arguments)


@scorer(metrics=[accuracy()])
def answer_is_written() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        try:
            said = (await sandbox().read_file(ANSWER)).strip()
        except FileNotFoundError:
            said = ""
        return Score(value=CORRECT if said == target.text else INCORRECT, answer=said)

    return score


@task
def desktop() -> Task:
    return Task(
        dataset=[
            Sample(
                input=f"Open a terminal, and use it to write the product of 6 and 7 to {ANSWER}.",
                target="42",
            )
        ],
        solver=[use_tools(computer()), generate()],
        scorer=answer_is_written(),
        sandbox=("moat", "desktop.yaml"),
        model=part(
            call("computer", action="screenshot"),
            click_first_in_panel,
            call("computer", action="wait", duration=20),
            call("computer", action="type", text=f"echo $((6 * 7)) > {ANSWER}\n"),
            "It is written.",
        ),
    )
