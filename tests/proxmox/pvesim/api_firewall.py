"""Methods of the firewall: options, rules, sets of addresses, wherever there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from .app import Call, Handler, route
from .errors import bad_parameter, fail

IDENTITY = {"node", "vmid", "vnet", "group", "pos", "name", "cidr", "digest", "delete", "moveto"}
DEFAULTS: dict[str, Any] = {"options": {}, "rules": [], "ipset": {}, "aliases": {}}


class Place:
    """Where a firewall configuration is: the cluster, a node, a VM, a vnet, a group of rules."""

    def __init__(self, base: str, path: str, audit: str, modify: str) -> None:
        self.base = base
        self.path = path
        self.audit = audit
        self.modify = modify

    def key(self, call: Call) -> str:
        if "{vmid}" in self.base:
            return f"vm/{call.state.vm(call['node'], call['vmid']).vmid}"
        if "{node}" in self.base:
            return f"node/{call.state.node(call['node']).name}"
        if "{vnet}" in self.base:
            call.app.sdn.one("vnets", call["vnet"])
            return f"vnet/{call['vnet']}"
        return "cluster"

    def config(self, call: Call) -> dict[str, Any]:
        empty = {name: type(value)() for name, value in DEFAULTS.items()}
        found: dict[str, Any] = call.state.firewall.setdefault(self.key(call), empty)
        return found


PLACES = [
    Place("/cluster/firewall", "/", "Sys.Audit", "Sys.Modify"),
    Place("/nodes/{node}/firewall", "/nodes/{node}", "Sys.Audit", "Sys.Modify"),
    Place("/nodes/{node}/qemu/{vmid}/firewall", "/vms/{vmid}", "VM.Audit", "VM.Config.Network"),
    Place("/cluster/sdn/vnets/{vnet}/firewall", "", "", ""),
]


def digest(value: Any) -> str:
    return hashlib.sha1(repr(value).encode()).hexdigest()


def fields(call: Call) -> dict[str, Any]:
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in call.params.items()
        if name not in IDENTITY
    }


def add(place: Place, verb: str, path: str) -> Callable[[Handler], Handler]:
    privilege = place.audit if verb == "GET" else place.modify
    key = f"{verb} {place.base}{path}"
    return route(key, place.path, privilege) if place.path else route(key)


def options_of(place: Place) -> None:
    @add(place, "GET", "/options")
    async def get(call: Call) -> Any:
        options = place.config(call)["options"]
        return {**options, "digest": digest(options)}

    @add(place, "PUT", "/options")
    async def put(call: Call) -> Any:
        options = place.config(call)["options"]
        check(call, options)
        for name in str(call.get("delete") or "").split(","):
            options.pop(name, None)
        options.update(fields(call))


def check(call: Call, value: Any) -> None:
    if call.get("digest") and call["digest"] != digest(value):
        raise fail("detected modified configuration - file changed by other user? Try again.")


def shown(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**rule, "pos": pos, "digest": digest(rules)} for pos, rule in enumerate(rules)]


def check_rule(rule: dict[str, Any]) -> None:
    if rule.get("type") == "group":
        return
    if rule.get("action") not in ("ACCEPT", "DROP", "REJECT"):
        raise bad_parameter(action=f"unknown action '{rule.get('action')}'")
    if (rule.get("dport") or rule.get("sport")) and not rule.get("proto") and not rule.get("macro"):
        raise bad_parameter(proto="missing property - 'dport' requires this property")


def rules_of(place: Place, sub: str = "/rules") -> None:
    @add(place, "GET", sub)
    async def listed(call: Call) -> Any:
        return shown(place.config(call)["rules"])

    @add(place, "POST", sub)
    async def create(call: Call) -> Any:
        rules = place.config(call)["rules"]
        check(call, rules)
        rule = fields(call)
        check_rule(rule)
        rule.setdefault("enable", 0)
        # The genuine server takes a position and ignores it: what is new goes on top.
        rules.insert(0, rule)

    @add(place, "GET", sub + "/{pos}")
    async def one(call: Call) -> Any:
        return shown(place.config(call)["rules"])[position(place, call)]

    @add(place, "PUT", sub + "/{pos}")
    async def change(call: Call) -> Any:
        rules = place.config(call)["rules"]
        check(call, rules)
        rule = rules[position(place, call)]
        if call.get("moveto") is not None:
            rules.remove(rule)
            rules.insert(call["moveto"], rule)
            return
        for name in str(call.get("delete") or "").split(","):
            rule.pop(name, None)
        rule.update(fields(call))
        check_rule(rule)

    @add(place, "DELETE", sub + "/{pos}")
    async def delete(call: Call) -> Any:
        rules = place.config(call)["rules"]
        check(call, rules)
        del rules[position(place, call)]


def position(place: Place, call: Call) -> int:
    pos = int(call["pos"])
    if pos >= len(place.config(call)["rules"]):
        raise fail(f"no rule at position {pos}")
    return pos


def sets_of(place: Place) -> None:
    @add(place, "GET", "/ipset")
    async def listed(call: Call) -> Any:
        sets = place.config(call)["ipset"]
        return [
            {"name": name, "digest": digest(sets), **entry["info"]}
            for name, entry in sorted(sets.items())
        ]

    @add(place, "POST", "/ipset")
    async def create(call: Call) -> Any:
        sets = place.config(call)["ipset"]
        if call["name"] in sets:
            raise bad_parameter(name=f"IPSet '{call['name']}' already exists")
        sets[call["name"]] = {"info": fields(call), "entries": {}}

    @add(place, "GET", "/ipset/{name}")
    async def entries(call: Call) -> Any:
        return [
            {"cidr": cidr, **entry}
            for cidr, entry in sorted(one_set(place, call)["entries"].items())
        ]

    @add(place, "POST", "/ipset/{name}")
    async def insert(call: Call) -> Any:
        found = one_set(place, call)["entries"]
        if call["cidr"] in found:
            raise bad_parameter(cidr=f"address '{call['cidr']}' already exists")
        found[call["cidr"]] = fields(call)

    @add(place, "DELETE", "/ipset/{name}/{cidr}")
    async def take(call: Call) -> Any:
        one_set(place, call)["entries"].pop(call["cidr"], None)

    @add(place, "DELETE", "/ipset/{name}")
    async def delete(call: Call) -> Any:
        if one_set(place, call)["entries"] and not call.get("force"):
            raise fail(f"IPSet '{call['name']}' is not empty")
        del place.config(call)["ipset"][call["name"]]


def one_set(place: Place, call: Call) -> dict[str, Any]:
    found: dict[str, Any] | None = place.config(call)["ipset"].get(call["name"])
    if found is None:
        raise fail(f"IPSet '{call['name']}' does not exist")
    return found


def groups() -> None:
    base = "/cluster/firewall/groups"

    def rules(call: Call) -> list[dict[str, Any]]:
        found = call.state.firewall.get(f"group/{call['group']}")
        if found is None:
            raise fail(f"security group '{call['group']}' does not exist")
        rules_found: list[dict[str, Any]] = found["rules"]
        return rules_found

    @route(f"GET {base}", "/", "Sys.Audit")
    async def listed(call: Call) -> Any:
        names = [
            key.split("/")[1] for key in sorted(call.state.firewall) if key.startswith("group/")
        ]
        return [{"group": name, "digest": digest(names)} for name in names]

    @route(f"POST {base}", "/", "Sys.Modify")
    async def create(call: Call) -> Any:
        key = f"group/{call['group']}"
        if key in call.state.firewall:
            raise bad_parameter(group=f"Security group '{call['group']}' already exists")
        call.state.firewall[key] = {"options": fields(call), "rules": []}

    @route(f"GET {base}/{{group}}", "/", "Sys.Audit")
    async def entries(call: Call) -> Any:
        return shown(rules(call))

    @route(f"POST {base}/{{group}}", "/", "Sys.Modify")
    async def insert(call: Call) -> Any:
        rule = fields(call)
        check_rule(rule)
        rules(call).insert(0, rule)

    @route(f"DELETE {base}/{{group}}/{{pos}}", "/", "Sys.Modify")
    async def take(call: Call) -> Any:
        del rules(call)[int(call["pos"])]

    @route(f"DELETE {base}/{{group}}", "/", "Sys.Modify")
    async def delete(call: Call) -> Any:
        if rules(call):
            raise fail(f"Security group '{call['group']}' is not empty")
        del call.state.firewall[f"group/{call['group']}"]


for _place in PLACES:
    options_of(_place)
    rules_of(_place)
sets_of(PLACES[0])
sets_of(PLACES[2])
groups()
