"""Tasks: work that goes on after the call that started it has been answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .errors import Abandoned, ApiError, TaskFailed

Work = Callable[["Task"], Awaitable[None]]


class Task:
    """One task; it is known by its UPID for as long as the server runs."""

    def __init__(self, tasks: Tasks, node: str, kind: str, ident: str, user: str, pid: int) -> None:
        self.tasks = tasks
        self.node = node
        self.kind = kind
        self.ident = ident
        self.user = user
        self.pid = pid
        self.pstart = 0x1A2B0000 + pid
        self.start = time.time()
        self.began = time.monotonic()
        self.seconds = 0.0
        self.end: float | None = None
        self.exit = ""
        self.log: list[str] = []
        self.left: float | None = 0.0
        self.warnings = 0
        self.upid = (
            f"UPID:{node}:{pid:08X}:{self.pstart:08X}:{int(self.start):08X}:{kind}:{ident}:{user}:"
        )

    async def spend(self) -> None:
        """The time that this kind of task takes; then a test may have it fail."""
        if self.left is None:
            return
        left, self.left = self.left, None
        await asyncio.sleep(left)
        self.tasks.fail_if_told(self, "before")

    def say(self, line: str) -> None:
        self.log.append(line)

    def warn(self, line: str) -> None:
        self.log.append(f"WARN: {line}")
        self.warnings += 1

    def finish(self, status: str) -> None:
        self.exit = status
        self.end = time.time()
        self.seconds = time.monotonic() - self.began
        self.log.append(f"TASK {status}" if status == "OK" else f"TASK ERROR: {status}")

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "upid": self.upid,
            "node": self.node,
            "pid": self.pid,
            "pstart": self.pstart,
            "starttime": int(self.start),
            "type": self.kind,
            "id": self.ident,
            "user": self.user,
        }
        if self.end is not None:
            row.update(endtime=int(self.end), status=self.exit)
        return row

    def status(self) -> dict[str, Any]:
        row = self.row()
        row["status"] = "running" if self.end is None else "stopped"
        row.pop("endtime", None)
        if self.end is not None:
            row["exitstatus"] = self.exit
        return row


class Tasks:
    """All tasks of one server."""

    def __init__(self, seconds: float) -> None:
        self.by_upid: dict[str, Task] = {}
        self.running: dict[str, asyncio.Task[None]] = {}
        self.seconds = seconds
        # Seconds of a kind of task, and what the next tasks of a kind end with.
        self.seconds_of: dict[str, float] = {}
        self.failures: list[dict[str, Any]] = []
        self.next_pid = 4096

    def start(
        self,
        node: str,
        kind: str,
        ident: str,
        user: str,
        work: Work,
        early: bool = False,
        seconds: float | None = None,
    ) -> str:
        """Starts work. With `early` it shows effects first and calls spend() itself."""
        self.next_pid += 7
        task = Task(self, node, kind, ident, user, self.next_pid)
        self.by_upid[task.upid] = task
        if seconds is None:
            seconds = self.seconds_of.get(kind, self.seconds)
        self.running[task.upid] = asyncio.create_task(self.run(task, work, early, seconds))
        return task.upid

    async def run(self, task: Task, work: Work, early: bool, seconds: float) -> None:
        status = "OK"
        try:
            await asyncio.sleep(seconds / 5)
            task.left = seconds - seconds / 5
            if not early:
                await task.spend()
            await work(task)
            await task.spend()
            self.fail_if_told(task, "after")
            if task.warnings:
                status = f"WARNINGS: {task.warnings}"
        except asyncio.CancelledError:
            status = "received interrupt"
        except (TaskFailed, ApiError) as why:
            status = str(why).strip() or "unexpected status"
        except Exception as why:  # a bug here must show in the test that met it
            status = f"internal error: {why!r}"
        task.finish(status)
        self.running.pop(task.upid, None)

    def fail_if_told(self, task: Task, when: str) -> None:
        for rule in self.failures:
            if rule["kind"] not in ("*", task.kind) or rule.get("when", "before") != when:
                continue
            if rule.get("id", "") not in ("", task.ident):
                continue
            if rule["skip"] > 0:
                rule["skip"] -= 1
                continue
            if rule["times"] == 0:
                continue
            rule["times"] -= 1
            rule["struck"] += 1
            task.log += rule["log"]
            raise (Abandoned if rule["abandon"] else TaskFailed)(str(rule["status"]))

    def get(self, upid: str) -> Task:
        task = self.by_upid.get(upid)
        if task is None:
            if not upid.startswith("UPID:") or upid.count(":") != 8:
                raise ApiError(500, f"unable to parse worker upid '{upid}'")
            raise ApiError(500, "no such task")
        return task

    def stop(self, upid: str) -> None:
        self.get(upid)
        if upid in self.running:
            self.running[upid].cancel()
