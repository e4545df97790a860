"""Sandboxes on Proxmox servers: API calls and time of a create, and many at once."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "proxmox"))

from server import PveServer
from vm import report, timed

from driver import SPEC, PveHome, add_template, instance

RUNS = 5
TASK_SECONDS = 1.0
SERVERS = 4
SANDBOXES = (100, 250)  # the work for one must not grow with their number


def ended_tasks(server: PveServer, kinds: tuple[str, ...]) -> float:
    """The seconds that the server's own tasks took."""
    return sum(t["seconds"] for t in server.control("tasks") if t["type"] in kinds)


def create() -> None:
    with PveServer(task_time=TASK_SECONDS) as server:
        add_template(server)
        home = PveHome(instance(server))
        spec = home.spec({**SPEC, "vms": [{**SPEC["vms"][0], "nics": [{"vnet": "default"}]}]})
        making = ("qmclone", "qmstart", "reloadnetworkall")
        ours, tasks, calls, polls = [], [], [], []
        try:
            home.ok("rm", home.ok("up", spec))  # logged in, caches filled
            for _ in range(RUNS):
                server.control("clear_log")
                before = ended_tasks(server, making)
                made: list[str] = []
                ours.append(timed(lambda made=made: made.append(home.ok("up", spec))))
                tasks.append((ended_tasks(server, making) - before) * 1000)
                paths = [entry["path"] for entry in server.log()]
                polls.append(sum("/tasks/" in path for path in paths))
                calls.append(len(paths) - polls[-1])
                home.ok("rm", made[0])
        finally:
            home.close()
    # The baseline is what the server itself needs if its tasks run one after the other.
    report("proxmox_create", ours, tasks, "ms", calls=max(calls), polls=max(polls))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS")) / 1024


def many(sandboxes_at_once: int) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(PveServer(task_time=0.2)) for _ in range(SERVERS)]
        for server in servers:
            add_template(server)
        home = PveHome(*(instance(s, instance_id=f"s{i}") for i, s in enumerate(servers)))
        stack.callback(home.close)
        home.ok("ls")  # starts it
        daemon = home.daemon_pid()
        used, small, began = cpu_seconds(daemon), resident_mb(daemon), time.monotonic()
        sandboxes: list[str] = []
        spec = home.spec({**SPEC, "vms": [{**SPEC["vms"][0], "ram_mb": 128}]})
        gate = threading.Semaphore(50)  # processes of clients, not sandboxes

        def one() -> None:
            with gate:
                sandboxes.append(home.ok("up", spec, timeout=900))

        threads = [threading.Thread(target=one) for _ in range(sandboxes_at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        figures: dict[str, Any] = {
            "name": f"proxmox_{sandboxes_at_once}_at_once",
            "sandboxes": len(sandboxes),
            "servers": SERVERS,
            "seconds": round(seconds, 1),
            "daemon_mb": round(resident_mb(daemon), 1),
            "daemon_mb_before": round(small, 1),
            "daemon_cpu_seconds": round(cpu_seconds(daemon) - used, 1),
            "sdn_applies": sum(s.control("figures")["applies"] for s in servers),
        }
        began = time.monotonic()
        home.ok("rm", "--all", timeout=900)
        figures["removal_seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps(figures), flush=True)


def run() -> None:
    create()
    for n in SANDBOXES:
        many(n)
