"""An eval for the tests, as for Inspect's Docker provider: nothing of moat is in it."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox


@solver
def look() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        page = "wget -q -O - http://target_env:8000/page.txt"
        here = await sandbox().exec(["sh", "-c", f"pwd; echo $LEVEL $FROM_IMAGE; {page}"])
        there = await sandbox("target_env").exec(["cat", "page.txt"])
        state.output.completion = " ".join([*here.stdout.split(), *there.stdout.split()])
        return state

    return solve


@task
def docker_task() -> Task:
    return Task(
        dataset=[
            Sample(input="Look.", target="/work hard yes found found", metadata={"level": "hard"}),
            Sample(input="Look.", target="/work easy yes found found", metadata={"level": "easy"}),
        ],
        solver=look(),
        scorer=includes(),
        sandbox=("docker", "compose.yaml"),
    )
