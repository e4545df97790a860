"""Container images made on the spot, and a registry on loopback that serves them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import socket
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tools import until

# VFS_CAP_REVISION_2 with the effective bit, and CAP_NET_RAW.
NET_RAW = bytes.fromhex("0100000200200000000000000000000000000000")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Layer:
    """A tar file, written entry by entry."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        self.tar = tarfile.TarFile(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name: str, content: bytes = b"", **more: Any) -> Layer:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for key, value in more.items():
            setattr(info, key, value)
        self.tar.addfile(info, io.BytesIO(content))
        return self

    def folder(self, name: str, **more: Any) -> Layer:
        return self.add(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **more})

    def link(self, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Layer:
        return self.add(name, type=kind, linkname=target, mode=0o777)

    def packed(self) -> bytes:
        self.tar.close()
        return gzip.compress(self.bytes.getvalue(), 1, mtime=0)


def busybox_layer(gid: int = 70000) -> Layer:
    """What containers have, with one of each kind of file."""
    layer = Layer()
    for folder in ("bin", "etc", "srv", "srv/gone", "srv/old"):
        layer.folder(folder)
    layer.add("bin/busybox", Path("/bin/busybox").read_bytes(), mode=0o4755)
    layer.link("bin/sh", "busybox")
    layer.link("bin/ping", "bin/busybox", tarfile.LNKTYPE)
    layer.link("sbin", "bin")
    layer.add("etc/passwd", b"root:x:0:0:root:/:/bin/sh\nkim:x:1500:1500::/:/bin/sh\n")
    layer.add("srv/owned", b"hello\n", uid=1500, gid=gid, mode=0o640)
    layer.add("srv/gone/file", b"x")
    layer.add("srv/old/file", b"x")
    xattrs = {
        "SCHILY.xattr.security.capability": NET_RAW.decode("latin-1"),
        "SCHILY.xattr.user.note": "seen",
    }
    layer.add("srv/capable", b"x", mode=0o755, pax_headers=xattrs)
    layer.add("srv/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
    return layer


def upper_layer() -> Layer:
    """Removes some of it, and writes through a link of the layer below."""
    layer = Layer()
    layer.add("srv/.wh.gone").add("srv/old/.wh..wh..opq").add("srv/old/new", b"new\n")
    return layer.add("sbin/tool", b"#!/bin/sh\n", mode=0o755)


CONFIG: dict[str, Any] = {
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["sleep 1000"],
    "Env": ["PATH=/bin", "A=b c"],
    "WorkingDir": "/srv",
    "User": "1500:1500",
    "ExposedPorts": {"80/tcp": {}},
    "Volumes": {"/data": {}},
    "StopSignal": "SIGINT",
    "Healthcheck": {"Test": ["CMD-SHELL", "true"], "Interval": 7_000_000_000, "Retries": 2},
}


def write_image(to: Path, layers: list[bytes], arch: str = "amd64") -> str:
    """Writes an image of Docker's form as skopeo does ("dir:"); returns its digest."""
    to.mkdir(parents=True)
    (to / "version").write_text("Directory Transport Version: 1.1\n")
    plain = [gzip.decompress(layer) for layer in layers]
    config = {
        "architecture": arch,
        "os": "linux",
        "config": CONFIG,
        "history": [{"created_by": "a test"} for _ in layers],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(p)}" for p in plain]},
    }
    kind = "application/vnd.docker."

    def blob(data: bytes, media: str) -> dict[str, Any]:
        (to / sha256(data)).write_bytes(data)
        return {"mediaType": kind + media, "size": len(data), "digest": f"sha256:{sha256(data)}"}

    manifest = {
        "schemaVersion": 2,
        "mediaType": kind + "distribution.manifest.v2+json",
        "config": blob(json.dumps(config).encode(), "container.image.v1+json"),
        "layers": [blob(layer, "image.rootfs.diff.tar.gzip") for layer in layers],
    }
    text = json.dumps(manifest).encode()
    (to / "manifest.json").write_bytes(text)
    return sha256(text)


def skopeo(*args: str | Path) -> None:
    done = subprocess.run(
        ["skopeo", *map(str, args)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Registry:
    """docker-registry on loopback; password: what its user "kim" needs, if any."""

    def __init__(self, root: Path, password: str = "") -> None:
        self.host = f"127.0.0.1:{free_port()}"
        self.root = root
        root.mkdir(exist_ok=True)
        config: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(root / "data")}},
            "http": {"addr": self.host},
        }
        if password:
            salt = "$2b$05$" + "abcdefghijklmnopqrstuu"
            script = "print crypt($ARGV[0], $ARGV[1])"
            hashed = subprocess.check_output(["perl", "-e", script, password, salt], text=True)
            (root / "users").write_text(f"kim:{hashed}\n")
            config["auth"] = {"htpasswd": {"realm": "lab", "path": str(root / "users")}}
        (root / "config.yml").write_text(json.dumps(config))
        self.process = subprocess.Popen(
            ["docker-registry", "serve", root / "config.yml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.answers, "the registry answers")

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}/v2/", timeout=5):
                return True
        except urllib.error.HTTPError as refused:
            return refused.code == 401
        except OSError:
            return False

    def push(self, image: Path, name: str, *more: str) -> None:
        to = f"docker://{self.host}/{name}"
        skopeo("copy", "-q", "--dest-tls-verify=false", *more, f"dir:{image}", to)

    def lose(self, blob: str) -> None:
        """Forgets the content of a layer."""
        (self.root / "data/docker/registry/v2/blobs/sha256" / blob[:2] / blob / "data").unlink()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
