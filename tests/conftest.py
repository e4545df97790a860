"""What all tests in Python have in common: the mark of those that need root, and their costs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from measured import PID, processor_seconds

NEEDS_ROOT = "needs root: "
SHOWN = 40
costs: dict[str, float] = {}
measured = {"so far": 0.0}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_root(why): only root can run the test, and why")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the test's fixtures, which need root as well."""
    mark = item.get_closest_marker("needs_root")
    if mark and os.geteuid() != 0:
        (why,) = mark.args
        pytest.skip(NEEDS_ROOT + why)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Comes after setup, call and teardown of a test: a part costs what was used since the last."""
    if PID in os.environ:
        now = processor_seconds(int(os.environ[PID]))
        costs[f"{report.when:8} {report.nodeid}"] = now - measured["so far"]
        measured["so far"] = now


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """tests/run reads the lines about root."""
    for report in terminalreporter.getreports("skipped"):
        _, _, why = report.longrepr
        if why.startswith("Skipped: " + NEEDS_ROOT):
            terminalreporter.write_line(f"{report.nodeid} {why.removeprefix('Skipped: ')}")
    dearest = sorted(costs.items(), key=lambda cost: -cost[1])[:SHOWN]
    if dearest:
        terminalreporter.section("what cost most, in processor seconds")
    for name, seconds in dearest:
        terminalreporter.write_line(f"{seconds:6.1f} {name}")
