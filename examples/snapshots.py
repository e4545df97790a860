"""Snapshots as tools: the model may save the machine and go back when it broke something.

Snapshots are not part of Inspect's own interface. `sandbox().as_type(...)` gives the object that
has them. A snapshot holds all VMs of the sandbox, with their memory and running processes. If the
driver has no snapshots, the model is told so, and will not find the secret again.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import sandbox

from inspect_moat import VmSandboxEnvironment
from scripted import call, part, say_last_result, shell


@tool
def save() -> Tool:
    async def execute(name: str) -> str:
        """Save the state of the machine.

        Args:
            name: A name for this state.
        """
        try:
            await sandbox().as_type(VmSandboxEnvironment).create_snapshot(name)
        except NotImplementedError as ex:  # not every driver can do it
            raise ToolError(str(ex)) from ex
        return f"saved as {name}"

    return execute


@tool
def go_back() -> Tool:
    async def execute(name: str) -> str:
        """Put the machine back into a state that was saved.

        Args:
            name: The name that the state was given.
        """
        try:
            await sandbox().as_type(VmSandboxEnvironment).restore_snapshot(name)
        except (NotImplementedError, LookupError) as ex:
            raise ToolError(str(ex)) from ex
        return f"the machine is as it was when {name} was saved"

    return execute


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
        solver=[use_tools(shell(), save(), go_back()), generate()],
        scorer=includes(),
        sandbox=("moat", "tiny.yaml"),
        model=part(
            call("save", name="before"),
            call("shell", command="rm secret.txt"),
            call("go_back", name="before"),
            call("shell", command="cat secret.txt"),
            say_last_result(),
        ),
    )
