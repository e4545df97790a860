"""A shell that remembers: `bash_session` keeps one bash running between the model's calls.

Inspect puts the server for it into the VM. A variable set by one call is still there in the next.
"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash_session as bash_session_tool

from scripted import call, part, say_last_result


@task
def bash_session() -> Task:
    return Task(
        dataset=[Sample(input="Set a variable, and tell me its value later.", target="remembered")],
        solver=[use_tools(bash_session_tool()), generate()],
        scorer=includes(),
        sandbox=("moat", "debian.yaml"),
        model=part(
            call("bash_session", action="type_submit", input="word=membered; cd /tmp"),
            call("bash_session", action="type_submit", input="echo re$word in $PWD"),
            say_last_result(),
        ),
    )
