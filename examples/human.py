"""A human at work: `human_cli` shows how to log in to the VM, and waits for `task submit`.

With a real human, run it with `inspect eval human.py --model mockllm/model -T scripted=false` and
use the command that it prints. Otherwise a script plays the human: it logs in by that same
command, on a terminal, and types.
"""

import os
import pty
import select
import shlex
import subprocess
import time

import anyio
import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.agent import as_solver, human_cli
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox

PATIENCE = 300.0
PROMPT = "$ "


class Terminal:
    """A command on a terminal of its own, and a typist."""

    def __init__(self, command: str) -> None:
        self.screen = ""
        master, slave = pty.openpty()
        self._master = master
        self._process = subprocess.Popen(
            shlex.split(command), stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def type_line(self, text: str) -> None:
        os.write(self._master, text.encode() + b"\r")

    def wait_for(self, text: str) -> None:
        """Read until `text` appears; forget everything up to it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"{text!r} did not appear; the screen shows {self.screen!r}")
            self.screen += os.read(self._master, 4096).decode("utf-8", "replace")
        self.screen = self.screen.split(text, 1)[1]

    def close(self) -> None:
        os.close(self._master)
        self._process.terminate()
        self._process.wait()


def play(command: str) -> None:
    terminal = Terminal(command)
    try:
        terminal.wait_for(PROMPT)
        terminal.type_line("echo 6 times 7 is $((6 * 7))")
        terminal.wait_for("is 42")
        terminal.type_line("task submit 42")
        terminal.wait_for("Yes (y) or No (n)")
        terminal.type_line("y")
        terminal.wait_for("Thank you")
        terminal.wait_for(PROMPT)  # the answer is sent after the thanks: stay until the prompt
    finally:
        terminal.close()


async def log_in_when_ready() -> None:
    """Wait for the helper of human agents in the VM: without it nothing can be submitted."""
    service = "/var/tmp/sandbox-services/human_agent/human_agent.py"
    while not (await sandbox().exec(["test", "-e", service], user="root")).success:  # noqa: ASYNC110
        await anyio.sleep(1)
    connection = await sandbox().connection()
    await anyio.to_thread.run_sync(play, connection.command)


@solver
def scripted_human() -> Solver:
    agent = as_solver(human_cli(record_session=False))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log_in_when_ready)
            state = await agent(state, generate)
        return state  # noqa: RET504

    return solve


@task
def human(scripted: bool = True) -> Task:
    return Task(
        dataset=[Sample(input="What is 6 times 7? Submit the number.", target="42")],
        solver=scripted_human() if scripted else as_solver(human_cli()),
        scorer=match(),
        sandbox=("moat", "debian.yaml"),
    )
