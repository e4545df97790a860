"""Whoever takes over one process of moat gets at no other, and at no file of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from home import Home
from walls import ALL, SHOWN, namespaces, probe, user_of

pytestmark = pytest.mark.needs_root("it takes the place of other processes")


@pytest.fixture(scope="module")
def two(images: None) -> Iterator[Home]:
    home = Home()
    home.first = home.up()  # type: ignore[attr-defined]
    home.second = home.up()  # type: ignore[attr-defined]
    yield home
    home.close()


def qemus(home: Home) -> tuple[int, int]:
    (first,), (second,) = home.qemu_pids(home.first), home.qemu_pids(home.second)
    return first, second


def test_no_qemu_gets_at_another(two: Home) -> None:
    first, second = qemus(two)
    # By its rights alone, as if it had left all namespaces.
    assert probe(user_of(first), [second])["done"] == []
    assert probe(user_of(second), [second])["done"] == ALL, "the probe works"


def test_qemu_sees_no_other_process(two: Home) -> None:
    first, second = qemus(two)
    # By its namespaces alone, with all rights of root.
    inside = probe(0, [second], inside=first)
    assert inside["done"] == []
    assert len(inside["processes"]) == 2, "QEMU and the probe"
    assert 1 in inside["processes"]


def test_qemu_sees_no_file_of_the_host(two: Home) -> None:
    first, _ = qemus(two)
    inside = probe(user_of(first), [], inside=first)
    assert set(inside["files"]) <= SHOWN
    assert inside["written"] == []
    outside = probe(user_of(first), [])
    assert "passwd" in outside["files"], "the probe works"


def test_each_qemu_has_its_own(two: Home) -> None:
    first, second = (namespaces(pid) for pid in qemus(two))
    mine = namespaces(os.getpid())
    for kind in ("mnt", "pid", "net", "ipc", "uts"):
        assert len({first[kind], second[kind], mine[kind]}) == 3, kind
