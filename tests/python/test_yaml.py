"""Specification files are read as `moat up` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inspect_moat import MoatSandboxEnvironmentConfig
from inspect_moat._yaml import load_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("52:54:00:12:34:56", "52:54:00:12:34:56"),
        ("12:30", "12:30"),
        ("on", "on"),
        ("yes", "yes"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("'null'", "null"),
        ("010", 10),
        ("0o10", 8),
        ("0x1f", 31),
        ("-7", -7),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("2026-11-18", "2026-11-18"),
        ("!!str 5", "5"),
        ("! '5'", "5"),
        ("<<", "<<"),
        ("=", "="),
        ("&name text", "text"),
    ],
)
def test_plain_words(text: str, value: Any) -> None:
    found = load_yaml(f"a: [b, {{c: {text} }}]")["a"][1]["c"]
    assert (found, type(found)) == (value, type(value))


def test_names_are_text() -> None:
    assert load_yaml("on: 1\n5: 2\n") == {"on": 1, "5": 2}
    assert load_yaml("") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x [1]\nb: *x\n", r"aliases \(\*name\) are not supported"),
        ("a: 1\nb: 2\na: 3\n", '"a" is there twice(.|\n)*line 3'),
        ("a: .inf", "infinity"),
        ("a: !!python/none x", "the tag tag:yaml.org,2002:python/none is not supported"),
        ("a: !!set {b}", "is not supported"),
        ("a: !!int '5'", "is not supported"),
        ("? [a]\n: b\n", "must be plain text"),
        ("[" * 40 + "]" * 40, "nested more than 32"),
        ("a: 1\n---\nb: 2\n", "single document"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(yaml.YAMLError, match=said):
        load_yaml(text)


def test_a_specification_with_an_address(tmp_path: Path) -> None:
    file = tmp_path / "moat.yaml"
    card = "{vnet: lan, mac: 52:54:00:12:34:56}"
    file.write_text(
        f"vms: [{{source: tiny, nics: [{card}]}}]\nnetworks: {{vnets: [{{alias: lan}}]}}\n"
    )
    (vm,) = MoatSandboxEnvironmentConfig.from_file(file).vms
    assert vm.nics is not None
    assert vm.nics[0].mac == "52:54:00:12:34:56"
    file.write_text("vms: [{source: tiny, source: tiny}]")
    with pytest.raises(ValueError, match=r"moat.yaml: .*there twice"):
        MoatSandboxEnvironmentConfig.from_file(file)
