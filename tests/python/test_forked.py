"""A process that an eval has forked (for a scorer's pool, say) and that outlives the eval."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from inspect_moat._wire import FrameDecoder, encode_frame

PATIENCE = 60

EVAL = """
import os, sys
import anyio
from inspect_moat._connect import connect

async def main() -> None:
    await connect()
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    print(child, flush=True)
    await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_does_not_keep_the_sandboxes(runtime_dir: Path, backend: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(runtime_dir / "moat.sock"))
        server.listen()
        server.settimeout(PATIENCE)
        command = [sys.executable, "-c", EVAL, backend]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            peer, _ = server.accept()
            peer.settimeout(PATIENCE)
            decoder = FrameDecoder()
            while not decoder.feed(peer.recv(65536)):
                pass
            hello = {"type": "hello", "protocol": 1, "version": "x", "pid": os.getpid()}
            peer.sendall(b"".join(bytes(p) for p in encode_frame({**hello, "window": 65536})))
            assert process.stdout is not None
            child = int(process.stdout.readline())
            process.kill()
            while peer.recv(65536):  # until the daemon sees the end of the connection
                pass
            assert Path(f"/proc/{child}").exists()
