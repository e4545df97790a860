"""exec through Inspect's API against Inspect's own local provider, and where the time goes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from inspect_ai.util._sandbox.local import LocalSandboxEnvironment
from vm import Home, Wire, report, timed

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig

RUNS = 100
WARM_UP = 10
COMMAND = ["/bin/true"]


async def timed_async(function: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await function()
    return (time.perf_counter() - start) * 1000


async def measure(home: Home) -> None:
    config = MoatSandboxEnvironmentConfig.model_validate(
        {"vms": [{"source": "tiny", "ram_mb": 256, "vcpus": 1}]}
    )
    environments = await MoatSandboxEnvironment.sample_init("bench", config, {})
    ours, local = environments["default"], LocalSandboxEnvironment()
    wire = Wire(home)
    sandbox = home.ok("ls", "-q")

    def ask(op: str, args: dict[str, object]) -> None:
        assert wire.final(wire.request(op, args))["type"] == "result"

    def over_the_socket() -> None:
        ask("exec", {"sandbox": sandbox, "argv": COMMAND, "capture": True})

    times: dict[str, list[float]] = {"ours": [], "floor": [], "socket": [], "daemon": []}
    for run in range(WARM_UP + RUNS):
        sample = {
            "ours": await timed_async(lambda: ours.exec(COMMAND)),
            "floor": await timed_async(lambda: local.exec(COMMAND)),
            "socket": timed(over_the_socket),
            "daemon": timed(lambda: ask("info", {})),
        }
        for name, value in sample.items():
            if run >= WARM_UP:
                times[name].append(value)
    await MoatSandboxEnvironment.sample_cleanup("bench", config, environments, False)

    report("inspect_exec", times["ours"], times["floor"], "ms")
    whole = times["ours"]
    python = [max(a - b, 0.001) for a, b in zip(times["ours"], times["socket"], strict=True)]
    guest = [max(a - b, 0.001) for a, b in zip(times["socket"], times["daemon"], strict=True)]
    report("share_python", python, whole, "ms")
    report("share_daemon", times["daemon"], whole, "ms")
    report("share_guest", guest, whole, "ms")


def run() -> None:
    home = Home()
    os.environ["MOAT_HOME"] = str(home.dir)  # the provider finds the same daemon
    try:
        home.ok("image", "build", "tiny", timeout=1800)
        asyncio.run(measure(home))
    finally:
        home.close()
