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


def test_logins_that_a_killed_daemon_was_writing(home: Home) -> None:
    state = home.dir / "state"
    state.mkdir(parents=True)
    unfinished = state / "proxmox-logins.json.tmp-a1B2c3"
    unfinished.write_text("password")
    others = [state / "notes.tmp-mine", state / "tmp-a1B2c3"]
    for other in others:
        other.write_text("somebody's")
    home.ok("image", "ls")  # starts a daemon
    assert not unfinished.exists()
    assert all(other.exists() for other in others)
