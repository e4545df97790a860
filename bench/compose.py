"""Sandboxes of compose files, warm, against one VM of debian12; and the build of a Dockerfile."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from start import DEBIAN
from vm import Home, report, timed

DOCKERFILE = """FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
ENV PATH=/bin
CMD ["httpd", "-f", "-p", "80", "-h", "/bin"]
"""
SERVICE = {"build": ".", "mem_limit": "256m", "cpus": 1}
TIMES = 5


def services(n: int) -> dict[str, object]:
    return {"services": dict.fromkeys(("default", "web_app", "db")[:n], SERVICE)}


def up(home: Home, path: str) -> float:
    """Milliseconds until the first command has run."""
    made: list[str] = []

    def run() -> None:
        made.append(home.ok("up", "--quiet", path, timeout=900))
        home.ok("exec", made[0], "--", "true")

    took = timed(run)
    home.ok("rm", made[0])
    return took


def bench_compose() -> None:
    home = Home()
    with tempfile.TemporaryDirectory() as directory:
        try:
            shutil.copy2("/bin/busybox", directory)
            home.ok("image", "build", "debian12", timeout=1800)
            home.ok("image", "build", "container", timeout=1800)
            debian = home.spec(DEBIAN)
            (Path(directory) / "Dockerfile").write_text(DOCKERFILE)
            cold = timed(lambda: home.ok("image", "build", directory, timeout=900))
            again = [timed(lambda: home.ok("image", "build", directory)) for _ in range(TIMES)]
            report("build_dockerfile_again", again, [cold], "ms")
            up(home, debian)  # makes the template
            baseline = [up(home, debian) for _ in range(TIMES)]
            for n in (1, 3):
                file = Path(directory) / f"{n}-compose.yaml"
                file.write_text(json.dumps(services(n)))
                up(home, str(file))
                ours = [up(home, str(file)) for _ in range(TIMES)]
                report(f"start_compose_{n}", ours, baseline, "ms")
        finally:
            home.close()
