"""Runs one server: options, certificate, sockets; until a signal or its input ends."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from . import (
    api_agent,
    api_base,
    api_firewall,
    api_more,
    api_power,
    api_sdn,
    api_storage,
    api_vm,
    terminal,
)
from .app import App
from .control import Control
from .http import Front
from .machines import Machines
from .state import GIB, Node

MODULES = (
    api_agent,
    api_base,
    api_firewall,
    api_more,
    api_power,
    api_sdn,
    api_storage,
    api_vm,
    terminal,
)
STREAM_LIMIT = 1 << 17


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="server.py", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 for any")
    parser.add_argument("--dir", help="working directory; a temporary one if not given")
    parser.add_argument("--vms", choices=("none", "container", "qemu"), default="none")
    parser.add_argument("--nodes", default="pve", help="names of nodes, with commas")
    parser.add_argument("--memory", type=int, default=64, help="GiB of each node")
    parser.add_argument("--cpus", type=int, default=16)
    parser.add_argument("--user", default="root@pam")
    parser.add_argument("--password", help="one is made up if not given")
    parser.add_argument("--token", help="ID=SECRET of an API token of the user")
    parser.add_argument("--pve-version", default="9.2")
    parser.add_argument(
        "--time-scale", type=float, default=1.0, help="of the genuine server's delays"
    )
    parser.add_argument(
        "--idle", type=float, default=5.0, help="seconds until an idle connection is closed"
    )
    parser.add_argument("--task-time", type=float, default=0.1, help="seconds that a task takes")
    parser.add_argument(
        "--agent-latency", type=float, default=0.0, help="seconds that an agent call costs"
    )
    parser.add_argument(
        "--read-cost",
        type=float,
        default=0.0,
        help="seconds that a MiB costs which is read through the agent",
    )
    parser.add_argument("--apply-time", type=float, help="seconds that an apply of networks takes")
    parser.add_argument(
        "--genuine-costs",
        action="store_true",
        help="what was measured on a genuine server, for all of these",
    )
    parser.add_argument(
        "--rollback-hold",
        type=float,
        default=2.0,
        help="seconds that a rollback holds the lock for",
    )
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--certificate", help="with --key: PEM files, instead of new ones")
    parser.add_argument("--key")
    parser.add_argument("--kernel", help="for --vms qemu")
    parser.add_argument("--initrd", help="for --vms qemu")
    parser.add_argument(
        "--print-json", action="store_true", help="where the server is, in one line"
    )
    parser.add_argument("--die-with-stdin", action="store_true")
    options = parser.parse_args(arguments)
    if options.genuine_costs:
        options.agent_latency, options.read_cost = 0.11, 0.4
        options.task_time, options.apply_time = 1.5, 2.0
    return options


def certificate(options: argparse.Namespace, folder: Path) -> tuple[Path, Path, str]:
    """The key and certificate that were given, or self-signed ones, and the fingerprint."""
    if options.certificate:
        key, cert = Path(options.key), Path(options.certificate)
    else:
        key, cert = folder / "key.pem", folder / "cert.pem"
        make_certificate(key, cert)
    der = ssl.PEM_cert_to_DER_cert(cert.read_text())
    digest = hashlib.sha256(der).hexdigest().upper()
    return key, cert, ":".join(digest[i : i + 2] for i in range(0, 64, 2))


def make_certificate(key: Path, cert: Path) -> None:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-days", "30", "-subj", "/CN=pve.test"]
    names = ["-addext", "subjectAltName=DNS:localhost,DNS:pve.test,IP:127.0.0.1"]
    subprocess.run(
        [*command, *names, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )


def hold_port(host: str, port: int) -> socket.socket:
    """Keeps the port while nobody listens on it, so that no other program gets it."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind((host, port))
    return holder


async def until_told() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()


def watch_stdin() -> None:
    """The server is not to outlive whoever started it."""

    def gone() -> None:
        if not os.read(0, 4096):
            os.kill(os.getpid(), signal.SIGTERM)
            asyncio.get_running_loop().remove_reader(0)

    asyncio.get_running_loop().add_reader(0, gone)


async def run(options: argparse.Namespace, folder: Path) -> None:
    nodes = [Node(name, options.memory * GIB, options.cpus) for name in options.nodes.split(",")]
    options.fingerprint = ""
    context: ssl.SSLContext | None = None
    cert: Path | None = None
    if not options.plain:
        key, cert, options.fingerprint = certificate(options, folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
    app = App(options, folder, nodes)
    app.rollback_hold = options.rollback_hold
    app.read_cost = options.read_cost
    if options.apply_time is not None:
        app.tasks.seconds_of["reloadnetworkall"] = options.apply_time
    app.machines = machines_of(options, app)
    app.auth.passwords[options.user] = options.password or secrets.token_urlsafe(18)
    if options.token:
        name, _, secret = options.token.partition("=")
        app.auth.tokens[f"{options.user}!{name}"] = {"secret": secret, "privsep": False}
    if options.agent_latency:
        app.faults.add(
            {"path": "/agent/", "action": "latency", "seconds": options.agent_latency, "times": -1}
        )
    front = Front(app.handle, options.idle)
    app.front = front
    holder = hold_port(options.host, options.port)
    port = int(holder.getsockname()[1])

    def start() -> Awaitable[asyncio.Server]:
        return asyncio.start_server(
            front.serve,
            options.host,
            port,
            ssl=context,
            limit=STREAM_LIMIT,
            backlog=512,
            reuse_port=True,
        )

    await front.listen(start)
    socket_path = folder / "control"
    control = await asyncio.start_unix_server(Control(app, front).serve, socket_path)
    where: dict[str, Any] = {
        "host": options.host,
        "port": port,
        "fingerprint": options.fingerprint,
        "certificate": str(cert or ""),
        "user": options.user,
        "password": app.auth.passwords[options.user],
        "node": nodes[0].name,
        "control": str(socket_path),
        "dir": str(folder),
    }
    if options.print_json:
        print(json.dumps(where), flush=True)
    else:
        print(
            f"listening on {where['host']}:{where['port']}, control socket {socket_path}",
            flush=True,
        )
    if options.die_with_stdin:
        watch_stdin()
    await until_told()
    if front.server is not None:
        front.server.close()
    holder.close()
    control.close()
    await app.machines.close()


def machines_of(options: argparse.Namespace, app: App) -> Machines:
    if options.vms == "none":
        return Machines(app)
    if options.vms == "container":
        from .container import ContainerMachines

        return ContainerMachines(app)
    from .qemu import QemuMachines

    return QemuMachines(app)


def scratch(options: argparse.Namespace) -> str:
    """Where a server's files are: in memory, if they are small and many and may be programs."""
    memory = "/dev/shm"
    if options.vms != "container" or not os.path.isdir(memory):
        return "/tmp"
    there = os.statvfs(memory)
    roomy = there.f_bavail * there.f_frsize > 2 << 30
    return memory if roomy and not there.f_flag & os.ST_NOEXEC else "/tmp"


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    folder = (
        Path(options.dir)
        if options.dir
        else Path(tempfile.mkdtemp(prefix="pves-", dir=scratch(options)))
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run(options, folder))
    finally:
        if not options.dir:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
