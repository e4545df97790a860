"""What the daemon's environment holds does not reach what a guest might break into."""

from __future__ import annotations

from pathlib import Path

from home import Home


def test_environment_of_qemu(home: Home) -> None:
    home.env["SOME_API_KEY"] = "not-for-guests"
    home.up()
    found = {pid: line for pid, line in home.processes().items() if "-name moat-" in line}
    assert found, "no QEMU is running"
    for pid in found:
        assert b"not-for-guests" not in Path(f"/proc/{pid}/environ").read_bytes()
