"""Tools for agents: save the machines as they are, and go back when something broke."""

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import sandbox

from ._errors import LimitError
from ._sandbox import VmSandboxEnvironment

# A model must neither replace nor restore what the evaluation itself has saved.
PREFIX = "agent-"
SAVED_MAX = 8  # each takes as much disk as the machines have memory


async def _check_room(vm: VmSandboxEnvironment, name: str) -> None:
    saved = [known for known in await vm.list_snapshots() if known.startswith(PREFIX)]
    if len(saved) >= SAVED_MAX and PREFIX + name not in saved:
        names = ", ".join(known.removeprefix(PREFIX) for known in saved)
        raise ToolError(f"there is room for {SAVED_MAX} states: save as one of {names}")


@tool
def save_snapshot() -> Tool:
    """Lets the model remember its sandbox: all VMs, with memory, programs and disks."""

    async def execute(name: str) -> str:
        """Save the state of all machines, with everything that runs on them.

        Args:
            name: A name for this state: letters, digits and . _ -
        """
        vm = sandbox().as_type(VmSandboxEnvironment)
        try:
            await _check_room(vm, name)
            await vm.create_snapshot(PREFIX + name)
        except (NotImplementedError, ValueError, LimitError) as ex:
            raise ToolError(str(ex)) from ex
        return f"saved as {name}"

    return execute


@tool
def restore_snapshot() -> Tool:
    """Lets the model put its sandbox back to what it saved."""

    async def execute(name: str) -> str:
        """Put all machines back into a state that was saved. What runs on them now is lost.

        Args:
            name: The name that the state was given.
        """
        try:
            await sandbox().as_type(VmSandboxEnvironment).restore_snapshot(PREFIX + name)
        except (NotImplementedError, LookupError, ValueError, LimitError) as ex:
            raise ToolError(str(ex)) from ex
        return f"everything is as it was when {name} was saved"

    return execute
