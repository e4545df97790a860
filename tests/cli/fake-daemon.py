#!/usr/bin/env python3
"""A stand-in for the daemon, so that the command line can be tested without a VM.

Speaks docs/protocol.md. Commands run on this host, and the "sandbox" is a directory. Sandboxes with
special names misbehave on purpose. Everything that happens is written to a log, one line each.

usage: fake-daemon.py SOCKET ROOT LOG [--protocol N | --refuse N]
"""

import errno
import fcntl
import json
import os
import pty
import queue
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading

SOCKET, ROOT, LOG = sys.argv[1:4]
PROTOCOL = int(sys.argv[5]) if sys.argv[4:5] == ["--protocol"] else 1
REFUSE = int(sys.argv[5]) if sys.argv[4:5] == ["--refuse"] else 0  # connections closed before hello
WINDOW = 1 << 20
SANDBOX = "abcd1234"

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
    {"name": "good", "type": "file", "mode": 0o644, "size": 4},
]


class Failure(Exception):
    def __init__(self, kind, message, eno=0):
        super().__init__(message)
        self.error = {"kind": kind, "message": message}
        if eno:
            self.error["errno"] = eno


def from_oserror(e):
    kinds = {errno.ENOENT: "not_found", errno.ENOTDIR: "not_found", errno.EISDIR: "is_directory"}
    return Failure(kinds.get(e.errno, "internal"), str(e.strerror), e.errno)


def log(text):
    with open(LOG, "a") as f:
        f.write(text + "\n")


class Session:
    def __init__(self, conn):
        self.conn = conn
        self.lock = threading.Lock()
        self.open = {}  # id: queue of (type, frame, blob)
        self.owned = set()

    def send(self, frame, blob=b""):
        text = json.dumps(frame).encode()
        with self.lock:
            self.conn.sendall(struct.pack("<II", len(text), len(blob)) + text + blob)

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
        return json.loads(exactly(head)), exactly(body)

    def run(self):
        try:
            hello, _ = self.receive()
            self.send({"type": "hello", "protocol": PROTOCOL, "version": "9.9", "pid": os.getpid(),
                       "window": WINDOW})
            if hello["protocol"] != PROTOCOL:
                return
            while True:
                frame, blob = self.receive()
                if frame["type"] == "request":
                    box = queue.Queue()
                    self.open[frame["id"]] = box
                    threading.Thread(target=self.request, args=(frame, blob, box), daemon=True).start()
                elif frame["id"] in self.open:
                    self.open[frame["id"]].put((frame["type"], frame, blob))
        except (EOFError, ConnectionError):
            pass
        finally:
            for box in list(self.open.values()):
                box.put(("cancel", {}, b""))
            for sandbox in self.owned:
                log(f"lease-lost {sandbox}")
            self.conn.shutdown(socket.SHUT_RDWR)
            self.conn.close()

    def request(self, frame, blob, box):
        op, args, rid = frame["op"], frame["args"], frame["id"]
        log("op " + json.dumps({"op": op, "args": args, "timeout": frame.get("timeout")}, sort_keys=True))
        try:
            result = Request(self, frame, blob, box).answer(op, args)
            self.send({"type": "result", "id": rid, "result": result})
        except (Failure, OSError) as e:
            try:
                error = (e if isinstance(e, Failure) else from_oserror(e)).error
                self.send({"type": "error", "id": rid, "error": error})
            except OSError:
                pass  # nobody is left to tell
        del self.open[rid]
        if op == "shutdown" and args["force"]:
            os._exit(0)


class Request:
    def __init__(self, session, frame, blob, box):
        self.session, self.id, self.box = session, frame["id"], box
        self.input, self.blob = frame["input"], blob

    def answer(self, op, args):
        return getattr(self, "op_" + op.replace(".", "_"))(args)

    def data(self, stream, blob):
        self.session.send({"type": "data", "id": self.id, "stream": stream}, blob)

    def pieces(self):
        """The input, crediting as it goes; keeps to the protocol's window."""
        if self.blob:
            yield self.blob
        while self.input == "stream":
            kind, _, blob = self.box.get()
            if kind == "cancel":
                raise Failure("cancelled", "cancelled")
            if kind == "eof":
                return
            if kind == "data":
                yield blob
                self.session.send({"type": "credit", "id": self.id, "bytes": len(blob)})

    def until_cancelled(self):
        while self.box.get()[0] != "cancel":
            pass
        log("cancelled")
        raise Failure("cancelled", "cancelled")

    def path(self, args):
        if args["sandbox"] not in (SANDBOX, SANDBOX[:4], "evil"):
            raise Failure("not_found", f'no sandbox "{args["sandbox"]}"')
        if args.get("vm") not in (None, "default", "router"):
            raise Failure("not_found", "no such VM")
        return os.path.join(ROOT, args["path"].lstrip("/")) if args["path"] != "." else ROOT

    # sandboxes

    def op_up(self, args):
        image = args["spec"]["vms"][0].get("source", {})
        if image == {"image": "slow"}:
            self.session.send({"type": "progress", "id": self.id, "text": "booting \x1b[31m", "done": 1, "total": 9})
            self.until_cancelled()
        if image == {"image": "missing"}:
            raise Failure("not_found", 'no image "missing"; build it with `moat image build missing`')
        self.session.send({"type": "progress", "id": self.id, "text": "booting", "done": 1, "total": 2})
        self.session.owned.add(SANDBOX)
        return {"sandbox": SANDBOX, "vms": []}

    def op_validate(self, args):
        if "bogus" in args["spec"]:
            raise Failure("invalid", "bogus: no such member")
        return {}

    def op_detach(self, args):
        self.session.owned.discard(args["sandbox"])
        return {}

    def op_ls(self, args):
        vm = {"name": "default", "state": "running", "image": "tiny", "user": "root", "ram_mb": 256, "vcpus": 1,
              "pid": 77, "accelerator": "tcg"}
        one = {"id": SANDBOX, "driver": "qemu", "state": "running", "age": 200, "detached": True, "owner_pid": 0,
               "labels": {"note": "\x1b[2Jhello"}, "vms": [vm]}
        if "sandbox" in args and args["sandbox"] != SANDBOX:
            raise Failure("not_found", f'no sandbox "{args["sandbox"]}"')
        return {"sandboxes": [one]}

    def op_rm(self, args):
        for sandbox in args.get("sandboxes", []):
            if sandbox != SANDBOX:
                raise Failure("not_found", f'no sandbox "{sandbox}"')
        self.session.owned.clear()
        return {"removed": [SANDBOX]}

    def op_snapshot(self, args):
        raise Failure("unsupported", "the qemu driver has no snapshots yet")

    def op_logs(self, args):
        self.data("body", b"boot\x1b[2J\nready\n")
        if args["follow"]:
            self.until_cancelled()
        return {}

    def op_screenshot(self, args):
        self.data("body", b"\x89PNG fake")
        return {"size": 9}

    # commands

    def op_exec(self, args):
        self.path({"sandbox": args["sandbox"], "vm": args.get("vm"), "path": "."})
        if args["argv"][0] == "no-such-command":
            return {"exit_code": 127, "signal": 0, "timed_out": False, "stdout_bytes": 0, "stderr_bytes": 0,
                    "failure": {"stage": "exec", "errno": 2, "message": "no-such-command: not found"}}
        if "tty" in args:
            return self.exec_tty(args)
        child = subprocess.Popen(args["argv"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env={**os.environ, **args.get("env", {})},
                                 cwd=args.get("cwd", ROOT), start_new_session=True)
        state = {"timed_out": False, "cancelled": False}

        def kill(why):
            if child.poll() is None:
                state[why] = True
                os.killpg(child.pid, signal.SIGKILL)

        def feed():
            try:
                for piece in self.pieces():
                    child.stdin.write(piece)
                child.stdin.close()
                self.input = "stream"
                for _ in self.pieces():
                    pass
            except Failure:
                kill("cancelled")
            except (OSError, ValueError):
                pass

        def drain(stream, pipe):
            try:
                while piece := os.read(pipe.fileno(), 65536):
                    self.data(stream, piece)
            except OSError:
                pass

        threads = [threading.Thread(target=drain, args=a) for a in (("stdout", child.stdout), ("stderr", child.stderr))]
        threading.Thread(target=feed, daemon=True).start()
        for t in threads:
            t.start()
        timer = threading.Timer(args["timeout"], kill, ["timed_out"]) if "timeout" in args else None
        if timer:
            timer.start()
        code = child.wait()
        for t in threads:
            t.join()
        if timer:
            timer.cancel()
        if state["cancelled"]:
            log("cancelled")
            raise Failure("cancelled", "cancelled")
        code = 124 if state["timed_out"] else code if code >= 0 else 128 - code
        return {"exit_code": code, "signal": 0, "timed_out": state["timed_out"], "stdout_bytes": 0, "stderr_bytes": 0}

    def exec_tty(self, args):
        def resize(size):
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["cols"], 0, 0))

        start_r, start_w = os.pipe()
        pid, fd = pty.fork()
        if pid == 0:
            os.read(start_r, 1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # the test's shell had it ignored
            os.environ.update(args.get("env", {}))
            os.execvp(args["argv"][0], args["argv"])
        resize(args["tty"])
        os.write(start_w, b"x")

        def feed():
            while True:
                kind, frame, blob = self.box.get()
                if kind == "data":
                    os.write(fd, blob)
                    self.session.send({"type": "credit", "id": self.id, "bytes": len(blob)})
                elif kind == "resize":
                    resize(frame)
                elif kind == "cancel":
                    os.kill(pid, signal.SIGKILL)
                    return

        threading.Thread(target=feed, daemon=True).start()
        while True:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            self.data("stdout", piece)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return {"exit_code": code if code >= 0 else 128 - code, "timed_out": False}

    # files

    def op_read(self, args):
        path = self.path(args)
        if args["sandbox"] == "evil":
            if args["path"].count("/") == 0:
                raise Failure("is_directory", "is a directory", errno.EISDIR)
            self.data("body", b"evil")
            return {"size": 4, "mode": 0o4755}
        if args["path"] == "/endless":
            while self.box.empty():
                self.data("body", bytes(65536))
            self.until_cancelled()
        with open(path, "rb") as f:
            size = 0
            while piece := f.read(65536):
                size += len(piece)
                self.data("body", piece)
            return {"size": size, "mode": stat.S_IMODE(os.fstat(f.fileno()).st_mode)}

    def op_write(self, args):
        path = self.path(args)
        if os.path.isdir(path):
            raise Failure("is_directory", "is a directory", errno.EISDIR)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        size = 0
        with open(path, "wb") as f:
            for piece in self.pieces():
                f.write(piece)
                size += len(piece)
        os.chmod(path, args.get("mode", 0o644))
        return {"size": size}

    def op_list(self, args):
        path = self.path(args)
        if args["sandbox"] == "evil":
            deep = args["path"].startswith("deep")
            if args["path"].startswith("nul"):
                return {"entries": [{"name": "ok\0/../x", "type": "file", "mode": 0o644, "size": 4}]}
            return {"entries": [{"name": "d", "type": "dir", "mode": 0o755, "size": 0}] if deep else HOSTILE}

        def entry(name, at):
            st = os.lstat(at)
            kind = ("link" if stat.S_ISLNK(st.st_mode) else "dir" if stat.S_ISDIR(st.st_mode)
                    else "file" if stat.S_ISREG(st.st_mode) else "other")
            one = {"name": name, "type": kind, "mode": stat.S_IMODE(st.st_mode), "size": st.st_size, "mtime": 0}
            return {**one, "target": os.readlink(at)} if kind == "link" else one

        if args["path"].endswith("/") or os.path.isdir(path) and not os.path.islink(path):
            return {"entries": [entry(n, os.path.join(path, n)) for n in sorted(os.listdir(path))]}
        return {"entries": [entry("", path)]}

    def op_mkdir(self, args):
        os.makedirs(self.path(args), exist_ok=True)
        os.chmod(self.path(args), args.get("mode", 0o755))
        return {}

    def op_symlink(self, args):
        os.symlink(args["target"], self.path(args))
        return {}

    # images and the host

    def op_image_ls(self, args):
        return {"images": [{"name": "tiny", "digest": "0123456789abcdef", "size": 5 << 20, "created": 0,
                            "arch": "x86_64", "user": "root", "description": "small"}]}

    def op_image_inspect(self, args):
        if args["image"] != "tiny":
            raise Failure("not_found", f'no image "{args["image"]}"')
        return {"name": "tiny", "size": 5 << 20}

    def op_image_build(self, args):
        return {"name": args["image"]}

    def op_image_import(self, args):
        return {"name": args["name"], "path": args["path"]}

    def op_image_rm(self, args):
        return {"freed": 1 << 20}

    def op_doctor(self, args):
        checks = [{"driver": "qemu", "name": "qemu", "state": "ok", "detail": "7.2"}]
        if args.get("driver") != "qemu":
            checks.append({"driver": "vagrant", "name": "vagrant", "state": "missing", "detail": "not found",
                           "fix": "apt install vagrant"})
        return {"checks": checks}

    def op_gc(self, args):
        return {"removed": ["the overlay x"]}

    def op_info(self, args):
        return {"version": "9.9", "pid": os.getpid(), "uptime": 5, "paths": {"state": "/s"}, "config": {},
                "memory": {"total_mb": 1}, "accelerator": "tcg", "sandboxes": 1, "connections": 1, "operations": 1}

    def op_shutdown(self, args):
        if not args["force"]:
            raise Failure("busy", "1 sandbox is running; --force removes it")
        return {}


def main():
    server = socket.socket(socket.AF_UNIX)
    server.bind(SOCKET)
    server.listen(64)
    for _ in range(REFUSE):
        server.accept()[0].close()
    while True:
        threading.Thread(target=Session(server.accept()[0]).run, daemon=True).start()


main()
