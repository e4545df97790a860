"""Container images for tests, made of directory trees and put into the image store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any


def busybox(tree: Path, users: bool = True) -> None:
    """A tree like Alpine's: a static busybox under all its names."""
    for folder in ("bin", "sbin", "etc", "home/app", "root", "tmp", "srv", "usr", "var"):
        (tree / folder).mkdir(parents=True)
    (tree / "usr/bin").symlink_to("../bin")
    shutil.copy2("/bin/busybox", tree / "bin/busybox")
    applets = subprocess.run(
        ["/bin/busybox", "--list"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    for applet in applets:
        if applet != "busybox":
            (tree / "bin" / applet).symlink_to("busybox")
    os.chown(tree / "home/app", 1000, 1000)
    (tree / "tmp").chmod(0o1777)
    if users:
        (tree / "etc/passwd").write_text(
            "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n"
        )
        (tree / "etc/group").write_text("root:x:0:\napp:x:1000:\nstaff:x:50:app\n")


def store(name: str, tree: Path, container: dict[str, Any]) -> None:
    """Puts the tree into the store as a container image of that name."""
    images = Path(os.environ["MOAT_DATA_DIR"]) / "images"
    kit = images / f"sha256-{(images / 'names/container').read_text().strip()}"
    about = json.loads((kit / "manifest.json").read_text())
    digest = hashlib.sha256(json.dumps([name, container]).encode()).hexdigest()
    image = images / f"sha256-{digest}"
    shutil.rmtree(image, ignore_errors=True)
    image.mkdir(mode=0o700)
    size = 32 + 2 * sum(f.stat().st_size for f in tree.rglob("*") if f.is_file()) // 2**20
    subprocess.run(
        ["mke2fs", "-q", "-q", "-t", "ext4", "-L", "root", "-d", tree, image / "disk", f"{size}M"],
        check=True,
    )
    for file in ("vmlinux", "vmlinuz", "initrd"):
        if (kit / file).exists():
            os.link(kit / file, image / file)
    about |= {
        "digest": digest,
        "disk": "disk",
        "disk_format": "raw",
        "description": "for tests",
        "container": {
            "ref": f"test/{name}",
            "digest": f"sha256:{digest}",
            **dict.fromkeys(("entrypoint", "cmd", "working_dir", "user")),
            **dict.fromkeys(("healthcheck", "stop_signal")),
            "env": [],
            "exposed_ports": [],
            "volumes": [],
            **container,
        },
    }
    del about["files"]
    (image / "manifest.json").write_text(json.dumps(about))
    (image / "lock").touch(mode=0o600)
    (images / "names" / name).write_text(digest + "\n")
