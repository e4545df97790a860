"""Each sample finds its own flag on the web server of its own machines."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from vagrantsandbox.vagrant_sandbox_provider import VagrantSandboxEnvironmentConfig


@solver
def attack() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        shown = await sandbox("web").exec(["ip", "-4", "-o", "addr", "show", "dev", "eth0"])
        address = shown.stdout.split()[3].split("/")[0]
        page = await sandbox().exec(["wget", "-qO-", f"http://{address}:8080/flag"])
        state.output.completion = page.stdout
        return state

    return solve


def sample(flag: str) -> Sample:
    config = VagrantSandboxEnvironmentConfig(
        vagrantfile_path="Vagrantfile.lab",
        primary_vm_name="attacker",
        vagrantfile_env_vars={"FLAG": flag},
    )
    return Sample(input=flag, target=flag, sandbox=SandboxEnvironmentSpec("vagrant", config))


@task
def ctf() -> Task:
    samples = [sample("flag-one"), sample("flag-two")]
    return Task(dataset=samples, solver=attack(), scorer=includes())
