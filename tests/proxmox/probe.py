"""Runs guest-probe: the link into a VM without a daemon, for tests and measurements."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from client import Client
from server import PveServer

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MOAT_BIN", ROOT / "build/src/cli/moat")).resolve().parents[2]
RUNNER = BUILD / "src/moat-guest" / f"moat-guest-{os.uname().machine}"
QEMU = "/nodes/pve/qemu"


# No operation may hang: later than this it fails.
DEADLINE = 120


class Probe:
    """One guest-probe, for as long as the `with` block lasts."""

    def __init__(
        self,
        server: PveServer,
        vmid: int,
        *words: str,
        runner: str = str(RUNNER),
        runner_aarch64: Path | None = None,
    ) -> None:
        arm = {"MOAT_GUEST_AARCH64": str(runner_aarch64)} if runner_aarch64 else {}
        user, _, realm = server.user.partition("@")
        where = [server.host, str(server.port), user, realm, server.node, str(vmid)]
        self.process = subprocess.Popen(
            [str(BUILD / "tests/guest-probe"), *where, runner, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **arm, "PROXMOX_PASSWORD": server.password},
        )

    def __enter__(self) -> Probe:
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the probe found no guest"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        assert status == 0

    def start(self, do: str, **ask: Any) -> None:
        for name in ("input", "content"):
            if name in ask:
                ask[name] = base64.b64encode(ask[name]).decode()
        assert self.process.stdin is not None
        line = json.dumps({"do": do, "deadline": DEADLINE, **ask})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def finish(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the probe ended with {self.process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        for name in ("stdout", "stderr", "body"):
            answer[name] = base64.b64decode(answer[name])
        return answer

    def do(self, do: str, **ask: Any) -> dict[str, Any]:
        self.start(do, **ask)
        return self.finish()

    def exec(self, *argv: str, **ask: Any) -> dict[str, Any]:
        return self.do("exec", argv=list(argv), **{"capture": 10 << 20, **ask})

    def sh(self, script: str, **ask: Any) -> dict[str, Any]:
        return self.exec("sh", "-c", script, **ask)


def start_vm(client: Client, vmid: int) -> None:
    """A VM with an agent, two serial ports and a drive for discs."""
    given = {
        "vmid": vmid,
        "name": "probed",
        "memory": 256,
        "agent": "enabled=1",
        "scsihw": "virtio-scsi-single",
        "serial0": "socket",
        "serial1": "socket",
        "sata5": "none,media=cdrom",
    }
    assert client.task("POST", QEMU, given) == "OK"
    assert client.task("POST", f"{QEMU}/{vmid}/status/start") == "OK"
