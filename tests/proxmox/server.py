#!/usr/bin/env python3
"""A Proxmox VE server for tests: run it from a shell, or use PveServer in a test.

python3 tests/proxmox/server.py --port 0 --vms none --print-json
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
START_SECONDS = 120
STOP_SECONDS = 60


class PveServer:
    """A server of its own for a `with` block; it ends with the block, or with this process."""

    def __init__(self, **options: Any) -> None:
        """Options are those of the command line: vms="qemu", task_time=0.2, plain=True."""
        self.arguments: list[str] = []
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            if value is True:
                self.arguments.append(flag)
            elif value is not False and value is not None:
                self.arguments += [flag, str(value)]
        self.process: subprocess.Popen[bytes] | None = None
        self.where: dict[str, Any] = {}

    def __enter__(self) -> PveServer:
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "server.py"),
                "--print-json",
                "--die-with-stdin",
                *self.arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the server did not start (exit code {self.process.wait(START_SECONDS)})"
            )
        self.where = json.loads(line)
        self.control_socket = socket.socket(socket.AF_UNIX)
        self.control_socket.connect(self.where["control"])
        self.control_file = self.control_socket.makefile("rwb")
        return self

    def __exit__(self, *_: object) -> None:
        self.control_file.close()
        self.control_socket.close()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def host(self) -> str:
        return str(self.where["host"])

    @property
    def port(self) -> int:
        return int(self.where["port"])

    @property
    def fingerprint(self) -> str:
        return str(self.where["fingerprint"])

    @property
    def certificate(self) -> str:
        return str(self.where["certificate"])

    @property
    def user(self) -> str:
        return str(self.where["user"])

    @property
    def password(self) -> str:
        return str(self.where["password"])

    @property
    def node(self) -> str:
        return str(self.where["node"])

    def control(self, do: str, **arguments: Any) -> Any:
        """One command of the control socket: see pvesim/control.py."""
        self.control_file.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.control_file.flush()
        answer = json.loads(self.control_file.readline())
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        return answer["result"]

    # The commands used most.

    def fault(self, **rule: Any) -> int:
        return int(self.control("fault", **rule))

    def struck(self, rule: int) -> int:
        """How often a fault has struck."""
        return int(self.control("struck")[str(rule)])

    def clear_faults(self) -> None:
        """No faults any more. Each of them must have struck, or the test has tested nothing."""
        missed = self.control("clear_faults")
        assert not missed, f"never struck: {missed}"

    def clear(self) -> None:
        """No faults, as above, and an empty log."""
        self.clear_faults()
        self.control("clear_log")

    def log(self) -> list[dict[str, Any]]:
        return list(self.control("log"))

    def state(self) -> dict[str, Any]:
        """What is there, once no task runs any more."""
        assert self.control("settle"), "a task does not end"
        return dict(self.control("state"))

    def environment(self) -> dict[str, str]:
        """How clients are told about a server."""
        user, _, realm = self.user.partition("@")
        return {
            "PROXMOX_HOST": self.host,
            "PROXMOX_PORT": str(self.port),
            "PROXMOX_USER": user,
            "PROXMOX_REALM": realm,
            "PROXMOX_PASSWORD": self.password,
            "PROXMOX_NODE": self.node,
            "PROXMOX_VERIFY_TLS": "0",
            "PROXMOX_IMAGE_STORAGE": "local-lvm",
        }


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    from pvesim.main import main

    sys.exit(main(sys.argv[1:]))
