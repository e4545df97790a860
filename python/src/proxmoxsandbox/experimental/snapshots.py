"""Tools that number a model's snapshots of its VM.

`inspect_moat.save_snapshot` and `restore_snapshot` do the same for all VMs of a sandbox, by name.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent
from inspect_ai.tool import Tool, ToolError, bash, tool
from inspect_ai.util import SandboxEnvironmentSpec, sandbox, store

from inspect_moat._errors import LimitError

from .._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)

example_dataset = [
    Sample(
        input="Save your machine, make the file /trace, go back, and look whether it is there. "
        "Submit 42.",
        target="42",
    )
]

LAST_NUMBER = "current_snapshot_id"  # in Inspect's store, where a scorer may look


def _vm() -> ProxmoxSandboxEnvironment:
    try:
        return sandbox().as_type(ProxmoxSandboxEnvironment)
    except TypeError as ex:
        raise ValueError("snapshots are for sandboxes of the provider proxmox") from ex


@tool
def create_snapshot() -> Tool:
    """Lets the model save its VM."""

    async def execute() -> int:
        """Save the state of your machine, with everything that runs on it.

        Returns:
            The number of this state, for going back to it.
        """
        number = int(store().get(LAST_NUMBER, 0)) + 1
        try:
            await _vm().create_snapshot(f"inspect{number}")
        except LimitError as ex:
            raise ToolError(str(ex)) from ex
        store().set(LAST_NUMBER, number)
        return number

    return execute


@tool
def rollback_to_snapshot() -> Tool:
    """Lets the model put its VM back to what it saved."""

    async def execute(snapshot_id: int) -> bool:
        """Put your machine back into a state that you saved. What runs on it now is lost.

        Args:
            snapshot_id: The number of that state.

        Returns:
            That it is done.
        """
        try:
            await _vm().restore_snapshot(f"inspect{snapshot_id}")
        except (LookupError, LimitError) as ex:
            raise ToolError(str(ex)) from ex
        return True

    return execute


@task
def try_snapshots() -> Task:
    """A model that saves its VM and goes back."""
    return Task(
        dataset=example_dataset,
        solver=basic_agent(
            tools=[bash(), create_snapshot(), rollback_to_snapshot()], message_limit=20
        ),
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("proxmox", ProxmoxSandboxEnvironmentConfig()),
    )
