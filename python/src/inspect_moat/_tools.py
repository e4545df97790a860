"""Tools for agents: save the machines as they are, and go back when something broke."""

from dataclasses import dataclass, field

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import sandbox

from ._errors import LimitError
from ._eval_state import eval_state
from ._sandbox import VmSandboxEnvironment

# A model must neither replace nor restore what the evaluation itself has saved.
PREFIX = "agent-"
SAVED_MAX = 8  # each takes as much disk as the machines have memory


@dataclass
class _Saved:
    """What the tools saved in this eval, by the sandbox's id: not every driver can list it."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def of(self, vm: VmSandboxEnvironment) -> list[str]:
        return self.names.setdefault(vm.sandbox_id, [])


async def _saved_names(vm: VmSandboxEnvironment) -> list[str]:
    try:
        known = await vm.list_snapshots()
    except NotImplementedError:
        return list(eval_state(_Saved).of(vm))
    return [name for name in known if name.startswith(PREFIX)]


async def _save(vm: VmSandboxEnvironment, name: str) -> None:
    saved = await _saved_names(vm)
    if len(saved) >= SAVED_MAX and name not in saved:
        names = ", ".join(known.removeprefix(PREFIX) for known in saved)
        raise ToolError(f"there is room for {SAVED_MAX} states: save as one of {names}")
    # not vm.create_snapshot(), which may save that VM alone: the model is promised all VMs
    await VmSandboxEnvironment.create_snapshot(vm, name)
    mine = eval_state(_Saved).of(vm)
    if name not in mine:
        mine.append(name)


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
            await _save(vm, PREFIX + name)
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
        vm = sandbox().as_type(VmSandboxEnvironment)
        try:
            await VmSandboxEnvironment.restore_snapshot(vm, PREFIX + name)
        except (NotImplementedError, LookupError, ValueError, LimitError) as ex:
            raise ToolError(str(ex)) from ex
        return f"everything is as it was when {name} was saved"

    return execute
