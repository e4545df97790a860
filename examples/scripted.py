"""A mock model that plays a fixed part, so that the examples run without a real model.

`inspect eval hello.py --model mockllm/model` plays the part; with any other model the part is
left out, and that model has to solve the task by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.tool import Tool, ToolChoice, ToolError, ToolInfo, tool
from inspect_ai.util import sandbox

MOCK = "mockllm/model"

Step = str | Callable[[list[ChatMessage]], ModelOutput]


def call(tool_name: str, **arguments: Any) -> Step:
    """A step in which the model calls a tool."""
    return lambda messages: ModelOutput.for_tool_call(MOCK, tool_name, arguments)


def say_last_result() -> Step:
    """A step in which the model repeats what its last tool call gave back."""
    return lambda messages: ModelOutput.from_content(MOCK, messages[-1].text)


def submit_last_result() -> Step:
    """A step in which an agent submits what its last tool call gave back."""
    return lambda messages: ModelOutput.for_tool_call(
        MOCK, "submit", {"answer": messages[-1].text.strip()}
    )


def part(*steps: Step) -> Model | None:
    """The mock model with this part, or None when the user asked for another model.

    The steps are taken one for each of the model's turns, and a plain text ends it.
    """
    if str(get_model()) != MOCK:
        return None

    def play(
        messages: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        turn = sum(isinstance(message, ChatMessageAssistant) for message in messages)
        step = steps[min(turn, len(steps) - 1)]
        output = ModelOutput.from_content(MOCK, step) if isinstance(step, str) else step(messages)
        output.usage = ModelUsage()  # otherwise tokens are counted, by tables from the network
        return output

    return get_model(MOCK, custom_outputs=play, memoize=False)


@tool
def shell(timeout: int = 60) -> Tool:
    """A tool for images without bash; otherwise use Inspect's own `bash()`."""

    async def execute(command: str) -> str:
        """Run a command with sh.

        Args:
            command: The command line.
        """
        result = await sandbox().exec(["sh", "-c", command], timeout=timeout)
        if not result.success:
            raise ToolError(f"exit code {result.returncode}: {result.stderr}{result.stdout}")
        return result.stdout

    return execute
