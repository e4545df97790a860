"""exec through Inspect's API against Inspect's own local provider, and where the time goes."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any

from inspect_ai.util._sandbox.local import LocalSandboxEnvironment
from vm import Home, Wire, report

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig, VmSandboxEnvironment
from inspect_moat._client import Call, Connection

RUNS = 100
WARM_UP = 10
COMMAND = ["/bin/true"]


class Stopwatch:
    """Makes the provider ask the daemon for the time that it took, and notes the answer."""

    def __init__(self) -> None:
        self.daemon = self.guest = 0.0
        send, receive = Connection.send, Call.receive

        def ask(connection: Connection, message: dict[str, Any], blob: Any = b"") -> None:
            if message["type"] == "request":
                message = {**message, "timing": True}
            send(connection, message, blob)

        def note(call: Call, message: dict[str, Any], blob: bytes) -> None:
            if "timing" in message:
                self.note(message["timing"])
            receive(call, message, blob)

        Connection.send, Call.receive = ask, note  # type: ignore[method-assign]

    def note(self, timing: dict[str, int]) -> None:
        """Milliseconds."""
        self.daemon, self.guest = timing["daemon_us"] / 1000, timing["guest_us"] / 1000


class RawExec:
    """The same command by a client that does nothing: its bytes are there before the clock starts.

    What it takes beyond the daemon's own time is what the socket costs, with the kernel's waking of
    the two processes.
    """

    def __init__(self, home: Home, machine: VmSandboxEnvironment) -> None:
        self.wire = Wire(home)
        where = {"sandbox": machine.sandbox_id, "vm": machine.vm_name}
        args = {**where, "argv": COMMAND, "capture": True, "output_max": 10 * 1024 * 1024}
        request = {"type": "request", "id": 1, "op": "exec", "args": args, "timing": True}
        text = json.dumps(request).encode()
        self.frame = struct.pack("<II", len(text), 0) + text

    def socket_ms(self) -> float:
        start = time.perf_counter()
        self.wire.sock.sendall(self.frame)
        got = self.wire.sock.recv(65536)
        whole = (time.perf_counter() - start) * 1000
        answer = json.loads(got[8:])
        assert answer["type"] == "result", answer
        return whole - sum(answer["timing"].values()) / 1000


async def timed_async(function: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await function()
    return (time.perf_counter() - start) * 1000


async def measure(home: Home) -> None:
    config = MoatSandboxEnvironmentConfig.model_validate(
        {"vms": [{"source": "tiny", "ram_mb": 256, "vcpus": 1}]}
    )
    watch = Stopwatch()
    environments = await MoatSandboxEnvironment.sample_init("bench", config, {})
    ours, local = environments["default"], LocalSandboxEnvironment()
    raw = RawExec(home, ours.as_type(VmSandboxEnvironment))

    names = ("whole", "floor", "python", "socket", "daemon", "guest")
    times: dict[str, list[float]] = {name: [] for name in names}
    for run in range(WARM_UP + RUNS):
        whole = await timed_async(lambda: ours.exec(COMMAND))
        daemon, guest = watch.daemon, watch.guest
        socket = raw.socket_ms()
        floor = await timed_async(lambda: local.exec(COMMAND))
        if run >= WARM_UP:
            python = whole - daemon - guest - socket
            values = (whole, floor, python, socket, daemon, guest)
            for name, value in zip(names, values, strict=True):
                times[name].append(value)
    await MoatSandboxEnvironment.sample_cleanup("bench", config, environments, False)

    report("inspect_exec", times["whole"], times["floor"], "ms")
    for name in ("python", "socket", "daemon", "guest"):
        percent = round(100 * sum(times[name]) / sum(times["whole"]), 1)
        report(f"share_{name}", times[name], times["whole"], "ms", percent=percent)


def run() -> None:
    home = Home()
    os.environ["MOAT_HOME"] = str(home.dir)  # the provider finds the same daemon
    try:
        home.ok("image", "build", "tiny", timeout=1800)
        asyncio.run(measure(home))
    finally:
        home.close()
