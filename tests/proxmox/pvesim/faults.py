"""Faults on demand, and the log of what clients asked for."""

from __future__ import annotations

import re
import time
from typing import Any


class Rule:
    """One fault. It waits for the nth call that fits, then strikes `times` calls."""

    def __init__(self, number: int, given: dict[str, Any]) -> None:
        self.number = number
        self.path = re.compile(given.get("path", ".*"))
        self.method: str = given.get("method", "*")
        # The nth call of all, counted since the log was last cleared; 0 for any.
        self.call: int = int(given.get("call", 0))
        self.skip: int = int(given.get("skip", 0))
        self.times: int = int(given.get("times", 1))
        self.action: str = given.get("action", "status")
        self.when: str = given.get("when", "before")
        self.status: int = int(given.get("status", 500))
        self.message: str = given.get(
            "message", "injected fault" if self.status not in (401, 596) else ""
        )
        self.empty = bool(given.get("empty", False))
        # Of a delay; or of an outage, which begins with this call.
        self.seconds: float = float(given.get("seconds", 0))
        self.away = 0.0
        if self.action == "outage":
            self.away, self.seconds = self.seconds, 0.0
        self.struck = 0
        if self.action not in ("status", "drop", "latency", "outage"):
            raise ValueError(f"no action {self.action}")
        if self.when not in ("before", "after"):
            raise ValueError(f"when is before or after, not {self.when}")
        if self.action == "latency":
            self.when = "never"

    def __str__(self) -> str:
        return f"{self.action} {self.when} {self.method} {self.path.pattern}"

    def fits(self, verb: str, path: str, count: int) -> bool:
        if self.times == 0 or self.method not in ("*", verb) or not self.path.search(path):
            return False
        if self.call and self.call != count:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times > 0:
            self.times -= 1
        self.struck += 1
        return True


class Faults:
    """The rules, and every request in the order of its arrival."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.log: list[dict[str, Any]] = []
        self.next_number = 1

    def add(self, given: dict[str, Any]) -> int:
        rule = Rule(self.next_number, given)
        self.next_number += 1
        self.rules.append(rule)
        return rule.number

    def note(self, verb: str, path: str) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "n": len(self.log) + 1,
            "time": time.time(),
            "method": verb,
            "path": path,
            "status": None,
        }
        self.log.append(entry)
        return entry

    def match(self, verb: str, path: str) -> Rule | None:
        """Of the rules that fit, the first that is no delay strikes; all delays add up."""
        count = len(self.log)
        delay = 0.0
        chosen: Rule | None = None
        for rule in self.rules:
            if chosen is not None and rule.action != "latency":
                continue
            if rule.fits(verb, path, count):
                delay += rule.seconds
                if rule.action != "latency":
                    chosen = rule
        if chosen is None and delay:
            chosen = Rule(0, {"action": "latency"})
        if chosen is not None:
            answer = Rule(
                chosen.number,
                {"action": chosen.action, "status": chosen.status, "message": chosen.message},
            )
            answer.when, answer.seconds, answer.empty = chosen.when, delay, chosen.empty
            answer.away = chosen.away
            return answer
        return None

    def counts(self) -> dict[str, int]:
        """Calls by method and path, ids left out."""
        result: dict[str, int] = {}
        for entry in self.log:
            path = re.sub(r"/UPID:[^/]*", "/UPID", entry["path"])
            path = re.sub(r"/qemu/\d+", "/qemu/N", path)
            key = f"{entry['method']} {path}"
            result[key] = result.get(key, 0) + 1
        return result
