"""moat-ssh, as the daemon uses it, with SSH servers that are not what they should be."""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from walls import user_of

ORDERS, GUEST, STREAM, RUNNER = 10, 11, 12, 13
IS_OPEN, REFUSED, PROHIBITED = b"\x01", b"\x02", b"\x03"
Session = Callable[[asyncssh.SSHServerProcess[bytes]], Coroutine[Any, Any, None]]


class AnyKey(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "vagrant"

    def connection_requested(self, host: str, port: int, *_: Any) -> bool:
        if port == 0:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "no")
        return True


class Server:
    """An SSH server on loopback, in a thread of its own."""

    def __init__(self, session: Session, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        listening = asyncio.run_coroutine_threadsafe(self.listen(session, options), self.loop)
        self.port = listening.result(30).get_port()

    async def stop(self) -> None:
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()

    async def listen(self, session: Session, options: dict[str, Any]) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=AnyKey,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            process_factory=session,
            encoding=None,
            **options,
        )

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.stop(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Ssh:
    """A moat-ssh, and our ends of what it is given."""

    def __init__(self, port: int) -> None:
        self.orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stream, stream = socket.socketpair()
        guest = socket.create_connection(("127.0.0.1", port))
        guest.setblocking(False)
        program = Path(os.environ["MOAT_BIN"]).parent / "moat-ssh"
        with open("/dev/null", "rb") as runner:
            given = {ORDERS: orders, GUEST: guest, STREAM: stream, RUNNER: runner}
            # Out of the way of the numbers that they are to have.
            high = {to: os.dup2(f.fileno(), 100 + to, inheritable=False) for to, f in given.items()}
            self.process = subprocess.Popen(
                [program],
                preexec_fn=lambda: [os.dup2(fd, to) for to, fd in high.items()] and None,
                pass_fds=tuple(given),
                stderr=subprocess.PIPE,
            )
        for fd in (*high.values(), orders, guest, stream):
            os.close(fd) if isinstance(fd, int) else fd.close()
        for sock in (self.orders, self.stream):
            sock.settimeout(60)

    def order(self, **order: Any) -> dict[str, Any]:
        self.orders.send(json.dumps(order).encode())
        return self.answer()

    def answer(self) -> dict[str, Any]:
        got = self.orders.recv(65536)
        assert got, f"moat-ssh has ended with {self.process.wait(10)}"
        return dict(json.loads(got))

    def log_in(self, host_key: str = "") -> dict[str, Any]:
        text = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
        return self.order(
            log_in={
                "host": "127.0.0.1",
                "port": 22,
                "user": "vagrant",
                "host_key": host_key,
                "keys": [{"name": "a key", "text": text}],
            }
        )

    def dial(self, port: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        message = json.dumps({"dial": {"host": "127.0.0.1", "port": port}}).encode()
        rights = array.array("i", [theirs.fileno()])
        self.orders.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        theirs.close()
        ours.settimeout(60)
        return ours

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.orders.close()
        self.stream.close()


@pytest.fixture
def served() -> Iterator[Callable[..., Ssh]]:
    opened: list[Server | Ssh] = []

    def serve(session: Session, **options: Any) -> Ssh:
        server = Server(session, **options)
        opened.append(server)
        ssh = Ssh(server.port)
        opened.append(ssh)
        return ssh

    yield serve
    for one in reversed(opened):
        one.close()


async def echo(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """A runner that says back what it hears."""
    process.stdout.write(b"Welcome!\nmoat:run:user\n")
    while got := await process.stdin.read(65536):
        process.stdout.write(got)
        await process.stdout.drain()


def test_runner_and_ports(served: Callable[..., Ssh]) -> None:
    ssh = served(echo)
    assert ssh.log_in()["host_key"].startswith("SHA256:")
    assert ssh.order(start=True) == {"as_root": False}
    ssh.stream.sendall(b"hello")
    assert ssh.stream.recv(100) == b"hello"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = ssh.dial(listener.getsockname()[1])
        there, _ = listener.accept()
        assert dialled.recv(1) == IS_OPEN
        dialled.sendall(b"through")
        assert there.recv(100) == b"through"
        there.close()
        assert dialled.recv(1) == b""
        closed = listener.getsockname()[1]
    assert ssh.dial(closed).recv(1) == REFUSED
    assert ssh.dial(0).recv(1) == PROHIBITED
    ssh.orders.close()  # whoever gives orders has gone
    assert ssh.process.wait(30) == 0


def test_it_is_alone_without_network_or_rights(served: Callable[..., Ssh]) -> None:
    ssh = served(echo)
    ssh.log_in()
    about = Path(f"/proc/{ssh.process.pid}")
    status = dict(line.split(":\t", 1) for line in (about / "status").read_text().splitlines())
    assert user_of(ssh.process.pid) == 0x70000000 + ssh.process.pid
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert os.readlink(about / "ns/net") != os.readlink("/proc/self/ns/net")
    limits = (about / "limits").read_text()
    assert "Max processes             0                    0" in limits


def test_another_host_key_is_told(served: Callable[..., Ssh]) -> None:
    error = served(echo).log_in("SHA256:of-another-machine")["error"]
    assert error["kind"] == "unavailable"
    assert "this is another machine" in error["message"]


def test_a_login_that_prints_for_ever_is_ended(served: Callable[..., Ssh]) -> None:
    async def chatter(process: asyncssh.SSHServerProcess[bytes]) -> None:
        while True:
            process.stdout.write(b"have a nice day\n" * 4096)
            await process.stdout.drain()

    ssh = served(chatter)
    ssh.log_in()
    assert "prints too much" in ssh.order(start=True)["error"]["message"]
    assert ssh.process.wait(30) == 1
