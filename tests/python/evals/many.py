"""An eval for the tests: as many samples as asked for, each in its own VM, no model needed."""

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironmentSpec, sandbox

from inspect_moat import MoatSandboxEnvironmentConfig


def tiny(warm: bool, standby: int) -> MoatSandboxEnvironmentConfig:
    vm = {"source": "tiny", "ram_mb": 256, "vcpus": 1, "warm": warm}
    return MoatSandboxEnvironmentConfig.model_validate({"vms": [vm], "standby": standby})


@solver
def work(seconds: float) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await sandbox().write_file("mine.txt", str(state.sample_id))
        await anyio.sleep(seconds)
        others = await sandbox().exec(["ls"])
        state.metadata["files"] = others.stdout.split()
        return state

    return solve


@scorer(metrics=[accuracy()])
def alone() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        right = await sandbox().read_file("mine.txt") == str(state.sample_id)
        return Score(value=int(right and state.metadata["files"] == ["mine.txt"]))

    return score


@task
def many(
    samples: int = 1, seconds: float = 0, setup: str = "", warm: bool = True, standby: int = 0
) -> Task:
    return Task(
        dataset=[
            Sample(id=f"s{i}", input="-", setup=setup or None, metadata={"number": i})
            for i in range(samples)
        ],
        solver=work(seconds),
        scorer=alone(),
        sandbox=SandboxEnvironmentSpec("moat", tiny(warm, standby)),
    )
