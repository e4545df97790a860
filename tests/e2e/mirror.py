"""A web server on loopback, in place of vendors of cloud images and of their packages."""

from __future__ import annotations

import hashlib
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Says nothing: clients hang up, or are killed."""


class Mirror:
    """Serves the files below a directory. `cut`: each answer for such a path breaks off after so
    many bytes, as often as `cuts` says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: list[tuple[str, str]] = []  # path, Range
        self.cut: dict[str, tuple[int, int]] = {}
        self.reached = threading.Event()  # an answer was cut
        self.no_ranges = False  # a download cannot be continued
        self.no_length = False  # it is not said how long an answer is
        self.hold: threading.Event | None = None  # a cut answer waits for this
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                mirror.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        path = unquote(to.path).lstrip("/")
        wanted = to.headers.get("Range", "")
        self.requests.append((path, wanted))
        file = self.root / path
        if not file.is_file():
            to.send_error(404)
            return
        size = file.stat().st_size
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start and (start >= size or self.no_ranges):
            to.send_error(416)
            return
        to.send_response(206 if wanted else 200)
        if wanted:
            to.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if self.no_length:
            to.close_connection = True
        else:
            to.send_header("Content-Length", str(size - start))
        to.end_headers()
        cut, times = self.cut.get(path, (0, 0))
        with file.open("rb") as source:
            source.seek(start)
            if times > 0:
                self.cut[path] = (cut, times - 1)
                to.wfile.write(source.read(cut))
                to.wfile.flush()
                self.reached.set()
                if self.hold:
                    self.hold.wait(60)
                to.close_connection = True
                return
            while piece := source.read(1 << 20):
                to.wfile.write(piece)

    def ranges(self, path: str) -> list[str]:
        return [wanted for asked, wanted in self.requests if asked == path]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Key:
    """A key of our own, which signs lists of checksums."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(mode=0o700)
        self.gpg("--passphrase", "", "--quick-gen-key", "moat test <test@example.org>", "rsa2048")

    def gpg(self, *args: str) -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--yes", *args]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def public(self) -> bytes:
        return self.gpg("--armor", "--export")

    def sign(self, file: Path) -> None:
        self.gpg("--detach-sign", "--output", f"{file}.gpg", str(file))

    def close(self) -> None:
        command = ["gpgconf", "--homedir", str(self.home), "--kill", "gpg-agent"]
        subprocess.run(command, check=False)


def write_sums(directory: Path, kind: str = "sha256") -> Path:
    """The list of checksums of all files of a directory, as vendors have it."""
    lists = directory / f"{kind.upper()}SUMS"
    files = sorted(f for f in directory.iterdir() if "SUMS" not in f.name)
    lists.write_text(
        "".join(f"{hashlib.new(kind, f.read_bytes()).hexdigest()} *{f.name}\n" for f in files)
    )
    return lists


GENUINE = {"curl", "python3", "qemu-guest-agent", "xz-utils"}


def write_packages(directory: Path, names: list[str]) -> None:
    """A repository of empty packages, which leave /usr/share/moat-test/NAME in a system. Those that
    our Debian has give way to its own."""
    index = []
    for name in names:
        version = "0.0.1" if name in GENUINE else "99"
        tree = directory / "tree"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share/moat-test").mkdir(parents=True)
        (tree / "usr/share/moat-test" / name).write_text("")
        control = (
            f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
            "Maintainer: nobody <nobody@example.org>\nDescription: for a test\n"
        )
        (tree / "DEBIAN/control").write_text(control)
        deb = directory / f"{name}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(deb)],
            check=True,
            capture_output=True,
        )
        subprocess.run(["rm", "-r", str(tree)], check=True)
        content = deb.read_bytes()
        index.append(
            f"{control}Filename: ./{deb.name}\nSize: {len(content)}\n"
            f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
        )
    (directory / "Packages").write_text("\n".join(index))
