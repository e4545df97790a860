"""The connection of an event loop: finds the daemon, starts it, greets it.

There is one connection for each event loop. It lives as long as the loop, or the process, does:
the sandboxes belong to it, and that is how nothing is left of them whatever happens to us. They may
be used in any loop (a test's own, say, when a fixture's has made them): see Connection.request.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import os
import socket
import struct
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import RunVar

from ._client import RECEIVE_SIZE, Connection
from ._daemon import noted_socket_path, socket_path, start_daemon
from ._errors import MoatError, MoatNotInstalledError
from ._loops import runs_under_trio
from ._version import __version__
from ._wire import PROTOCOL_VERSION, FrameDecoder, Message, ProtocolError, encode_frame

CONNECT_TIMEOUT = 30.0
KNOCK_AGAIN = 0.1
SOCKET_PATH_MAX = 107  # bytes; the kernel's limit


@dataclass
class _LoopState:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    connection: Connection | None = None


_loop_state: RunVar[_LoopState] = RunVar("inspect_moat_connection")
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_sockets_of_parent() -> None:
    """Close our sockets in a forked process, which may outlive us and would keep the sandboxes.

    The file descriptors stay in use, so that closing one there closes nothing else.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for sock in _sockets:
        if sock.fileno() >= 0:
            os.dup2(nothing, sock.fileno(), inheritable=False)
    os.close(nothing)


os.register_at_fork(after_in_child=_close_sockets_of_parent)


async def connect() -> Connection:
    """The connection of this event loop; opened, and the daemon started, if need be.

    Raises:
        MoatNotInstalledError: there is no daemon and none can be started.
        MoatError: something answers, but not a daemon that we can talk to.
    """
    try:
        state = _loop_state.get()
    except LookupError:
        state = _LoopState()
        _loop_state.set(state)
    async with state.lock:
        if state.connection is None or state.connection.closed:
            state.connection = await _open()
        return state.connection


class _HungUpError(MoatError):
    """The daemon hung up before its greeting."""

    def __init__(self, path: str) -> None:
        super().__init__("unavailable", f"{path}: the daemon closed the connection")


async def _open() -> Connection:
    """Open a connection, trying again while the daemon hangs up before its greeting.

    It does so while it has too many clients, or if it was about to end: neither lasts.
    """
    knock_until = anyio.current_time() + CONNECT_TIMEOUT
    while True:
        try:
            return await _open_once()
        except _HungUpError:
            if anyio.current_time() >= knock_until:
                raise
            await anyio.sleep(KNOCK_AGAIN)


async def _open_once() -> Connection:
    _abandon_connections_of_closed_loops()
    path, sock = await _find_daemon()
    if sock is None:
        await anyio.to_thread.run_sync(start_daemon, abandon_on_cancel=True)
        path, sock = await _find_daemon()
        if sock is None:
            raise MoatNotInstalledError(
                f"`moat serve --background` succeeded, but nothing listens on {path}"
            )
    try:
        connection = await _handshake(sock, path)
    except BaseException:
        sock.close()
        raise
    _keep_running(connection)
    return connection


async def _find_daemon() -> tuple[str, socket.socket | None]:
    """Connect at our place of the socket, or where the daemon of our state directory has it."""
    path = socket_path()
    sock = await _connect_socket(path)
    if sock is None and (noted := noted_socket_path()) is not None:
        path = noted
        sock = await _connect_socket(path)
    return path, sock


@contextlib.contextmanager
def _short_path(path: str) -> Iterator[str]:
    """The path, or one through its open directory if it is longer than a socket's may be."""
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        yield path
        return
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


def _try_to_connect(sock: socket.socket, path: str) -> int:
    """The error number, 0 if it is connected."""
    try:
        with _short_path(path) as short:
            return sock.connect_ex(short)
    except OSError as ex:  # its directory cannot be opened
        return ex.errno or errno.EIO


async def _connect_socket(path: str) -> socket.socket | None:
    """A connected socket, or None if nobody listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _sockets.add(sock)
    try:
        sock.setblocking(False)
        with anyio.fail_after(CONNECT_TIMEOUT):
            while True:
                number = _try_to_connect(sock, path)
                if number != errno.EAGAIN:  # its queue of new connections is full
                    break
                await anyio.sleep(0.02)
        if number in (errno.ENOENT, errno.ECONNREFUSED):
            sock.close()
            return None
        if number != 0:
            raise MoatError("unavailable", f"{path}: {os.strerror(number)}", number)
        _check_peer(sock, path)
        return sock
    except BaseException as ex:
        sock.close()
        if isinstance(ex, TimeoutError):
            raise MoatError("unavailable", f"{path}: the daemon takes no connection") from None
        raise


def _check_peer(sock: socket.socket, path: str) -> None:
    """Refuse a socket of another user, who may have put it there to read what we send."""
    _, uid, _ = peer_credentials(sock)
    if uid not in (os.geteuid(), 0):
        raise MoatError("permission", f"{path} belongs to the user with the id {uid}")


def peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """The pid, uid and gid of the process that listens on the other side."""
    size = struct.calcsize("3i")
    pid, uid, gid = struct.unpack(
        "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return pid, uid, gid


async def _handshake(sock: socket.socket, path: str) -> Connection:
    from_us = {
        "type": "hello",
        "protocol": PROTOCOL_VERSION,
        "client": f"inspect_moat {__version__}",
    }
    decoder = FrameDecoder()
    frames: list[tuple[Message, bytes]] = []
    try:
        sock.sendall(b"".join(bytes(part) for part in encode_frame(from_us)))
        with anyio.fail_after(CONNECT_TIMEOUT):
            while not frames:
                await anyio.wait_readable(sock)
                data = sock.recv(RECEIVE_SIZE)
                if not data:
                    raise _HungUpError(path)
                frames = decoder.feed(data)
    except ConnectionError as ex:
        raise _HungUpError(path) from ex
    except (TimeoutError, OSError, ProtocolError) as ex:
        raise MoatError("unavailable", f"{path}: no greeting from the daemon: {ex!r}") from ex
    hello, _ = frames[0]
    if hello.get("type") != "hello":
        raise MoatError("unavailable", f"{path}: this is not a moat daemon")
    if hello.get("protocol") != PROTOCOL_VERSION:
        raise MoatError(
            "unavailable",
            f"the moat daemon with the pid {hello.get('pid')} speaks protocol "
            f"{hello.get('protocol')} (version {hello.get('version')}), this package speaks "
            f"{PROTOCOL_VERSION}: end that daemon, or install versions that belong together",
        )
    return Connection(sock, decoder, hello, elsewhere=connect)


def _keep_running(connection: Connection) -> None:
    """Start the task of a connection. It belongs to the event loop, not to the caller's scope."""
    if runs_under_trio():
        import trio

        trio.lowlevel.spawn_system_task(connection.run, name="inspect_moat")
        return
    # In an empty context: the caller's variables (a sample's, say) would live as long as the loop.
    task = contextvars.Context().run(asyncio.get_running_loop().create_task, connection.run())
    _background[task] = connection
    task.add_done_callback(_background.pop)


def _abandon_connections_of_closed_loops() -> None:
    """End the connections of event loops that were closed.

    asyncio may close a loop whose tasks are neither done nor cancelled. Such a task never ends, but
    its connection must: sandboxes live as long as their connection.
    """
    for task, connection in list(_background.items()):  # other threads change it for their loops
        if task.get_loop().is_closed():
            connection.abandon()


# An event loop keeps only weak references to its tasks.
_background: dict[asyncio.Task[None], Connection] = {}
