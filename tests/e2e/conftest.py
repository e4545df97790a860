"""Fixtures of the end-to-end tests: real daemon, real QEMU, real guests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from home import TINY, Home


@pytest.fixture(scope="session", autouse=True)
def images() -> None:
    """The tiny image, built once into the data directory that all tests share."""
    os.environ.setdefault("MOAT_DATA_DIR", f"/tmp/moat-test-data-{os.getuid()}")
    home = Home()
    try:
        home.ok("image", "build", "tiny", timeout=1800)
    finally:
        home.close()


@pytest.fixture(scope="module")
def template(images: None) -> None:
    """The template of TINY, made ahead for tests whose daemon has short timeouts."""
    home = Home()
    home.ok("up", home.spec(TINY), timeout=900)
    home.close()


@pytest.fixture
def home(images: None) -> Iterator[Home]:
    made = Home()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(images: None) -> Iterator[Home]:
    """A home with one running sandbox for tests that leave it as it was."""
    made = Home()
    made.sandbox = made.up()  # type: ignore[attr-defined]
    yield made
    made.close()
