"""Whole lives of sandboxes on a test server, and what they leave there."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from server import PveServer

from driver import PveHome, add_decoys, instance

TAG = "tiny-template"
SPEC: dict[str, Any] = {
    "driver": "proxmox",
    "vms": [
        {
            "source": {"existing_vm_template_tag": TAG},
            "ram_mb": 256,
            "vcpus": 1,
            "nics": [{"vnet": "default"}],
        }
    ],
}
WAIT_SECONDS = 240
LOGIN = "^/access/ticket$"
# What must be as it was before, once a sandbox is gone.
PARTS = ("vms", "zones", "vnets", "subnets", "running", "ipam", "volumes", "pools", "uploads")


def a_server(vms: str = "container") -> PveServer:
    """A server without delays: these tests are about the order of calls."""
    return PveServer(vms=vms, time_scale=0.02, task_time=0.02, rollback_hold=0)


def fill(server: PveServer) -> None:
    """A template whose clones have an agent, and things of other people that look like ours."""
    config = {
        "name": "tiny-template",
        "tags": f"inspect;{TAG}",
        "agent": "1",
        "memory": "256",
        "serial0": "socket",
        "scsi0": "local-lvm:base-100-disk-0,size=1G",
        "description": "made by hand",
    }
    server.control("add_vm", vmid=100, template=True, config=config)
    add_decoys(server)
    stamp = "moat-0badcafe-0123456789"
    texts = {"name": "default", "tags": f"inspect;moat;{stamp}", "description": f"VM of {stamp}"}
    disk = {"scsi0": "local-lvm:vm-105-disk-0,size=1G"}
    server.control("add_vm", vmid=105, config={**texts, **disk}, snapshots=["before"])
    more = {"name": "moat-template", "tags": "inspect;moat-template"}
    server.control("add_vm", vmid=106, template=True, config=more)
    net = {"alias": f"default {stamp}", "subnet": "10.200.1.0/24"}
    server.control("add_zone", zone="mabcdefn", vnets={"mabcdef0": net})
    taken = {"subnet": "10.200.2.0/24", "addresses": {"10.200.2.9": "BC:24:11:AA:BB:CC"}}
    server.control("add_zone", zone="abc123z", vnets={"abc123v0": taken})
    server.control("add_volume", volid="local:iso/moat-seed.iso", content="iso")
    server.control("add_volume", volid="local:import/moat-0badcafe.ova", content="import")


def forget_login(server: PveServer) -> None:
    """The next call needs a new ticket."""
    server.control("expire_tickets")
    time.sleep(0.2)


@contextlib.contextmanager
def named(server: PveServer, home: Path) -> Iterator[None]:
    """An environment that names the server and a moat of our own, which ends with it."""
    before = dict(os.environ)
    os.environ.update(server.environment(), MOAT_HOME=str(home))
    os.environ["PROXMOX_FINGERPRINT"] = server.fingerprint
    try:
        yield
    finally:
        subprocess.run([os.environ["MOAT_BIN"], "serve", "--stop"], check=False)
        os.environ.clear()
        os.environ.update(before)


class Lives:
    """A moat and a server that it uses; what the server held before is remembered."""

    def __init__(self, server: PveServer) -> None:
        self.server = server
        fill(server)
        self.home = PveHome(instance(server))
        self.before = self.parts()

    def __enter__(self) -> Lives:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.clear()
        self.home.close()

    def parts(self) -> dict[str, Any]:
        state = self.server.state()
        return {name: state[name] for name in PARTS}

    def live(self) -> list[str]:
        """Makes a sandbox and removes it; returns the messages of what failed."""
        home = self.home
        done = home.run("up", home.spec(SPEC), timeout=WAIT_SECONDS)
        if done.returncode != 0:
            return [done.stderr]
        removed = home.run("rm", done.stdout.strip(), timeout=WAIT_SECONDS)
        return [removed.stderr] if removed.returncode != 0 else []

    def use(self, sandbox: str) -> str:
        """Runs a command; returns what the user reads, or nothing if all is right."""
        words = ["exec", "-i", sandbox, "--", "sh", "-c", "cat; echo oops >&2; exit 3"]
        ran = self.home.run(*words, input="hello\n", timeout=WAIT_SECONDS)
        if (ran.returncode, ran.stdout, ran.stderr) == (3, "hello\n", "oops\n"):
            return ""
        return ran.stderr or f"exit code {ran.returncode}, {ran.stdout!r}"

    def differences(self) -> list[str]:
        now = self.parts()
        found = []
        for name in PARTS:
            old, new = self.before[name], now[name]
            if isinstance(old, dict):
                found += [f"{name} {key} is left" for key in new if key not in old]
                found += [f"{name} {key} is gone" for key in old if key not in new]
                both = [key for key in old if key in new and old[key] != new[key]]
                found += [f"{name} {key} was {old[key]}, is {new[key]}" for key in both]
            elif old != new:
                found.append(f"{name} was {old}, is {new}")
        return found

    def assert_as_before(self, what: str) -> None:
        """Nothing of ours is on the server, and all else is untouched; waits for it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while found := self.differences():
            assert time.monotonic() < deadline, f"{what}: {found}"
            self.home.run("gc")
            time.sleep(0.05)

    def calls(self) -> list[tuple[str, str, int]]:
        """The calls of a life: method, path as a pattern, and how many of the same went before.

        A task is asked for again and again; only the first such call counts.
        """
        self.server.clear()
        # The next life starts with a login.
        self.server.control("expire_tickets")
        time.sleep(0.2)
        wrong = self.live()
        assert wrong == [], wrong
        seen: dict[tuple[str, str], int] = {}
        calls = []
        for entry in self.server.log():
            if entry["status"] == 401:
                continue  # its ticket had expired: the client logs in, and makes this call again
            key = (entry["method"], pattern_of(entry["path"]))
            if key not in seen or "/tasks/" not in key[1]:
                calls.append((*key, seen.get(key, 0)))
            seen[key] = seen.get(key, 0) + 1
        return calls


def pattern_of(path: str) -> str:
    """A pattern for the path of a call, with the names left open that differ from life to life."""
    # UPID:NODE:PID:PSTART:START:TYPE:ID:USER: only the type of a task is the same in each life.
    path = re.sub(r"UPID:(?:[^/:]*:){4}(\w+):[^/]*", r"UPID:[^/]*:\1:[^/]*", path)
    path = re.sub(r"/qemu/(?!100\b)\d+", r"/qemu/(?!100\\b)[0-9]+", path)
    path = re.sub(r"/(zones|vnets|subnets)/[^/]+", r"/\1/[^/]+", path)
    return f"^{path}$"
