"""Fixtures of the tests of and against the Proxmox VE test server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client import Client
from server import PveServer

from driver import PveHome, instance, left

# Delays of the genuine server, shortened: what is tested is that they are there.
SCALE = 0.1


@pytest.fixture(scope="module")
def shared() -> Iterator[PveServer]:
    """A server without real VMs, for tests that leave it as it was."""
    with PveServer(time_scale=SCALE, task_time=0.05, token="probe=s3cret-of-a-token") as server:
        yield server


@pytest.fixture
def server(shared: PveServer) -> Iterator[PveServer]:
    shared.clear()
    yield shared
    shared.clear()


@pytest.fixture
def client(server: PveServer) -> Client:
    return Client(server)


@pytest.fixture
def clean(pve: PveServer) -> Iterator[PveServer]:
    """Nothing may be there after the test that was not there before it."""
    pve.clear()
    before = left(pve)
    yield pve
    pve.clear()
    assert left(pve) == before


@pytest.fixture(scope="module")
def home(pve: PveServer) -> Iterator[PveHome]:
    """A moat that knows the module's server."""
    home = PveHome(instance(pve))
    yield home
    home.close()
