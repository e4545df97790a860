#!/usr/bin/env python3
"""A daemon that does what the real one never does, so that the command line can be seen to bear it.

The real daemon keeps to docs/protocol.md and hands on no name that leads out of its directory,
whatever the guest says; it is of the same version as the command line; and it answers what it was
asked. This one does not. All else is tested with the real one.

usage: rogue-daemon.py SOCKET LOG [--protocol N | --refuse N]
"""

import json
import os
import socket
import struct
import sys
import threading

SOCKET, LOG = sys.argv[1:3]
PROTOCOL = int(sys.argv[4]) if sys.argv[3:4] == ["--protocol"] else 1
# The number of connections that are closed before hello.
REFUSE = int(sys.argv[4]) if sys.argv[3:4] == ["--refuse"] else 0
EISDIR = 21

# A guest's directory with names that lead elsewhere, a link and then a directory of the same name,
# and more.
HOSTILE = [
    {"name": "../escaped", "type": "file", "mode": 0o644, "size": 4},
    {"name": "..", "type": "dir", "mode": 0o755, "size": 0},
    {"name": ".", "type": "dir", "mode": 0o755, "size": 0},
    {"name": "", "type": "file", "mode": 0o644, "size": 4},
    {"name": "/etc/escaped", "type": "file", "mode": 0o644, "size": 4},
    {"name": "door", "type": "link", "mode": 0o777, "size": 0, "target": "../outside"},
    {"name": "door", "type": "dir", "mode": 0o755, "size": 0},
    {"name": "key", "type": "link", "mode": 0o777, "size": 0, "target": "../outside/file"},
    {"name": "key", "type": "file", "mode": 0o644, "size": 4},
    {"name": "suid", "type": "file", "mode": 0o4755, "size": 4},
    {"name": "esc\x1b[31m", "type": "other", "mode": 0o644, "size": 0},
    {"name": "two\nmoat: lines", "type": "link", "mode": 0o777, "size": 0, "target": ""},
    {"name": "good", "type": "file", "mode": 0o644, "size": 4},
]


def packed(head, blob=b""):
    text = json.dumps(head).encode()
    return struct.pack("<II", len(text), len(blob)) + text + blob


# What `ls NAME` and `exec NAME` get instead of an answer; then the connection ends.
BREACHES = {
    "nothing": b"",
    "half": packed({"type": "result", "id": 1, "result": {"sandboxes": []}})[:-9],
    "huge": struct.pack("<II", 0xFFFFFFFF, 0),
    "blob": struct.pack("<II", 2, 0xFFFFFFFF) + b"{}",
    "garbage": struct.pack("<II", 9, 0) + b"[nothing,",
    "list": struct.pack("<II", 2, 0) + b"[]",
    "typeless": packed({"id": 1}),
    "empty": packed({"type": "result", "id": 1}),
    "angry": packed({"type": "error", "error": {"kind": "invalid", "message": "go \x1b[2Jaway"}}),
    "stranger": packed({"type": "result", "id": 99, "result": {"sandboxes": []}}),
}


class Session:
    def __init__(self, conn):
        self.conn = conn

    def receive(self):
        def exactly(n):
            data = b""
            while len(data) < n:
                piece = self.conn.recv(n - len(data))
                if not piece:
                    raise EOFError
                data += piece
            return data

        head, body = struct.unpack("<II", exactly(8))
        frame = json.loads(exactly(head))
        exactly(body)
        return frame

    def run(self):
        try:
            hello = self.receive()
            mine = {"protocol": PROTOCOL, "version": "9.9", "pid": os.getpid(), "window": 1 << 20}
            self.conn.sendall(packed({"type": "hello", **mine}))
            while hello["protocol"] == PROTOCOL and self.serve(self.receive()):
                pass
        except (EOFError, ConnectionError):
            pass
        finally:
            self.conn.close()

    def serve(self, frame):
        """Answers a request; false when the connection ends with that."""
        if frame["type"] != "request":
            return True
        op, args, rid = frame["op"], frame["args"], frame["id"]
        breach = BREACHES.get(args.get("sandbox"))
        if breach is not None:
            if op == "exec":
                self.send("data", rid, b"so far\n", stream="stdout")
            self.conn.sendall(breach)
            return False
        getattr(self, "op_" + op)(rid, args)
        return True

    def send(self, kind, rid, blob=b"", **members):
        self.conn.sendall(packed({"type": kind, "id": rid, **members}, blob))

    def op_ls(self, rid, args):
        wrong = {"state": "esc\x1b[2J", "vms": 7, "labels": [], "age": "old"}
        self.send("result", rid, result={"sandboxes": [{"id": "abcd1234", **wrong}]})

    def op_up(self, rid, args):
        """Says something rude, and nothing more until it is told to stop."""
        self.send("progress", rid, text="booting \x1b[31m", done=9, total=1)
        while self.receive()["type"] != "cancel":
            pass
        with open(LOG, "a") as log:
            log.write("cancelled\n")
        self.send("error", rid, error={"kind": "cancelled", "message": "cancelled"})

    def op_read(self, rid, args):
        if "/" not in args["path"]:
            error = {"kind": "is_directory", "message": "is a directory", "errno": EISDIR}
            self.send("error", rid, error=error)
            return
        self.send("data", rid, b"evil", stream="body")
        self.send("result", rid, result={"size": 4, "mode": 0o4755})

    def op_list(self, rid, args):
        if args["path"].startswith("nul"):
            entries = [{"name": "ok\0/../x", "type": "file", "mode": 0o644, "size": 4}]
        elif args["path"].startswith("deep"):
            entries = [{"name": "d", "type": "dir", "mode": 0o755, "size": 0}]
        elif args["path"].startswith("long"):
            # A hundred levels; the listing of each takes a megabyte.
            entries = [{"name": "d", "type": "dir", "mode": 0o755, "target": "x" * 1000000}]
            entries *= args["path"].count("/") < 100
        elif args["path"].startswith("names"):
            # Directories that cannot be made here; the client must keep their names until it tries.
            names = ["d"] + ["x" * 60000] * 17
            entries = [{"name": name, "type": "dir", "mode": 0o755} for name in names]
        else:
            entries = HOSTILE
        self.send("result", rid, result={"entries": entries})

    def op_shutdown(self, rid, args):
        self.send("result", rid, result={})
        os._exit(0)


def main():
    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET + ".new")
    server.listen(64)
    os.rename(SOCKET + ".new", SOCKET)  # when the socket is there, clients can connect
    for _ in range(REFUSE):
        server.accept()[0].close()
    while True:
        threading.Thread(target=Session(server.accept()[0]).run, daemon=True).start()


main()
