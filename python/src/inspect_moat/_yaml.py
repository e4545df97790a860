"""Specifications in YAML and JSON, by the rules of docs/spec.md: read here as `moat up` reads them.

PyYAML alone takes `on` for a boolean and `52:54:00:12:34:56` for a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

DEPTH_MAX = 32

_PLAIN = "moat:plain"  # a scalar without quotes and without a tag: it may be more than text
_TAGS = {
    yaml.ScalarEvent: "tag:yaml.org,2002:str",
    yaml.SequenceStartEvent: "tag:yaml.org,2002:seq",
    yaml.MappingStartEvent: "tag:yaml.org,2002:map",
}
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_REAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BEYOND = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")


class _Reader(yaml.SafeLoader):
    """Makes nodes of a document, and refuses aliases and tags."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):  # a few aliases can expand to gigabytes
            raise _error(event, "aliases (*name) are not supported; write it out")
        if event.tag not in (None, "!", _TAGS.get(type(event))):
            raise _error(event, f"the tag {event.tag} is not supported")
        if self._depth > DEPTH_MAX:
            raise _error(event, f"nested more than {DEPTH_MAX} levels deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def load_json(text: str) -> Any:
    """The value of a text, without what JSON does not have but Python reads.

    Raises:
        ValueError: the text says what is wrong.
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)


def _object(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'"{twice}" is there twice')
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def load_yaml(text: str) -> Any:
    """The one document of a text.

    Raises:
        yaml.YAMLError: the text says where it is wrong.
    """
    reader = _Reader(text)
    try:
        node = reader.get_single_node()
    finally:
        reader.dispose()
    return None if node is None else _value(node)


def _value(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _members(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    is_plain = node.tag == _PLAIN and node.style is None
    return _plain(node) if is_plain else node.value


def _members(node: yaml.MappingNode) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error(key, "the name of a member must be plain text")
        if key.value in members:
            raise _error(key, f'"{key.value}" is there twice')
        members[key.value] = _value(value)
    return members


def _plain(node: yaml.Node) -> Any:
    text: str = node.value
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _REAL.fullmatch(text):
        return float(text)
    if _BEYOND.fullmatch(text):
        raise _error(node, "infinity and not-a-number have no place in a spec")
    return text


def _error(at: Any, problem: str) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)
