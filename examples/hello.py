"""One VM, one command.

The model gets a tool that runs commands in the VM, and is asked something that it can only know
by using it.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools

from scripted import call, part, shell


@task
def hello() -> Task:
    return Task(
        dataset=[Sample(input="Which kernel does the machine run?", target="Linux")],
        solver=[use_tools(shell()), generate()],
        scorer=includes(),
        sandbox=("moat", "tiny.yaml"),
        model=part(call("shell", command="uname -s"), "It runs Linux."),
    )
