"""What the relative paths of a configuration mean.

Inspect calls task_init and task_cleanup in the directory of the task's file, but sample_init in the
one where it was started. A path must mean the same file to all of them. That is the one below the
directory where Inspect was started, as with the plugins that moat stands in for; if there is none,
the one beside the task's file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from inspect_ai.util import SandboxEnvironmentConfigType
from pydantic import BaseModel

from ._eval_state import eval_state
from ._inspect_private import is_outside_of_evals

Locate = Callable[[str | os.PathLike[str]], str]


@dataclass
class _Directories:
    start: str | None = None  # where Inspect was started
    tasks: dict[str, list[str]] = field(default_factory=dict)  # of task files, by configuration


class RelativePaths:
    """What the relative paths of one configuration mean."""

    def __init__(self, start: str | None, tasks: Iterable[str]) -> None:
        self.start = start
        self._tasks = list(tasks)
        # whether locate() was asked for a path whose meaning only a sample can know
        self.unsure = False

    def locate(self, path: str | os.PathLike[str]) -> str:
        """The absolute path, whether a file is there or not.

        Raises:
            ValueError: it may be one of several.
        """
        if os.path.isabs(path):
            return str(Path(path))
        if self.start is None:
            self.unsure = True
        first = Path(self.start or self._tasks[0], path)
        if first.exists():
            return str(first)
        found = [str(other) for task in self._tasks if (other := Path(task, path)).exists()]
        if len(found) > 1:
            raise ValueError(
                f"{os.fspath(path)} is beside several tasks ({', '.join(found)}), and tasks that "
                "run together share their configurations: give its absolute path"
            )
        return found[0] if found else str(first)

    def directory(self) -> str:
        """Where relative paths start in what is no file: where the task's file is."""
        return self._tasks[0] if self._tasks else self.start or os.getcwd()

    def locate_file(
        self, config: SandboxEnvironmentConfigType | None
    ) -> SandboxEnvironmentConfigType | None:
        """The configuration with an absolute path, if it is a file."""
        return self.locate(config) if isinstance(config, str) else config


def config_key(config: SandboxEnvironmentConfigType | None) -> str:
    """A text that is the same for the same configuration. Reads no file."""
    if isinstance(config, BaseModel):
        return f"{type(config).__qualname__} {config.model_dump_json()}"
    return repr(config)


def note_start() -> None:
    """Remember where Inspect was started. Called by methods that Inspect calls there."""
    directories = eval_state(_Directories)
    if directories.start is None and not is_outside_of_evals():
        directories.start = os.getcwd()


def paths_of_task(config: SandboxEnvironmentConfigType | None) -> RelativePaths:
    """For task_init, which is called beside the task's file."""
    directories = eval_state(_Directories)
    tasks = directories.tasks.setdefault(config_key(config), [])
    here = os.getcwd()
    if here not in tasks:
        tasks.append(here)
    return RelativePaths(_known_start(directories), tasks)


def paths_of_sample(config: SandboxEnvironmentConfigType | None) -> RelativePaths:
    """For sample_init, which is called where Inspect was started."""
    note_start()
    directories = eval_state(_Directories)
    start = _known_start(directories) or os.getcwd()
    return RelativePaths(start, directories.tasks.get(config_key(config), ()))


def locate_setting(path: str) -> str:
    """The absolute path of a file that a variable of the environment names, for all tasks."""
    directories = eval_state(_Directories)
    tasks = dict.fromkeys(task for tasks in directories.tasks.values() for task in tasks)
    return RelativePaths(_known_start(directories) or os.getcwd(), tasks).locate(path)


def _known_start(directories: _Directories) -> str | None:
    if directories.start is None and is_outside_of_evals():
        return os.getcwd()
    return directories.start
