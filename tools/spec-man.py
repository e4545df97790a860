#!/usr/bin/env python3
"""Writes the manual page moat.yaml(5) from the JSON Schema that `moat schema` prints.

spec-man.py SCHEMA.json DOCS/moat.1 >moat.yaml.5    the date is that of the other page
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HEAD = """\
.\\" Made by tools/spec-man.py from `moat schema`.
.Dd {date}
.Dt MOAT.YAML 5
.Os
.Sh NAME
.Nm moat.yaml
.Nd what a sandbox of moat consists of
.Sh DESCRIPTION
A spec describes a sandbox: its virtual machines and the networks between them.
It is read by
.Xr moat 1
.Cm up
and by evaluations, and is written in YAML or JSON.
.Pp
A member that is left out has its default;
.Cm null
means the same as leaving it out.
Members that moat does not know are refused.
.Nm moat Cm up Fl -check
checks a spec and makes nothing.
"""
TAIL = """\
.Sh EXAMPLES
One VM:
.Bd -literal -offset indent
vms:
- source: tiny
.Ed
.Pp
Two VMs on a network that leads nowhere:
.Bd -literal -offset indent
networks:
  vnets:
  - alias: lan
    subnets:
    - cidr: 10.20.0.0/24
      dhcp_ranges: [{start: 10.20.0.100, end: 10.20.0.200}]
vms:
- {name: attacker, source: debian12, depends_on: [victim]}
- {name: victim, source: debian12, is_sandbox: false}
.Ed
.Sh SEE ALSO
.Xr moat 1
.Pp
The documentation of moat says more of each:
.Pa docs/spec.md , docs/networks.md , docs/warm.md .
"""
TITLES = {"": "THE SANDBOX", "vm": "A VM", "nic": "A NIC", "vnet": "A VNET"}


def text(words: str) -> str:
    """Prose, a sentence a line, with nothing that mdoc would take for its own."""
    words = words.replace("\\", "\\e").replace(". ", ".\n").replace("; ", ";\n")
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in words.split("\n"))


def forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The ways in which a value may be written, null apart."""
    found = schema.get("anyOf") or [schema]
    return [one for form in found for one in (forms(form) if "anyOf" in form else [form])]


def value(schema: dict[str, Any]) -> str:
    """What a value looks like, in a few words."""
    said = []
    for form in forms(schema):
        kinds = form.get("type", [])
        kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
        if "enum" in form:
            said.append("one of " + ", ".join(str(one) for one in form["enum"] if one is not None))
        elif "$ref" in form:
            said.append("an object, see " + title(form["$ref"].rsplit("/", 1)[1]))
        elif kinds == ["array"]:
            said.append(f"a list of: {value(form['items'])}")
        elif kinds in (["integer"], ["number"]):
            said.append(f"a number from {form['minimum']} to {form['maximum']}")
        elif kinds:
            said.append({"string": "text", "boolean": "true or false"}.get(kinds[0], "an object"))
    return ", or ".join(dict.fromkeys(said))


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").upper())


def default(member: dict[str, Any]) -> str:
    if "default" not in member or member["default"] is None:
        return ""
    return f"The default is {json.dumps(member['default'])}."


def section(name: str, schema: dict[str, Any]) -> str:
    shape = next(form for form in forms(schema) if "properties" in form)
    lines = [f".Ss {title(name)}"]
    if said := schema.get("description") or shape.get("description"):
        lines.append(text(said))
    others = [form for form in forms(schema) if form is not shape and form.get("type") != "null"]
    if others:
        lines.append(text(f"In place of an object: {value({'anyOf': others})}."))
    lines.append(".Bl -tag -width Ds")
    for member, about in shape["properties"].items():
        needed = " Pq needed" if member in shape.get("required", []) else ""
        lines.append(f".It Cm {member}{needed}")
        kind = value(about)
        lines.append(text(kind[:1].upper() + kind[1:] + "."))
        lines += [text(said) for said in (about.get("description"), default(about)) if said]
    lines.append(".El")
    return "\n".join(lines)


def main() -> None:
    printed, other = sys.argv[1:]
    date = re.search(r"^\.Dd (.*)$", Path(other).read_text(), re.MULTILINE)
    assert date, other
    schema = json.loads(Path(printed).read_text())
    shapes = {"": schema, **schema["$defs"]}
    order = ["", "vm", "source", "nic", "healthcheck", "cloud_init", "networks", "vnet", "subnet"]
    rest = [name for name in shapes if name not in order]
    sections = [section(name, shapes[name]) for name in [*order, *rest]]
    sys.stdout.write("\n".join([HEAD.format(date=date[1]) + ".Sh MEMBERS", *sections, TAIL]))


if __name__ == "__main__":
    main()
