"""The rows of Inspect's contract about the start of an eval, and about cleaning up by hand.

Each test has a daemon of its own, without images and VMs. Names begin with the method that the row
is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai._util.error import PrerequisiteError

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig
from inspect_moat._providers import ProxmoxSandboxEnvironment, VagrantSandboxEnvironment
from real_daemon import TINY, Moat

pytestmark = pytest.mark.anyio


def config_of(spec: dict[str, Any]) -> MoatSandboxEnvironmentConfig:
    return MoatSandboxEnvironmentConfig.model_validate(spec)


async def test_cli_cleanup_of_what_is_not_there_fails(
    bare: Moat, capsys: pytest.CaptureFixture[str]
) -> None:
    await MoatSandboxEnvironment.cli_cleanup(None)
    assert "Removed 0" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        await MoatSandboxEnvironment.cli_cleanup("abcd1234")
    assert caught.value.code == 1
    assert "abcd1234" in capsys.readouterr().err


RECIPE = """#!/bin/sh
echo built >>"$MOAT_CACHE_DIR/builds"
: >"$1/kernel" && echo x >"$1/kernel"
echo '{"format":1,"arch":"x86_64","kernel":"kernel","user":"root"}' >"$1/manifest.json"
"""


async def test_task_init_builds_images_once(
    bare: Moat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("MOAT_CACHE_DIR", str(tmp_path))
    recipes = Path(bare.settings["MOAT_DATA_DIR"]) / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "mine.sh").write_text(RECIPE)
    config = config_of({"vms": [{"source": "mine"}, {"source": "mine", "name": "b"}]})
    for _ in range(2):
        await MoatSandboxEnvironment.task_init("startup", config)
    assert (tmp_path / "builds").read_text() == "built\n"
    assert capsys.readouterr().out.count("building the image mine (once; it is kept)") == 1


async def test_task_init_stops_an_eval_whose_image_nobody_can_build(bare: Moat) -> None:
    with pytest.raises(PrerequisiteError, match='sandbox moat: no recipe for "tinny"'):
        await MoatSandboxEnvironment.task_init("startup", config_of({"vms": [{"source": "tinny"}]}))


async def test_task_init_without_a_binary_says_how_to_get_one(
    bare: Moat, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MOAT_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("inspect_moat._daemon.__file__", str(tmp_path / "x.py"))
    with pytest.raises(PrerequisiteError, match="set MOAT_BIN"):
        await MoatSandboxEnvironment.task_init("startup", config_of(TINY))


async def test_task_init_environment_asks_for_nothing() -> None:
    for provider in (MoatSandboxEnvironment, ProxmoxSandboxEnvironment, VagrantSandboxEnvironment):
        assert await provider.task_init_environment(None, {}) == {}
