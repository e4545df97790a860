"""The table of parameters: which methods there are, what they take, what is refused and how."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import bad_parameters
from .formats import FORMATS, check_config_value

UNKNOWN = "property is not defined in schema and the schema does not allow additional properties"
MISSING = "property is missing and it is not optional"
TRUE = {"1", "on", "yes", "true"}
FALSE = {"0", "off", "no", "false"}
# Parameters that came with a later version of the server than the one simulated.
SINCE = {
    ("POST /nodes/{node}/qemu", "import-working-storage"): (8, 3),
    ("POST /nodes/{node}/qemu/{vmid}/config", "import-working-storage"): (8, 3),
    ("GET /nodes/{node}/qemu/{vmid}/agent/file-read", "count"): (9, 2),
    ("GET /nodes/{node}/qemu/{vmid}/agent/file-read", "offset"): (9, 2),
    ("GET /nodes/{node}/qemu/{vmid}/agent/file-read", "decode"): (9, 2),
}
# How many of a numbered key there are: net0 to net31.
NUMBERED = {
    "net": 32,
    "scsi": 31,
    "ide": 4,
    "sata": 6,
    "virtio": 16,
    "serial": 4,
    "parallel": 3,
    "usb": 14,
    "hostpci": 16,
    "ipconfig": 32,
    "numa": 8,
    "unused": 256,
    "virtiofs": 10,
}
Spec = dict[str, Any]


class Method:
    """One row of the table."""

    def __init__(self, key: str, params: dict[str, Spec]) -> None:
        self.key = key
        self.verb, self.path = key.split(" ")
        self.params = params
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path))
        if self.path.endswith("{volume}"):
            # A volume's name has a slash or is escaped: it is the rest of the path.
            pattern = pattern.replace("(?P<volume>[^/]+)", "(?P<volume>.+)")
        self.pattern = re.compile(f"^{pattern}$")

    def spec_of(self, name: str) -> Spec | None:
        if name in self.params:
            return self.params[name]
        match = re.match(r"^([a-z]+)(0|[1-9][0-9]*)$", name)
        if match and int(match.group(2)) < NUMBERED.get(match.group(1), 0):
            return self.params.get(f"{match.group(1)}[n]")
        return None

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        """The parameters with their types, or the refusal that the genuine server sends."""
        errors: dict[str, str] = {}
        result: dict[str, Any] = {}
        for name, value in given.items():
            spec = self.spec_of(name)
            if spec is None:
                errors[name] = UNKNOWN
                continue
            try:
                result[name] = convert(name, spec, value)
                for other in str(spec.get("requires", "")).split(","):
                    if other and other not in given:
                        errors[other] = f"missing property - '{name}' requires this property"
            except ValueError as why:
                errors[name] = str(why)
        for name, spec in self.params.items():
            if not spec.get("optional") and name not in given and not name.endswith("[n]"):
                errors[name] = MISSING
        if errors:
            raise bad_parameters(errors)
        return result


def convert(name: str, spec: Spec, value: Any) -> Any:
    kind = spec["type"]
    if kind == "array":
        items = value if isinstance(value, list) else str(value).split("\0")
        check: Callable[[str], str] | None = FORMATS.get(spec.get("items", ""))
        for item in items:
            if isinstance(item, (dict, list)):
                raise ValueError("type check ('string') failed")
            if check:
                check(as_text(item))
        return [as_text(item) for item in items]
    if isinstance(value, (dict, list)):
        raise ValueError(f"type check ('{kind}') failed")
    text = as_text(value)
    if kind == "boolean":
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise ValueError(f"type check ('boolean') failed - got '{text}'")
    if kind == "integer":
        return check_number(spec, as_integer(text))
    if kind == "number":
        try:
            return check_number(spec, float(text))
        except ValueError as why:
            if "value must" in str(why):
                raise
            raise ValueError(f"type check ('number') failed - got '{text}'") from why
    return check_string(name, spec, text)


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return "" if value is None else str(value)


def as_integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f"type check ('integer') failed - got '{text}'")
    return int(text)


def check_number(spec: Spec, value: Any) -> Any:
    if "minimum" in spec and value < spec["minimum"]:
        raise ValueError(f"value must have a minimum value of {spec['minimum']}")
    if "maximum" in spec and value > spec["maximum"]:
        raise ValueError(f"value must have a maximum value of {spec['maximum']}")
    return value


def check_string(name: str, spec: Spec, text: str) -> str:
    if "maxLength" in spec and len(text) > spec["maxLength"]:
        raise ValueError(f"value may only be {spec['maxLength']} characters long")
    if "minLength" in spec and len(text) < spec["minLength"]:
        raise ValueError(f"value must be at least {spec['minLength']} characters long")
    if "pattern" in spec and not perl_pattern(spec["pattern"]).fullmatch(text):
        raise ValueError("value does not match the regex pattern")
    if "enum" in spec and text not in spec["enum"]:
        raise ValueError(
            f"value '{text}' does not have a value in the enumeration '{', '.join(spec['enum'])}'"
        )
    checked = FORMATS.get(spec.get("format", ""))
    if checked:
        return checked(text)
    return check_config_value(name, text) if "format" not in spec else text


def perl_pattern(text: str) -> re.Pattern[str]:
    """Perl writes compiled patterns as (?^flags:...)."""
    flags = 0
    match = re.fullmatch(r"\(\?\^(\w*):(.*)\)", text, re.DOTALL)
    if match:
        flags = re.IGNORECASE if "i" in match.group(1) else 0
        text = match.group(2)
    return re.compile(text, flags)


class Table:
    """All methods of the simulated version."""

    def __init__(self, version: tuple[int, int]) -> None:
        rows: dict[str, dict[str, Spec]] = json.loads(
            (Path(__file__).parent / "params.json").read_text()
        )
        for (key, name), since in SINCE.items():
            if version < since:
                rows[key].pop(name, None)
        self.methods = [Method(key, params) for key, params in rows.items()]
        # Literal paths before those with holes: /cluster/sdn/vnets before /cluster/sdn/{x}.
        self.methods.sort(key=lambda method: (method.path.count("{"), -len(method.path)))

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]] | None:
        for method in self.methods:
            match = method.pattern.match(path)
            if match and method.verb == verb:
                return method, match.groupdict()
        return None
