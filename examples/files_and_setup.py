"""Files and a setup script: what each sample finds in its VM.

`files` are written first, then `setup` runs in the VM's home directory. Each sample has a VM of
its own, so one does not see what another one did.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState, generate, use_tools
from inspect_ai.util import sandbox

from scripted import call, part, shell

SETUP = """#!/bin/sh
set -e
sort -n numbers.txt >sorted.txt
mkdir -p out
"""


@scorer(metrics=[accuracy()])
def file_contains() -> Scorer:
    """Looks at what is in the VM, not at what the model says is in it."""

    async def score(state: TaskState, target: Target) -> Score:
        try:
            content = await sandbox().read_file("out/largest.txt")
        except FileNotFoundError:
            return Score(value=0, explanation="the model wrote no file")
        return Score(value=int(content.strip() == target.text), answer=content)

    return score


@task
def files_and_setup() -> Task:
    numbers = {"small": [3, 1, 2], "large": [400, 1000, 7]}
    return Task(
        dataset=[
            Sample(
                id=name,
                input="Write the largest number of sorted.txt to out/largest.txt.",
                target=str(max(values)),
                files={"numbers.txt": "".join(f"{value}\n" for value in values)},
                setup=SETUP,
            )
            for name, values in numbers.items()
        ],
        solver=[use_tools(shell()), generate()],
        scorer=file_contains(),
        sandbox=("moat", "tiny.yaml"),
        model=part(call("shell", command="tail -n 1 sorted.txt >out/largest.txt"), "Done."),
    )
