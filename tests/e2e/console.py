"""A `moat web` for tests."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator

from home import Home
from web_socket import WebSocket


class Console:
    def __init__(self, home: Home, *options: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [home.binary, "web", *options],
            env=home.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{32})", self.url)
        assert found, self.url or self.process.communicate()
        self.port, self.token = int(found[1]), found[2]

    def page(self, path: str = "/sandboxes") -> str:
        """The address of a view."""
        return self.url + path

    def enter(self, *, act: bool = False) -> WebSocket:
        socket = WebSocket(self.port)
        socket.enter(self.token, act=act)
        return socket

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@contextlib.contextmanager
def console(home: Home, *options: str) -> Iterator[Console]:
    made = Console(home, *options)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end(signal.SIGKILL)
