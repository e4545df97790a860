"""Fixtures of all tests of the Python package."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_daemon import bare, debian, debian_lab, debian_machine, lab, machine, moat, tiny

__all__ = ["bare", "debian", "debian_lab", "debian_machine", "lab", "machine", "moat", "tiny"]

import inspect_moat._registry  # noqa: F401  (registers the providers, installed or not)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Inspect runs under both."""
    return str(request.param)


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime directory for one test, which is its state directory, too."""
    directory = Path(tempfile.mkdtemp(prefix="moat-"))
    monkeypatch.delenv("MOAT_HOME", raising=False)  # the fixtures of the real daemon set it
    monkeypatch.setenv("MOAT_RUNTIME_DIR", str(directory))
    monkeypatch.setenv("MOAT_STATE_DIR", str(directory))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
