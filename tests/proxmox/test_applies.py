"""Applies of networks: each costs the whole cluster seconds without DHCP, so there are few."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from server import PveServer

from driver import SPEC, PveHome, add_template, instance, left

SANDBOX: dict[str, Any] = {**SPEC, "vms": [{**SPEC["vms"][0], "nics": [{"vnet": "default"}]}]}
AT_ONCE = 8


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=0.1, task_time=0.2, apply_time=0.7) as server:
        add_template(server)
        yield server


def applies(server: PveServer) -> int:
    return len([e for e in server.log() if (e["method"], e["path"]) == ("PUT", "/cluster/sdn")])


def starts_that_failed(server: PveServer) -> list[str]:
    """A VM does not start while networks are being applied."""
    tasks = [t for t in server.control("tasks") if t["type"] == "qmstart"]
    return [t["status"] for t in tasks if t["status"] != "OK"]


def test_sandboxes_at_once_share_applies(home: PveHome, clean: PveServer) -> None:
    home.ok("ls")  # starts the daemon
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = list(pool.map(lambda _: home.up(SANDBOX), range(AT_ONCE)))
    assert len(made) == AT_ONCE
    assert applies(clean) <= AT_ONCE // 2
    clean.control("clear_log")
    home.ok("rm", "--all")
    assert applies(clean) <= AT_ONCE // 2
    assert starts_that_failed(clean) == []


def test_lives_at_once_share_applies(home: PveHome, clean: PveServer) -> None:
    """Each sandbox goes its own way: some are made while others are removed."""
    lives = 3

    def live(_: int) -> None:
        for _ in range(lives):
            home.ok("rm", home.up(SANDBOX))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(live, range(AT_ONCE)))
    # One by one these are two for each life.
    assert applies(clean) <= AT_ONCE * lives
    assert starts_that_failed(clean) == []


def test_what_a_dead_daemon_left_is_removed_with_few(clean: PveServer) -> None:
    other = PveHome(instance(clean))
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda _: other.up(SANDBOX), range(AT_ONCE)))
        other.kill_daemon()
        clean.control("clear_log")
        other.ok("ls")
        other.assert_nothing_left(120)
        assert applies(clean) <= AT_ONCE // 2
    finally:
        other.close()


def test_one_alone_does_not_wait_for_others(home: PveHome, clean: PveServer) -> None:
    home.ok("rm", home.up(SANDBOX))
    assert applies(clean) == 2
    assert left(clean)["running"]["zones"] == []
