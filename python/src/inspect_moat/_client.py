"""A connection to the moat daemon, for asyncio and for trio.

How it works: sending never waits. A frame is written to the socket at once, what does not fit is
queued and written by a background task; the credit of the protocol bounds the queue. That is what
makes cancellation simple: giving a request up is one more frame, sent without an await. A second
background task reads and hands each frame to the request it belongs to.

The daemon removes the sandboxes of a connection when it ends. See _connect.py for how long that is.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import anyio

from ._errors import MoatError
from ._loops import current_loop, is_closed
from ._wire import BLOB_MAX, FrameDecoder, Message, ProtocolError, encode_frame

# The daemon enforces the timeouts of requests. If no answer comes this much later, it hangs.
TIMEOUT_GRACE = 30.0
# The protocol allows 256 open requests; the rest is for cancelled requests that are not finished.
# Requests that may wait for memory are counted apart: commands and removals give memory back, and
# must not wait behind them.
OPEN_REQUESTS_MAX = 120
WAITING_REQUESTS_MAX = 80
WAITING_OPS = frozenset({"up", "fork"})
LOOP_ENDED = "the event loop that the connection to the moat daemon belonged to ended"
RECEIVE_SIZE = 256 * 1024
IOV_MAX = 64

Progress = Callable[[Message], None]


@dataclass(frozen=True)
class Request:
    """What is asked of the daemon: an operation, its arguments and input, its time limit."""

    op: str
    args: dict[str, Any]
    input: bytes | None = None
    timeout: float | None = None
    progress: Progress | None = None

    @property
    def fits(self) -> bool:
        """Whether all of the input goes into the frame of the request itself."""
        return self.input is None or len(self.input) <= BLOB_MAX


@dataclass
class Reply:
    """What a request gave back."""

    result: dict[str, Any]
    stdout: bytes = b""
    stderr: bytes = b""
    body: bytes = b""


class Call:
    """One request that is under way."""

    def __init__(
        self,
        connection: Connection,
        id: int,
        slots: anyio.Semaphore,
        window: int,
        progress: Progress | None,
    ) -> None:
        self.id = id
        self.slots = slots
        self._connection = connection
        self._progress = progress
        self._done = anyio.Event()
        self._result: dict[str, Any] | None = None
        self._error: Exception | None = None
        self._streams: dict[str, list[bytes]] = {"stdout": [], "stderr": [], "body": []}
        self._credit = window
        self._credited = anyio.Event()

    @property
    def finished(self) -> bool:
        return self._done.is_set()

    @property
    def is_here(self) -> bool:
        """Whether it can be waited for in the caller's event loop."""
        return self._connection.is_here

    def cancel(self) -> None:
        """Tell the daemon to give up. The final answer still comes."""
        if not self.finished:
            self._connection.send_or_fail({"type": "cancel", "id": self.id})

    async def wait(self) -> Reply:
        """The final answer.

        Raises:
            MoatError: the daemon's answer was an error.
            Exception: what the callback for progress raised.
        """
        await self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        joined = {name: b"".join(parts) for name, parts in self._streams.items()}
        return Reply(self._result, joined["stdout"], joined["stderr"], joined["body"])

    async def send_input(self, data: memoryview) -> None:
        """Send all of the input as fast as the daemon consumes it, and its end."""
        while len(data) and not self.finished:
            while self._credit == 0 and not self.finished:
                self._credited = anyio.Event()
                await self._credited.wait()
            size = min(len(data), self._credit, BLOB_MAX)
            if size and not self.finished:
                self._credit -= size
                self._connection.send({"type": "data", "id": self.id}, data[:size])
                data = data[size:]
                await self._connection.drained()
        if not self.finished:
            self._connection.send({"type": "eof", "id": self.id})

    def receive(self, message: Message, blob: bytes) -> None:
        """Take a frame that the reader has for this call."""
        kind = message.get("type")
        if kind == "data":
            self._streams.setdefault(str(message.get("stream")), []).append(blob)
        elif kind == "credit":
            self._credit += _positive_int(message.get("bytes"))
            self._credited.set()
        elif kind == "progress":
            self._tell(message)
        elif kind == "result":
            result = message.get("result")
            self.finish(result if isinstance(result, dict) else {}, None)
        elif kind == "error":
            self.finish(None, _error_of(message))

    def _tell(self, message: Message) -> None:
        """Call back for progress. What that raises ends this request, and no other."""
        try:
            if self._progress is not None:
                self._progress(message)
        except Exception as ex:
            self.cancel()
            self.finish(None, ex)

    def finish(self, result: dict[str, Any] | None, error: Exception | None) -> None:
        if not self.finished:
            self._result = result
            self._error = error
            self._done.set()
            self._credited.set()


class Connection:
    """A connection whose handshake is done. It belongs to the event loop that opened it.

    A request that comes from another loop goes over that loop's own connection (`elsewhere`): ours
    may stand still, and nobody would read the answer. Ours has to be open all the same, for the
    sandboxes that were made over it go with it.
    """

    def __init__(
        self,
        sock: socket.socket,
        decoder: FrameDecoder,
        hello: Message,
        elsewhere: Callable[[], Awaitable[Connection]],
    ) -> None:
        self._loop = current_loop()
        self._elsewhere = elsewhere
        self.daemon_pid = _positive_int(hello.get("pid"))
        self.daemon_version = str(hello.get("version"))
        self._window = max(1, _positive_int(hello.get("window")))
        self._sock = sock
        self._decoder = decoder
        self._next_id = 1
        self._calls: dict[int, Call] = {}
        self._slots = anyio.Semaphore(OPEN_REQUESTS_MAX)
        self._waiting_slots = anyio.Semaphore(WAITING_REQUESTS_MAX)
        self._queue: deque[memoryview] = deque()
        self._queue_filled = anyio.Event()
        self._queue_empty = anyio.Event()
        self._queue_empty.set()
        self._lost: str | None = None
        self._silent = False  # a request got no answer in time, and nothing has come since

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def is_here(self) -> bool:
        """Whether it belongs to the caller's event loop."""
        return self._loop is current_loop()

    async def request(
        self,
        op: str,
        args: dict[str, Any],
        *,
        input: bytes | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Reply:
        """Run an operation to its end. A cancelled task cancels the operation in the daemon.

        Raises:
            MoatError: the operation failed. Kind `unavailable` if the connection is lost.
            ValueError: the arguments do not fit into a frame.
        """
        request = Request(op, args, input, timeout, progress)
        call: Call | None = None
        try:
            call = await self.start(request)  # which may wait for others; that is not its time
            with anyio.fail_after(_limit_of(request)):
                if input is not None and not request.fits:
                    await call.send_input(memoryview(input))
                return await call.wait()
        except TimeoutError:
            self._silent = True
            raise self._no_answer() from None
        finally:
            if call is not None:
                call.cancel()  # does nothing when the call is finished

    async def start(self, request: Request) -> Call:
        """Send a request. Input that does not fit into one frame is left to `Call.send_input`."""
        here = await self._of_this_loop()
        if here is not self:
            return await here.start(request)
        slots = self._waiting_slots if request.op in WAITING_OPS else self._slots
        await self._take_slot(slots, _limit_of(request))
        call = Call(self, self._next_id, slots, self._window, request.progress)
        message: Message = {"type": "request", "id": call.id, "op": request.op}
        message["args"] = request.args
        blob = b""
        if request.input is not None:
            message["input"] = "blob" if request.fits else "stream"
            blob = request.input if request.fits else b""
        if request.timeout is not None:
            message["timeout"] = request.timeout
        try:
            self.send(message, blob)
        except BaseException:
            slots.release()
            raise
        self._next_id += 1
        self._calls[call.id] = call
        if self._lost is not None:  # send() has found the connection broken
            self._fail_call(call)
        return call

    async def _take_slot(self, slots: anyio.Semaphore, limit: float | None) -> None:
        """Wait for others, as long as they take: but not for a daemon that stands still."""
        while True:
            with anyio.move_on_after(limit):
                await slots.acquire()
                return
            if self._silent:
                raise self._no_answer()

    def _no_answer(self) -> MoatError:
        return MoatError(
            "timeout", f"the moat daemon (pid {self.daemon_pid}) did not answer in time"
        )

    async def _of_this_loop(self) -> Connection:
        """Us, or the connection of the loop that asks.

        Raises:
            MoatError: our loop has ended, and the sandboxes with it.
        """
        if self.is_here:
            return self
        if is_closed(self._loop):
            self.abandon()
        if self._lost is not None:
            raise MoatError("unavailable", self._lost)
        return await self._elsewhere()

    def send(self, message: Message, blob: bytes | memoryview = b"") -> None:
        """Send a frame without waiting.

        Raises:
            MoatError: the connection is lost.
            ValueError: the message does not fit into a frame, or is no JSON.
        """
        if self._lost is not None:
            raise MoatError("unavailable", self._lost)
        others_wait = bool(self._queue)
        self._queue.extend(memoryview(part) for part in encode_frame(message, blob))
        if not others_wait:
            self._flush()

    def send_or_fail(self, message: Message) -> None:
        """Send a frame, unless the connection is lost."""
        if self._lost is None:
            self.send(message)

    async def drained(self) -> None:
        """Wait until the socket has taken all frames."""
        await self._queue_empty.wait()

    def _flush(self) -> None:
        while self._queue:
            try:
                sent = self._sock.sendmsg(list(islice(self._queue, IOV_MAX)))
            except BlockingIOError:
                break
            except OSError as ex:
                self._lose(f"writing to the moat daemon failed: {ex.strerror}")
                return
            while sent:
                head = self._queue[0]
                if sent < len(head):
                    self._queue[0] = head[sent:]
                    break
                sent -= len(head)
                self._queue.popleft()
        if self._queue:
            if self._queue_empty.is_set():
                self._queue_empty = anyio.Event()
            self._queue_filled.set()
        else:
            self._queue_empty.set()

    async def run(self) -> None:
        """The background tasks. Returns when the connection is lost."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_forever)
                await self._read_until_lost()
                tasks.cancel_scope.cancel()
        except Exception as ex:  # nobody awaits this task: tell the calls
            self._lose(f"the connection to the moat daemon failed: {ex!r}")
        finally:
            self._lose(LOOP_ENDED)
            self._sock.close()

    async def _read_until_lost(self) -> None:
        while self._lost is None:
            await anyio.wait_readable(self._sock)
            try:
                data = self._sock.recv(RECEIVE_SIZE)
                frames = self._decoder.feed(data)
            except BlockingIOError:
                continue
            except (OSError, ProtocolError) as ex:
                self._lose(f"reading from the moat daemon failed: {ex}")
                return
            if not data:
                self._lose(f"the moat daemon (pid {self.daemon_pid}) closed the connection")
                return
            self._silent = False
            for message, blob in frames:
                self._dispatch(message, blob)

    async def _write_forever(self) -> None:
        while True:
            await self._queue_filled.wait()
            self._queue_filled = anyio.Event()
            await anyio.wait_writable(self._sock)
            self._flush()

    def _dispatch(self, message: Message, blob: bytes) -> None:
        id = message.get("id")
        if id is None:
            if message.get("type") == "error":
                error = _error_of(message)
                self._lose(f"the moat daemon refused the connection: {error.message}")
            return
        call = self._calls.get(id)
        if call is None:
            return
        call.receive(message, blob)
        if call.finished:
            del self._calls[id]
            call.slots.release()

    def _fail_call(self, call: Call) -> None:
        if self._calls.pop(call.id, None) is not None:
            call.slots.release()
            call.finish(None, MoatError("unavailable", self._lost or "the connection is lost"))

    def abandon(self) -> None:
        """End the connection after its event loop was closed: no call is left to be told."""
        self._lost = self._lost or LOOP_ENDED
        self._sock.close()

    def _lose(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        self._queue.clear()
        self._queue_empty.set()
        for call in list(self._calls.values()):
            self._fail_call(call)


def _limit_of(request: Request) -> float | None:
    return None if request.timeout is None else request.timeout + TIMEOUT_GRACE


def _positive_int(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _error_of(message: Message) -> MoatError:
    error = message.get("error")
    if not isinstance(error, dict):
        return MoatError("internal", "an error without an explanation")
    number = error.get("errno")
    return MoatError(
        str(error.get("kind", "internal")),
        str(error.get("message", "no message")),
        number if isinstance(number, int) and number > 0 else None,
    )
