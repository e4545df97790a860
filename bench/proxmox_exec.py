"""One command in a VM on a Proxmox server: ours by agent calls and over the kept line, against
the calls that the existing Python plugin makes for it, each on a connection of its own."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import certifi
import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "proxmox"))

from client import WAIT_SECONDS, Client
from probe import QEMU, Probe, start_vm
from server import PveServer
from vm import report, timed

RUNS = 10
VM = 101
# What the genuine server takes for an agent call.
AGENT_SECONDS = 0.11
LARGE = 4 << 20


class Replay:
    """The existing plugin's way: a script, its exec, polls, three files each after a ping, rm.

    With its HTTP library, and like it with a new client, and so a new connection, for each call.
    """

    def __init__(self, server: PveServer, headers: dict[str, str]) -> None:
        self.server = server
        self.headers = headers
        self.calls = 0

    async def call(self, verb: str, name: str, **params: Any) -> dict[str, Any]:
        self.calls += 1
        # The authorities that a new client loads by itself, and the test server's.
        trust = ssl.create_default_context(cafile=certifi.where())
        trust.load_verify_locations(self.server.certificate)
        url = f"https://localhost:{self.server.port}/api2/json{QEMU}/{VM}/agent/{name}"
        query = params if verb == "GET" else None
        async with httpx.AsyncClient(verify=trust, headers=self.headers, timeout=60) as client:
            reply = await client.request(verb, url, params=query, json=None if query else params)
        return dict(reply.raise_for_status().json()["data"] or {})

    async def exec(self, command: str) -> None:
        base = f"/tmp/replay-{self.calls}"
        files = [f"{base}.{name}" for name in ("out", "err", "code")]
        # What its script does, step by step: the files are new, and on the disk before it ends.
        script = f"rm -f {' '.join(files)}\n"
        script += f"{command} >{base}.out 2>{base}.err\n"
        script += f'echo -n "$?" >{base}.code\nsync\n'
        await self.call("POST", "file-write", file=f"{base}.sh", content=script)
        pid = (await self.call("POST", "exec", command=["sh", f"{base}.sh"]))["pid"]
        pause = 1.0
        while not (await self.call("GET", "exec-status", pid=pid))["exited"]:
            await asyncio.sleep(pause)  # as the plugin does
            pause *= 1.3
        read = {}
        for name in ("out", "err", "code"):
            await self.call("POST", "ping")
            read[name] = (await self.call("GET", "file-read", file=f"{base}.{name}"))["content"]
        await self.call("POST", "exec", command=["sh", "-c", f"rm -f {base}.*"])
        assert read["code"] == "0", read


def calls_of(server: PveServer) -> int:
    count = len(server.log())
    server.control("clear_log")
    return count


def measure(probe: Probe, server: PveServer) -> tuple[float, int]:
    calls_of(server)
    done = probe.exec("/bin/true")
    assert done["code"] == 0, done
    return float(done["seconds"]) * 1000, calls_of(server)


def write_large(pieces: Probe, server: PveServer) -> dict[str, list[float]]:
    """A file on a disc, and in the pieces that the agent takes; milliseconds."""
    content = os.urandom(LARGE)
    took: dict[str, list[float]] = {"pieces": [], "disc": []}
    with Probe(server, VM, "disc") as disc:
        assert disc.sh("until [ -b /dev/sr0 ]; do sleep 0.2; done")["code"] == 0
        for name, probe, runs in (("pieces", pieces, 1), ("disc", disc, 3)):
            for _ in range(runs):
                done = probe.do("write", path="/root/large", content=content)
                assert done.get("error") is None, done
                took[name].append(float(done["seconds"]) * 1000)
    return took


def run() -> None:
    os.environ.setdefault("MOAT_DATA_DIR", str(Path(__file__).parents[1] / "build/test-data"))
    with PveServer(vms="qemu", task_time=0.05, agent_latency=AGENT_SECONDS) as server:
        client = Client(server)
        start_vm(client, VM)
        with Probe(server, VM) as rest, Probe(server, VM, "kept-line") as kept:
            replay = Replay(server, client.headers)
            for _ in range(3):  # warm up, and let the runner in
                rest.exec("/bin/true")
            deadline = time.monotonic() + WAIT_SECONDS
            while kept.exec("/bin/true")["requests"]:
                assert time.monotonic() < deadline, "no kept line"
            baseline, ours, channel = [], [], []
            replay.calls = 0
            for _ in range(RUNS):
                baseline.append(timed(lambda: asyncio.run(replay.exec("/bin/true"))))
                ours += [measure(rest, server) for _ in range(3)]
                channel += [measure(kept, server) for _ in range(5)]
            theirs = replay.calls / RUNS
            large = write_large(rest, server)
    for name, runs in (("proxmox_exec_rest", ours), ("proxmox_exec_channel", channel)):
        counts = [count for _, count in runs]
        report(
            name,
            [seconds for seconds, _ in runs],
            baseline,
            "ms",
            calls_median=sorted(counts)[len(counts) // 2],
            calls_most=max(counts),
            calls_baseline=theirs,
        )
    report("proxmox_write_4mib", large["disc"], large["pieces"], "ms")
