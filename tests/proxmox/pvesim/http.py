"""HTTP/1.1 over TLS as the genuine front end speaks it, with its limits and statuses."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, unquote_to_bytes, urlencode, urlsplit

from .errors import ApiError

BODY_MAX = 524288
BODY_MAX_BEFORE_8_4 = 65536
HEADERS_MAX = 64
LINE_MAX = 8192
REQUESTS_PER_CONNECTION = 100
KNOWN_METHODS = {"GET", "POST", "PUT", "DELETE"}
REASONS = {
    101: "Switching Protocols",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    506: "Variant Also Negotiates",
    596: "Connection timed out",
}


class Dropped(Exception):
    """The connection is to be cut without an answer."""


class Request:
    """One request; the body is still in the stream."""

    def __init__(
        self, verb: str, target: str, headers: dict[str, str], reader: asyncio.StreamReader
    ) -> None:
        self.verb = verb
        parts = urlsplit(target)
        self.path = parts.path
        self.query = parts.query
        self.headers = headers
        self.reader = reader
        self.length = int(headers.get("content-length", "0") or 0)
        self.writer: asyncio.StreamWriter | None = None
        self.user = ""
        self.peer_port = 0

    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


class Answer:
    """What goes back."""

    def __init__(
        self,
        status: int,
        body: bytes,
        reason: str = "",
        kind: str = "application/json;charset=UTF-8",
    ) -> None:
        self.status = status
        self.body = body
        self.reason = reason
        self.kind = kind
        # A call that the front end hands to the privileged daemon behind it.
        self.proxied = False
        self.close = False
        self.hijacked = False
        self.drop_after = False


def decode_form(text: str) -> dict[str, Any]:
    """Form parameters; a name that comes twice is a list, joined as the genuine server joins it."""
    result: dict[str, Any] = {}
    for pair in re.split("[&;]", text):
        if not pair:
            continue
        name, found, value = pair.partition("=")
        name = unquote(name.replace("+", " "))
        if not found:
            result[name] = None
            continue
        # A second "=" ends the value there: it must be escaped.
        value = unquote_to_bytes(value.split("=")[0].replace("+", " ")).decode("utf-8", "replace")
        result[name] = f"{result[name]}\0{value}" if result.get(name) is not None else value
    return result


def error_answer(error: ApiError) -> Answer:
    line = error.message.split("\n")[0] if error.message else REASONS.get(error.status, "Error")
    if error.empty:
        return Answer(error.status, b"", line)
    body: dict[str, Any] = {"data": None}
    if error.message:
        body["message"] = error.message if error.message.endswith("\n") else error.message + "\n"
    if error.errors:
        body["errors"] = error.errors
    return Answer(error.status, json.dumps(body, ensure_ascii=False).encode(), line)


# A large answer of the agent that is compressed, and stays large, does not pass the front end.
# Where exactly that begins is not known; 14 MB do not pass.
PACKED_MAX = 2 << 20


class Front:
    """Serves connections; `handle` answers one request."""

    def __init__(self, handle: Callable[[Request], Awaitable[Answer]], idle: float) -> None:
        self.handle = handle
        self.idle = idle
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.server: asyncio.Server | None = None
        self.start: Callable[[], Awaitable[asyncio.Server]] | None = None
        self.back: asyncio.Task[None] | None = None
        self.returns = asyncio.Event()
        self.outages = 0

    async def listen(self, start: Callable[[], Awaitable[asyncio.Server]]) -> None:
        self.start = start
        self.server = await start()

    def go_away(self, seconds: float) -> None:
        """As when the front end restarts: connections end, new ones are refused for a while.

        What was asked for goes on in the daemon behind it.
        """
        if self.server is None:
            return  # it is away already
        self.outages += 1
        self.server.close()
        self.server = None
        for writer in list(self.open):
            reset(writer)
        self.back = asyncio.create_task(self.come_back(seconds))

    async def come_back(self, seconds: float) -> None:
        self.returns.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.returns.wait(), seconds)
        assert self.start is not None
        self.server = await self.start()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            for left in range(REQUESTS_PER_CONNECTION - 1, -1, -1):
                request = await self.read_request(reader, writer)
                if request is None or not await self.one(request, writer, left):
                    break
        except Dropped:
            reset(writer)
        except asyncio.CancelledError:
            # The server ends while this connection waits.
            pass
        except (
            ConnectionError,
            asyncio.IncompleteReadError,
            TimeoutError,
            asyncio.LimitOverrunError,
            OSError,
        ):
            pass
        finally:
            self.open.discard(writer)
            with contextlib.suppress(Exception):
                writer.close()

    async def one(self, request: Request, writer: asyncio.StreamWriter, left: int) -> bool:
        request.writer = writer
        try:
            answer = await self.handle(request)
        except ApiError as error:
            if error.delay:
                await asyncio.sleep(error.delay)
            answer = error_answer(error)
        if answer.hijacked:
            return False
        if answer.drop_after:
            raise Dropped
        keep = left > 0 and answer.status < 400 and not answer.close
        keep = keep and request.headers.get("connection", "").lower() != "close"
        self.send(writer, request, answer, keep)
        await writer.drain()
        return keep

    async def read_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        line = b"\r\n"
        while line in (b"\r\n", b"\n"):
            line = await asyncio.wait_for(reader.readline(), self.idle)
        if not line:
            return None
        match = re.match(r"^(\S+) (\S+) HTTP/(\d+)\.(\d+)", line.decode("latin-1"))
        if not match:
            return self.refuse(writer, 400, "bad request")
        if match.group(3) != "1":
            return self.refuse(
                writer,
                506,
                f"http protocol version {match.group(3)}.{match.group(4)} not supported",
            )
        headers: dict[str, str] = {}
        for _ in range(HEADERS_MAX + 1):
            line = await asyncio.wait_for(reader.readline(), self.idle)
            if len(line) > LINE_MAX:
                return self.refuse(writer, 501, "header line too long")
            if line in (b"\r\n", b"\n", b""):
                break
            name, found, value = line.decode("latin-1").partition(":")
            if not found:
                return self.refuse(writer, 506, "unable to parse request header")
            headers[name.strip().lower()] = value.strip()
        else:
            return self.refuse(writer, 501, "too many http header lines")
        if match.group(1) not in KNOWN_METHODS:
            return self.refuse(writer, 501, f"method '{match.group(1)}' not available")
        if "transfer-encoding" in headers:
            return self.refuse(
                writer, 501, f"'{headers['transfer-encoding']}' transfer encoding not supported"
            )
        return Request(match.group(1), match.group(2), headers, reader)

    def refuse(self, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        self.send(writer, None, Answer(status, b"", message), False)

    def send(
        self, writer: asyncio.StreamWriter, request: Request | None, answer: Answer, keep: bool
    ) -> None:
        body, packed = answer.body, None
        if request and len(body) > 1024 and "gzip" in request.headers.get("accept-encoding", ""):
            body = packed = gzip.compress(body, 1)
            if "/agent/" in request.path and len(packed) > PACKED_MAX:
                self.send(writer, None, Answer(596, b"", "Broken pipe"), False)
                return
        now = formatdate(usegmt=True)
        lines = [
            f"HTTP/1.1 {answer.status} {answer.reason or REASONS.get(answer.status, 'Error')}",
            "Cache-Control: max-age=0",
        ]
        if keep and answer.proxied:
            # Passed on from the daemon behind; it does not mean this connection.
            lines.append("Connection: close")
        lines += [
            f"Connection: {'Keep-Alive' if keep else 'close'}",
            f"Date: {now}",
            "Pragma: no-cache",
        ]
        lines += ["Server: pve-api-daemon/3.0"]
        if packed is not None:
            lines.append("Content-Encoding: gzip")
        if body:
            lines += [f"Content-Length: {len(body)}", f"Content-Type: {answer.kind}"]
        elif keep:
            lines.append("Content-Length: 0")
        lines.append(f"Expires: {now}")
        writer.write("\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body)


def reset(writer: asyncio.StreamWriter) -> None:
    """Cuts the connection the hard way: the client sees a reset."""
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(Exception):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_body(request: Request, idle: float) -> bytes:
    """A body; the client has `idle` seconds for each piece."""
    data = b""
    while len(data) < request.length:
        piece = await asyncio.wait_for(request.reader.read(request.length - len(data)), idle)
        if not piece:
            raise ConnectionError("body ended early")
        data += piece
    return data


def json_params(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        raise ApiError(400, "malformed JSON string") from None
    if not isinstance(value, dict):
        raise ApiError(400, "JSON body must be an object")
    # the front end passes parameters on as a form, which has no nulls
    return {name: given for name, given in value.items() if given is not None}


async def parameters(request: Request, idle: float, body_max: int) -> dict[str, Any]:
    """Parameters of body and query; the query wins.

    The front end passes a body on as a form, whatever it was, and the limit is there once more.
    """
    given: dict[str, Any] = {}
    if request.length:
        if request.verb not in ("POST", "PUT"):
            raise ApiError(501, f"Unexpected content for method '{request.verb}'")
        kind = request.content_type()
        if request.length > body_max:
            raise ApiError(501, "for data too large")
        if kind not in ("", "application/x-www-form-urlencoded", "application/json"):
            kind = request.headers.get("content-type", "")
            raise ApiError(506, f"upload 'Content-Type '{kind}' not implemented")
        data = await read_body(request, idle)
        given = (
            json_params(data)
            if request.content_type() == "application/json"
            else decode_form(data.decode("latin-1"))
        )
        if len(urlencode(given, doseq=True)) > body_max:
            raise ApiError(501, "for data too large")
    given.update(decode_form(request.query))
    return given
