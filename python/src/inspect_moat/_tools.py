"""Tools for agents: save the machines as they are, and go back when something broke."""

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import sandbox

from ._errors import LimitError
from ._sandbox import VmSandboxEnvironment


@tool
def save_snapshot() -> Tool:
    """Lets the model remember its sandbox: all VMs, with memory, programs and disks."""

    async def execute(name: str) -> str:
        """Save the state of all machines, with everything that runs on them.

        Args:
            name: A name for this state: letters, digits and . _ -
        """
        try:
            await sandbox().as_type(VmSandboxEnvironment).create_snapshot(name)
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
            await sandbox().as_type(VmSandboxEnvironment).restore_snapshot(name)
        except (NotImplementedError, LookupError, ValueError, LimitError) as ex:
            raise ToolError(str(ex)) from ex
        return f"everything is as it was when {name} was saved"

    return execute
