"""Inspect's own tools in a VM: bash, python and the text editor.

`text_editor` needs helpers inside the sandbox. Inspect puts them there at its first use.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, python, text_editor

from scripted import call, part, say_last_result

# Without KVM the helpers need a while to start.
PATIENCE = 600
PROGRAM = "def answer():\n    return 6 * 9\n"


@task
def tools() -> Task:
    return Task(
        dataset=[
            Sample(input="Write deep.py with a function answer() that returns 42.", target="42")
        ],
        solver=[
            use_tools(
                bash(timeout=PATIENCE), python(timeout=PATIENCE), text_editor(timeout=PATIENCE)
            ),
            generate(),
        ],
        scorer=includes(),
        sandbox=("moat", "debian.yaml"),
        model=part(
            call("text_editor", command="create", path="/tmp/deep.py", file_text=PROGRAM),
            call("bash", command="grep -n 9 /tmp/deep.py"),
            call(
                "text_editor",
                command="str_replace",
                path="/tmp/deep.py",
                old_str="6 * 9",
                new_str="6 * 7",
            ),
            call("python", code="import runpy; print(runpy.run_path('/tmp/deep.py')['answer']())"),
            say_last_result(),
        ),
    )
