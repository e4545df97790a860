"""moat against plain Vagrant: one command, and making a machine, in tests/vagrant/lab.sh."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from vm import Home, Wire, report, timed

ROOT = Path(__file__).resolve().parents[1]
EXECS, SSHS, UPS = 100, 5, 7
VAGRANTFILE = ROOT / "tests" / "vagrant" / "files" / "Vagrantfile.single"


def vagrant(directory: str, *argv: str) -> None:
    subprocess.run(
        ["vagrant", *argv],
        env={**os.environ, "VAGRANT_CWD": directory},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )


def bench_exec(home: Home, sandbox: str) -> None:
    (entry,) = json.loads(home.ok("ls", "--json"))["sandboxes"]
    vm = entry["vms"][0]
    wire = Wire(home)

    def ours() -> None:
        asked = wire.request("exec", {"sandbox": sandbox, "argv": ["true"], "capture": True})
        assert wire.final(asked)["result"]["exit_code"] == 0

    def theirs() -> None:
        vagrant(vm["place"], "ssh", vm["known_as"], "--no-tty", "-c", "true")

    ours()
    theirs()
    mine = [timed(ours) for _ in range(EXECS)]
    baseline = [timed(theirs) for _ in range(SSHS)]
    report("vagrant_exec", mine, baseline, "ms")


def bench_up(home: Home) -> None:
    ours, baseline = [], []
    for _ in range(UPS):
        plain = tempfile.mkdtemp(prefix="plain-", dir=home.dir)
        shutil.copy(VAGRANTFILE, f"{plain}/Vagrantfile")
        baseline.append(timed(lambda where=plain: vagrant(where, "up")))
        vagrant(plain, "destroy", "-f")
        made: list[str] = []
        ours.append(timed(lambda to=made: to.append(home.ok("up", str(VAGRANTFILE), timeout=3600))))
        home.ok("rm", *made, timeout=3600)
    overhead = 100 * (statistics.median(ours) / statistics.median(baseline) - 1)
    report("vagrant_up", ours, baseline, "ms", overhead_percent=round(overhead, 1))


def inside() -> None:
    listed = subprocess.run(["vagrant", "box", "list"], capture_output=True, text=True, check=True)
    if "moat-test" not in listed.stdout:
        subprocess.run(["vagrant", "box", "add", os.environ["MOAT_TEST_BOX"]], check=True)
    home = Home()
    home.env["INSPECT_SANDBOX_CACHE_DIR"] = str(home.dir / "sandboxes")
    try:
        sandbox = home.ok("up", str(VAGRANTFILE), timeout=3600)
        bench_exec(home, sandbox)
        home.ok("rm", sandbox, timeout=3600)
        bench_up(home)
    finally:
        home.run("rm", "--all", timeout=3600)
        home.close()


def run() -> None:
    """Packages, box and lab first. As root."""
    where = ROOT / "build" / "test-vagrant"
    home = Home()
    try:
        subprocess.run([ROOT / "tools" / "install-deps", "vagrant"], check=True)
        home.ok("image", "build", "tiny", timeout=1800)
        tiny = json.loads(home.ok("image", "inspect", "tiny", "--json"))["dir"]
    finally:
        home.close()
    box = where / "moat-test.json"
    if not box.exists():
        subprocess.run([ROOT / "tests" / "vagrant" / "make-box.sh", tiny, where], check=True)
    subprocess.run(
        [ROOT / "tests" / "vagrant" / "lab.sh", where / "lab", sys.executable, __file__],
        env={**os.environ, "MOAT_TEST_BOX": str(box)},
        check=True,
    )


if __name__ == "__main__":
    inside()
