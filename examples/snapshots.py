"""Snapshots as tools: the model may save the machine and go back when it broke something.

Snapshots are not part of Inspect's own interface; these tools come with moat. A snapshot holds all
VMs of the sandbox, with their memory and running processes. If the driver has no snapshots, the
model is told so, and will not find the secret again.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools

from inspect_moat import restore_snapshot, save_snapshot
from scripted import call, part, say_last_result, shell


@task
def snapshots() -> Task:
    return Task(
        dataset=[
            Sample(
                input="Delete secret.txt, and then tell me what was in it.",
                target="xyzzy",
                files={"secret.txt": "the secret is xyzzy\n"},
            )
        ],
        solver=[use_tools(shell(), save_snapshot(), restore_snapshot()), generate()],
        scorer=includes(),
        sandbox=("moat", "tiny.yaml"),
        model=part(
            call("save_snapshot", name="before"),
            call("shell", command="rm secret.txt"),
            call("restore_snapshot", name="before"),
            call("shell", command="cat secret.txt"),
            say_last_result(),
        ),
    )
