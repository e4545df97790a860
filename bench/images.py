"""Building images, and a VM for one command, from the shell's point of view."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "e2e"))

from mirror import Mirror
from vm import Home, PlainAgent, report, timed

BUILDS, RUNS, BOOTS = 2, 5, 3
PIECE = 1 << 20
# What `moat run tiny` gives its VM.
RAM_MB, VCPUS = 2048, 2


def bootstrap() -> float:
    """A minimal Debian from the same mirror, made by mmdebstrap alone."""
    command = ("mmdebstrap", "-q", "--variant=minbase", "bookworm", "/dev/null")
    return timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def copy_file(source: str) -> None:
    with tempfile.NamedTemporaryFile() as to, open(source, "rb") as file:
        while piece := file.read(PIECE):
            to.write(piece)
        to.flush()
        os.fsync(to.fileno())


def bench_builds(home: Home) -> None:
    # Packages are fetched once: what is measured is the work.
    for name in ("tiny", "debian12"):
        home.ok("image", "build", "--rebuild", name, timeout=3600)
        build = ("image", "build", "--rebuild", name)
        ours = [timed(lambda: home.ok(*build, timeout=3600)) for _ in range(BUILDS)]  # noqa: B023
        report(f"image_build_{name}", ours, [bootstrap() for _ in range(BUILDS)], "ms")
    image = Path(json.loads(home.ok("image", "inspect", "debian12", "--json"))["dir"])
    name = json.loads((image / "manifest.json").read_text())["disk"]
    disk = str(image / name)

    def bring() -> None:
        home.ok("image", "import", "-n", "brought", disk, timeout=600)
        home.ok("image", "rm", "brought")

    def pull() -> None:
        home.ok("image", "pull", "-n", "pulled", f"{mirror.url}/{name}", timeout=600)
        home.ok("image", "rm", "pulled")

    imports = [timed(bring) for _ in range(RUNS)]
    copies = [timed(lambda: copy_file(disk)) for _ in range(RUNS)]
    report("image_import", imports, copies, "ms")
    mirror = Mirror(image)
    try:
        report("image_pull", [timed(pull) for _ in range(RUNS)], copies, "ms")
    finally:
        mirror.close()


def boot_bare(image: Path, kvm: bool) -> None:
    """Boots an image by hand, without a disk of its own, until its agent has run a command."""
    about = json.loads((image / "manifest.json").read_text())
    with tempfile.TemporaryDirectory() as here:
        agent = f"{here}/agent"
        process = subprocess.Popen(
            [
                "qemu-system-x86_64", "-nodefaults", "-display", "none",
                "-accel", "kvm" if kvm else "tcg", *(("-cpu", "host") if kvm else ()),
                "-m", str(RAM_MB), "-smp", str(VCPUS),
                "-kernel", image / about["kernel"], "-initrd", image / about["initrd"],
                "-append", about["cmdline"], "-device", "virtio-serial",
                "-chardev", f"socket,id=agent,path={agent},server=on,wait=off",
                "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
            ]
        )  # fmt: skip
        try:
            while True:
                with contextlib.suppress(OSError, socket.timeout):
                    assert PlainAgent(agent).exec("/bin/true") == 0
                    return
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()


def bench_run(home: Home) -> None:
    home.ok("image", "build", "tiny", timeout=1800)
    image = Path(json.loads(home.ok("image", "inspect", "tiny", "--json"))["dir"])
    kvm = json.loads(home.ok("info", "--json"))["accelerator"] == "kvm"
    home.ok("run", "tiny", "--", "true")  # makes the template
    ours = [timed(lambda: home.ok("run", "tiny", "--", "true")) for _ in range(RUNS)]
    report("run_tiny", ours, [timed(lambda: boot_bare(image, kvm)) for _ in range(BOOTS)], "ms")


def run() -> None:
    home = Home()
    try:
        bench_run(home)
        bench_builds(home)
    finally:
        home.close()
