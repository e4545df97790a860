"""A moat with Vagrant and libvirt; runs inside tests/vagrant/lab.sh.

All tests share one sandbox of two machines, `lab`: emulated ones are slow to boot. Tests that break
it come last.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from vagrant_home import VagrantHome

import inspect_moat._registry  # noqa: F401  (registers the providers, installed or not)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def home() -> Iterator[VagrantHome]:
    listed = subprocess.run(["vagrant", "box", "list"], capture_output=True, text=True, check=True)
    if "moat-test" not in listed.stdout:
        subprocess.run(["vagrant", "box", "add", os.environ["MOAT_TEST_BOX"]], check=True)
    made = VagrantHome()
    os.environ["MOAT_HOME"] = str(made.dir)
    yield made
    made.run("rm", "--all", timeout=600)
    made.close()
    assert made.domains() == []


@pytest.fixture(scope="session")
def lab(home: VagrantHome) -> str:
    return home.up_lab("FLAG=first")
