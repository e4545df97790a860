"""Limits of the host: memory, disk, and streams that are larger than any buffer."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from home import COLD, Home
from small import SmallDisk

from tools import in_guest, listed, status_kb, wire

GIB = 1 << 30
AGENT_PORT = "/dev/virtio-ports/org.qemu.guest_agent.0"


def tiny(ram_mb: int) -> dict[str, Any]:
    return {"vms": [{**COLD["vms"][0], "ram_mb": ram_mb}]}


def memory(home: Home) -> dict[str, int]:
    return json.loads(home.ok("info", "--json"))["memory"]


# ---- memory ----


def refusal(home: Home, victim: str) -> str:
    """The error of a command when the link into the guest is lost."""
    for _ in range(300):
        if home.run("exec", victim, "--", "true", timeout=180).returncode != 0:
            return home.fails("exec", victim, "--", "true", timeout=180)
        time.sleep(0.2)
    raise AssertionError("commands still run")


def test_agents_that_talk_rubbish_or_not_at_all(template: None) -> None:
    home = Home("idle_exit: 0\nboot_timeout: 25\n")
    megabytes = {
        "yes rubbish": 10,
        "cat /dev/zero": 100,  # it has no newline
        "cat /dev/urandom": 10,
        "yes '{\"return\":{}}'": 10,
        "true": 0,
    }
    try:
        victims = [home.up() for _ in megabytes]
        before = status_kb(home.daemon_pid(), "VmRSS")
        for victim, (says, most) in zip(victims, megabytes.items(), strict=True):
            script = (
                "for f in /usr/sbin/qemu-ga /usr/bin/qemu-ga; do [ -e $f ] && mv $f /gone; done; "
                f"killall -9 qemu-ga moat-guest; {says} | head -c {most}000000 > {AGENT_PORT}"
            )
            outlives = f"setsid sh -c {shlex.quote(script)} >/dev/null 2>&1 &"
            in_guest(home, victim, outlives)
        with ThreadPoolExecutor(len(victims)) as pool:
            refusals = list(pool.map(lambda victim: refusal(home, victim), victims))
        assert all("agent" in said or "runner" in said for said in refusals), refusals
        silent = refusals[-1]
        assert "guest agent" in silent
        assert "timed out" in silent or "does not answer" in silent
        kept = status_kb(home.daemon_pid(), "VmRSS") - before
        assert kept < 10_000, "the daemon kept what the guests sent"
        assert home.ok("exec", home.up(), "--", "echo", "fine") == "fine"
        home.ok("rm", "--all")
        home.assert_nothing_left()
    finally:
        home.close()


def test_what_never_fits_is_refused_at_once(home: Home) -> None:
    home.ok("ls")
    total = memory(home)["total_mb"]
    for more in ([], ["--no-wait"]):
        said = home.fails("up", home.spec(tiny(total + 1000)), *more)
        assert "not enough memory" in said
        assert f"of {total} MB" in said
    home.assert_nothing_left()
    assert memory(home)["committed_mb"] == 0


def test_second_sandbox_waits_for_the_first(home: Home) -> None:
    home.ok("ls")
    free = memory(home)["available_mb"]
    home.ok("serve", "--stop")
    # One fits, two do not, and what others on this machine do meanwhile makes no difference:
    # they may take a quarter of what is free, or give back as much.
    (home.dir / "config.yaml").write_text(f"idle_exit: 0\nmemory_keep_mb: {free // 4}\n")
    spec = tiny(free // 2)
    first = home.up(spec)
    assert memory(home)["committed_mb"] >= free // 2
    assert "not enough memory" in home.fails("up", home.spec(spec), "--no-wait")
    # It cannot be forked either: it runs on, and nothing that was saved for the fork is left.
    assert "not enough memory" in home.fails("fork", first, "--no-wait", timeout=600)
    assert home.ok("exec", first, "--", "echo", "fine") == "fine"
    assert os.listdir(home.dir / "state" / "sandboxes" / first / "snapshots") == []

    client = wire(home)
    refused = client.final(client.request("up", {"spec": spec, "wait": False}))
    assert refused["error"]["kind"] == "busy"
    waiting = client.request("up", {"spec": spec})
    news = client.answers(waiting)
    assert "memory" in next(news)[0]["text"]
    assert [s["id"] for s in listed(home)] == [first]
    # A client that waits may give up, or reach its timeout.
    late = wire(home)
    assert late.final(late.request("up", {"spec": spec}, timeout=0.5))["error"]["kind"] == "timeout"

    home.ok("rm", first)
    assert next(n for n, _ in news if "starting" in n.get("text", ""))
    client.send({"type": "cancel", "id": waiting})
    assert list(news)[-1][0]["error"]["kind"] == "cancelled"
    home.assert_nothing_left()
    assert memory(home)["committed_mb"] == 0


# ---- disk ----


@pytest.fixture
def small(images: None) -> Iterator[SmallDisk]:
    home = SmallDisk(24)
    yield home
    home.close()


@pytest.mark.needs_root("it mounts a small disk")
def test_up_on_a_full_disk(small: SmallDisk) -> None:
    small.ok("ls")
    small.fill()
    said = small.fails("up", small.spec(COLD))
    assert "full" in said or "No space left" in said
    assert len(said.splitlines()) <= 2
    assert listed(small) == []
    small.unfill()
    small.assert_nothing_left()
    # The daemon still works.
    client = wire(small)
    wanted = client.request("up", {"spec": COLD})
    assert next(n for n, _ in client.answers(wanted) if "starting" in n.get("text", ""))


@pytest.mark.needs_root("it mounts a small disk")
def test_rm_on_a_full_disk(small: SmallDisk) -> None:
    sandbox = small.up()
    small.fill()
    assert small.ok("exec", sandbox, "--", "echo", "fine") == "fine"
    done = small.run("rm", sandbox)
    # The journal may have no room to forget it, but what costs anything is gone.
    assert done.returncode == 0 or "full" in done.stderr
    assert listed(small) == []
    assert small.qemu_pids() == []
    assert not (small.disk / "sandboxes" / sandbox).exists()
    small.unfill()
    small.ok("gc")
    small.assert_nothing_left()


@pytest.mark.needs_root("it mounts a small disk")
def test_start_on_a_full_disk(small: SmallDisk) -> None:
    small.fill()
    said = small.fails("ls")
    assert "full" in said or "No space left" in said
    small.unfill()
    small.ok("ls")


@pytest.mark.needs_root("it mounts a small disk")
def test_guest_that_fills_the_hosts_disk(small: SmallDisk) -> None:
    small.ok("image", "build", "tiny-disk", timeout=1800)
    spec = {**tiny(192), "networks": "none"}
    spec["vms"][0]["source"] = "tiny-disk"
    sandbox = small.up(spec)
    small.fill()
    script = "dd if=/dev/urandom of=/root/big bs=1M count=20; sync"
    said = small.fails("exec", "-u", "root", sandbox, "--", "sh", "-c", script, timeout=120)
    assert "disk is full" in said
    vm = listed(small)[0]["vms"][0]
    assert vm["state"] == "dead"
    assert "disk is full" in vm["error"]
    assert small.qemu_pids(sandbox) == [], "what is dead has given everything back"
    assert "disk is full" in small.fails("exec", sandbox, "--", "true")
    # As when the kernel takes its time over what QEMU had open.
    files = [path for path in (small.disk / "sandboxes" / sandbox).rglob("*") if path.is_file()]
    held = [path.open("rb") for path in files]
    late = threading.Timer(0.3, lambda: [file.close() for file in held])
    late.start()
    small.ok("rm", sandbox)
    late.join()
    small.assert_nothing_left()


# ---- streams ----


class Streams(Home):
    def __init__(self) -> None:
        super().__init__()
        self.sandbox = self.up(tiny(256))
        in_guest(self, self.sandbox, f"truncate -s {GIB} /tmp/big && chmod 644 /tmp/big")
        self.ok("exec", self.sandbox, "--", "true")
        self.pid = self.daemon_pid()
        self.before = status_kb(self.pid, "VmHWM")

    def assert_small(self) -> None:
        assert status_kb(self.pid, "VmHWM") < self.before + 30_000


@pytest.fixture(scope="module")
def streams(images: None) -> Iterator[Streams]:
    home = Streams()
    yield home
    home.close()


def count_bytes(pipe: Any) -> int:
    total = 0
    while piece := pipe.read(1 << 20):
        assert not piece.strip(b"\0")
        total += len(piece)
    return total


def test_gibibyte_out(streams: Streams) -> None:
    client = streams.start("cp", f"{streams.sandbox}:/tmp/big", "-", stdout=subprocess.PIPE)
    assert count_bytes(client.stdout) == GIB
    assert client.wait(60) == 0
    assert status_kb(streams.qemu_pids()[0], "VmHWM") < 600_000
    streams.assert_small()


def test_gibibyte_in(streams: Streams) -> None:
    big = streams.dir / "big"
    with big.open("wb") as file:
        file.truncate(GIB)
    streams.ok("cp", "-u", "root", str(big), f"{streams.sandbox}:/dev/null", timeout=300)
    in_guest(streams, streams.sandbox, "chmod 666 /dev/null")
    streams.assert_small()


def test_stream_in_arrives_whole(streams: Streams) -> None:
    data = os.urandom(1 << 20) * 20
    client = streams.start("cp", "-", f"{streams.sandbox}:/tmp/stream", stdin=subprocess.PIPE)
    client.communicate(data, timeout=120)
    assert client.returncode == 0
    back = Path(streams.dir / "back")
    streams.ok("cp", f"{streams.sandbox}:/tmp/stream", str(back))
    assert back.read_bytes() == data
    in_guest(streams, streams.sandbox, "rm /tmp/stream")
    streams.assert_small()


def test_long_output_is_streamed(streams: Streams) -> None:
    argv = ["exec", streams.sandbox, "--", "dd", "if=/tmp/big", "bs=1M", "count=256"]
    client = streams.start(*argv, stdout=subprocess.PIPE)
    assert count_bytes(client.stdout) == GIB // 4
    assert client.wait(60) == 0
    streams.assert_small()


def test_capture_keeps_the_tail(streams: Streams) -> None:
    client = wire(streams)
    script = "dd if=/dev/zero bs=1000000 count=50 2>/dev/null; echo the end; echo short >&2"
    args = {"sandbox": streams.sandbox, "argv": ["sh", "-c", script]}
    wanted = client.request("exec", {**args, "capture": True, "output_max": 100_000})
    output: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    for message, blob in client.answers(wanted):
        if message["type"] == "data":
            output[message["stream"]] += blob
    assert message["result"]["stdout_bytes"] == 50_000_008
    assert message["result"]["stderr_bytes"] == 6
    assert len(output["stdout"]) == 100_000
    assert output["stdout"].endswith(b"\0the end\n")
    assert output["stderr"] == b"short\n"
    streams.assert_small()


def test_file_larger_than_the_limit(streams: Streams) -> None:
    client = wire(streams)
    args = {"sandbox": streams.sandbox, "path": "/tmp/big", "max": 1000}
    assert client.final(client.request("read", args))["error"]["kind"] == "limit"
