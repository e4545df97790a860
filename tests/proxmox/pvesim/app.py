"""One simulated server: takes a request through faults, login, table and method."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from .auth import Auth
from .errors import ApiError
from .faults import Faults
from .http import BODY_MAX, BODY_MAX_BEFORE_8_4, Answer, Dropped, Request, error_answer, parameters
from .sdn import Sdn
from .state import Node, State
from .table import Method, Table
from .tasks import Tasks, Work

PREFIX = "/api2/json"
MASKED = {"password", "cipassword", "vncticket", "ticket", "tfa-challenge", "otp", "secret"}
SHOWN_MAX = 200
# Calls that the front end answers by itself; all others go to the daemon behind it.
NOT_PROXIED = re.compile(
    r"^(POST /access/ticket|GET /(version|access/.*"
    r"|cluster/(nextid|resources|status|tasks|options)|nodes|nodes/[^/]+"
    r"|nodes/[^/]+/qemu/\d+(/config|/pending|/snapshot.*)?|cluster/sdn/(zones|vnets).*|pools.*|storage.*))$"
)


class Call:
    """One checked call of a method."""

    def __init__(self, app: App, request: Request, user: str, params: dict[str, Any]) -> None:
        self.app = app
        self.state = app.state
        self.request = request
        self.user = user
        self.params = params

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.params.get(name, default)

    def require(self, path: str, *privileges: str, any_of: bool = False) -> None:
        self.app.auth.require(self.user, path, *privileges, any_of=any_of)

    def task(self, kind: str, ident: str | int, work: Work, early: bool = False) -> str:
        node = self.params.get("node") or next(iter(self.state.nodes))
        return self.app.tasks.start(node, kind, str(ident), self.user, work, early)


Handler = Callable[[Call], Awaitable[Any]]
# "VERB /path" -> method, privileges it needs: (path with holes, privileges, any of them is enough).
ROUTES: dict[str, tuple[Handler, tuple[str, tuple[str, ...], bool] | None]] = {}


def route(
    key: str, where: str = "", *privileges: str, any_of: bool = False
) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        ROUTES[key] = (handler, (where, privileges, any_of) if where else None)
        return handler

    return add


class App:
    """A server's whole self but its sockets."""

    def __init__(self, options: Any, workdir: Path, nodes: list[Node]) -> None:
        self.options = options
        self.scale: float = options.time_scale
        self.idle: float = options.idle
        self.version: str = options.pve_version
        major, minor = (int(part) for part in self.version.split(".")[:2])
        self.release = (major, minor)
        self.table = Table(self.release)
        self.body_max = BODY_MAX if self.release >= (8, 4) else BODY_MAX_BEFORE_8_4
        self.auth = Auth(self.scale)
        self.state = State(workdir, nodes)
        if self.release < (8, 3):
            # Before that only ESXi servers were imported from.
            for node in nodes:
                self.state.storages[node.name]["local"].content.remove("import")
        self.sdn = Sdn(self.state)
        self.tasks = Tasks(options.task_time)
        self.faults = Faults()
        self.vms_mode: str = options.vms
        self.machines: Any = None
        self.front: Any = None
        self.rollback_hold = 2.0
        # Seconds for a MiB that is read through a guest agent.
        self.read_cost = 0.0
        self.terminals: dict[int, Any] = {}
        self.made: list[str] = []
        self.started = time.time()
        # Set by a test: how wrong the server's clock is.
        self.faults_clock = 0.0

    async def pause(self, seconds: float) -> None:
        """A delay of the genuine server's, at this server's scale."""
        await asyncio.sleep(seconds * self.scale)

    async def handle(self, request: Request) -> Answer:
        path = request.path.removeprefix(PREFIX)
        path = "/" + unquote(path).strip("/")
        entry = self.faults.note(request.verb, path)
        began = time.monotonic()
        rule = self.faults.match(request.verb, path)
        try:
            if rule and rule.seconds:
                await asyncio.sleep(rule.seconds)
            if rule and rule.when == "before":
                self.strike(rule)
            answer = await self.dispatch(request, path, entry)
            if rule and rule.when == "after":
                self.strike(rule)
        except Dropped:
            entry["status"] = 0
            raise
        except ApiError as error:
            entry["status"] = error.status
            if error.delay:
                await asyncio.sleep(error.delay)
                error.delay = 0
            answer = error_answer(error)
        entry["status"] = answer.status
        entry["seconds"] = round(time.monotonic() - began, 6)
        answer.proxied = not NOT_PROXIED.match(f"{request.verb} {path}")
        return answer

    def strike(self, rule: Any) -> None:
        if rule.action == "outage":
            self.front.go_away(rule.away)
        if rule.action in ("drop", "outage"):
            raise Dropped
        if rule.action == "status":
            error = ApiError(rule.status, rule.message)
            error.empty = rule.status in (401, 595, 596) or rule.empty
            raise error

    async def dispatch(self, request: Request, path: str, entry: dict[str, Any]) -> Answer:
        if not request.path.startswith(PREFIX + "/"):
            raise ApiError(501, f"no such file '{request.path}'")
        open_to_all = (request.verb, path) == ("POST", "/access/ticket")
        user = "" if open_to_all else self.auth.identify(request.verb, request.headers)
        request.user = user
        entry["user"] = user
        found = self.table.find(request.verb, path)
        if path.endswith("/upload") and request.verb == "POST" and found:
            from .upload import receive

            return await receive(self, request, user, found[1], entry)
        given = await parameters(request, self.idle, self.body_max)
        entry["params"] = {name: shown(name, value) for name, value in given.items()}
        if found is None or found[0].key not in ROUTES:
            raise ApiError(501, f"Method '{request.verb} {path}' not implemented")
        return await self.call(request, user, found[0], {**given, **found[1]})

    async def call(
        self, request: Request, user: str, method: Method, given: dict[str, Any]
    ) -> Answer:
        handler, need = ROUTES[method.key]
        if need:
            where, privileges, any_of = need
            try:
                where = where.format(**given)
            except KeyError:
                where = where.split("/{")[0] or "/"
            self.auth.require(user, where, *privileges, any_of=any_of)
        params = method.check(given)
        result = await handler(Call(self, request, user, params))
        if isinstance(result, Answer):
            return result
        return Answer(
            200, json.dumps({"data": result}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        )


def shown(name: str, value: Any) -> Any:
    if name in MASKED:
        return "***"
    if isinstance(value, str) and len(value) > SHOWN_MAX:
        return value[:SHOWN_MAX] + "..."
    return value
