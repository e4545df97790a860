"""What the VMs boot: moat's image `tiny`, with a word of what a cloud image has on top."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

# Clients ask it whether a first boot is over.
CLOUD_INIT = "#!/bin/sh\n[ \"$1\" = status ] || exit 1\necho 'status: done'\n"


def kernel_of(options: Any) -> tuple[str, str]:
    """Kernel and initramfs: given, or those of the image `tiny` of moat's store."""
    if options.kernel and options.initrd:
        return options.kernel, options.initrd
    data = os.environ.get("MOAT_DATA_DIR") or os.path.expanduser("~/.local/share/moat")
    images = Path(data) / "images"
    digest = (images / "names" / "tiny").read_text().strip()
    folder = images / f"sha256-{digest}"
    manifest = json.loads((folder / "manifest.json").read_text())
    return str(folder / manifest["kernel"]), str(folder / manifest["initrd"])


def add_stubs(root: Path) -> None:
    path = root / "usr" / "bin" / "cloud-init"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CLOUD_INIT)
    path.chmod(0o755)
    # Busybox has none, and the older plugin's commands are nothing without it. Of the same Debian.
    shutil.copy("/usr/bin/flock", path.with_name("flock"))


def with_stubs(initrd: str, folder: Path) -> str:
    """An initramfs with our files appended: the kernel unpacks one archive after the other."""
    extra = folder / "extra"
    add_stubs(extra)
    names = "usr\nusr/bin\nusr/bin/cloud-init\nusr/bin/flock\n"
    command = ["cpio", "-o", "-H", "newc", "--quiet"]
    made = subprocess.run(command, cwd=extra, input=names.encode(), capture_output=True, check=True)
    target = folder / "initrd"
    data = Path(initrd).read_bytes()
    # The next archive starts at a multiple of four.
    target.write_bytes(data + b"\0" * (-len(data) % 4) + made.stdout)
    return str(target)


def unpack(initrd: str, target: Path) -> None:
    """The userland of an initramfs, without what only a kernel of its own needs."""
    target.mkdir()
    with open(initrd, "rb") as archive:
        words = ["cpio", "-idm", "--quiet", "--no-absolute-filenames", "-f", "*lib/modules/*"]
        # Device nodes cannot be made by everybody, and /dev is not taken from there anyway.
        subprocess.run(words, cwd=target, stdin=archive, stderr=subprocess.DEVNULL, check=False)
    for name in ("proc", "dev", "run", "tmp"):
        (target / name).mkdir(exist_ok=True)
    (target / "tmp").chmod(0o1777)
    add_stubs(target)
