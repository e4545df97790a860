"""A MOAT_HOME for tests with Vagrant."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from home import Home

FILES = Path(__file__).parent / "files"
TIMEOUT = 600.0  # machines are emulated, and the host may be busy


class VagrantHome(Home):
    def __init__(self) -> None:
        super().__init__("idle_exit: 0\nlog_level: debug\n")
        self.cache = self.dir / "sandboxes"
        os.environ["INSPECT_SANDBOX_CACHE_DIR"] = str(self.cache)
        self.env["INSPECT_SANDBOX_CACHE_DIR"] = str(self.cache)

    def up_lab(self, *variables: str) -> str:
        """Two machines; the Vagrantfile lists the default one second."""
        env = dict(variable.split("=", 1) for variable in variables)
        spec = {
            "driver": "vagrant",
            "vms": [{}],
            "native": {
                "vagrantfile": str(FILES / "Vagrantfile.lab"),
                "primary_vm": "attacker",
                "env": env,
            },
        }
        return self.ok("up", self.spec(spec), timeout=TIMEOUT)

    def sandbox(self, sandbox: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("ls", "--json"))
        (one,) = [entry for entry in found["sandboxes"] if entry["id"] == sandbox]
        return dict(one)

    def exec(self, sandbox: str, *argv: str, **more: Any) -> str:
        more.setdefault("timeout", TIMEOUT)
        vm = more.pop("vm", None)
        return self.ok("exec", *(["--vm", vm] if vm else []), sandbox, "--", *argv, **more)

    def domains(self) -> list[str]:
        done = subprocess.run(
            ["virsh", "-q", "list", "--all", "--name"], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    def disks(self) -> list[str]:
        """The disks of machines; that of the box itself stays in the pool."""
        done = subprocess.run(
            ["virsh", "-q", "vol-list", "default"], capture_output=True, text=True, check=False
        )
        names = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
        return [name for name in names if "_vagrant_box_image_" not in name]

    def left_of(self) -> list[str]:
        """What sandboxes may not leave: machines, disks, directories, entries, processes."""
        left = [f"machine {name}" for name in self.domains()]
        left += [f"disk {name}" for name in self.disks()]
        if self.cache.exists():
            left += [f"directory {path}" for path in self.cache.iterdir()]
        left += [f"process {args}" for args in self.processes().values() if "vagrant" in args]
        return left + [line for line in self.left_over() if line.startswith("row")]

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.1)

    def wait_until_clean(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while left := self.left_of():
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.3)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.cache, ignore_errors=True)
