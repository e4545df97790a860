"""Every process of moat killed, crashed or stopped, at any moment: nothing is left afterwards.

A run does something (a moment), strikes one process that takes part (a target) with a signal, and
ends what it began. Then all that moat could leave is counted. MOAT_FAULT_RUNS says how many runs
there are, MOAT_FAULT_SEED makes them the same again, MOAT_FAULT_ONLY picks one by its number.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from home import COLD, TINY, Home
from mirror import Mirror
from traces import Traces

from tools import copy_data, own_data, until

RUNS = int(os.environ.get("MOAT_FAULT_RUNS", "150"))
SEED = os.environ.get("MOAT_FAULT_SEED", "1")  # whoever wants others gives another one
ONLY = os.environ.get("MOAT_FAULT_ONLY")
HOMES = 4  # at work at the same time: most of a run is waiting
LIMIT = 300  # seconds for what must end; a busy machine is slow

# With DHCP, DNS and a way out, so that every helper of a network runs. No address is ever asked.
NETWORK = {
    "alias": "lan",
    "egress": {"allow": {"cidrs": ["192.0.2.0/24"]}},
    "subnets": [
        {
            "cidr": "10.1.0.0/24",
            "gateway": "10.1.0.1",
            "snat": True,
            "dhcp_ranges": [{"start": "10.1.0.10", "end": "10.1.0.20"}],
        }
    ],
}
WARM_NET = {**TINY, "networks": {"vnets": [NETWORK]}}
COLD_NET = {**COLD, "networks": {"vnets": [NETWORK]}}
DISK = {"vms": [{"source": "tiny-disk", "ram_mb": 192, "vcpus": 1}], "networks": "none"}
# The file is put onto the disk by another VM, before this one boots.
FILE = {"path": "/flag", "content": "flag"}
FILES = {"vms": [{**DISK["vms"][0], "warm": False, "files": [FILE]}], "networks": "none"}

RECIPE = """#!/bin/sh
echo "progress 1 2 making a disk"
head -c 1048576 /dev/urandom >"$1/disk"
sleep 1
echo '{"format":1,"arch":"x86_64","description":"d","disk":"disk","disk_format":"raw"}' \
    >"$1/manifest.json"
"""

SANDBOX = ("client", "daemon", "qemu", "qemu-guard", "holder", "holder-guard", "pasta")
SANDBOX += ("dnsmasq", "dns")
STORE = ("client", "daemon", "guard", "worker")
ON_DISK = ("client", "daemon", "qemu", "qemu-guard")


class Moment(NamedTuple):
    targets: tuple[str, ...]
    running: bool = True  # in a sandbox that is up already
    weight: int = 1
    spec: dict[str, Any] = WARM_NET  # of that sandbox


MOMENTS = {
    "up": Moment(SANDBOX, running=False, weight=4),
    "up-cold": Moment(SANDBOX, running=False, weight=2),
    "exec": Moment(SANDBOX, weight=2),
    "cp-in": Moment(SANDBOX),
    "cp-out": Moment(SANDBOX),
    "snapshot": Moment(SANDBOX),
    "restore": Moment(SANDBOX),
    "fork": Moment(SANDBOX, weight=2),
    "rm": Moment(SANDBOX, weight=2),
    "idle": Moment(SANDBOX[1:]),
    "import": Moment(STORE, running=False, weight=2),
    "build": Moment(STORE, running=False, weight=2),
    "steps": Moment(STORE, running=False),
    "pull": Moment(STORE, running=False),
    "commit": Moment((*ON_DISK, "guard", "worker"), spec=DISK),
    "files": Moment(ON_DISK, running=False),
}
# Images that runs make.
MADE = ("imported", "built", "changed", "pulled", "committed")
# The kernel keeps SIGSEGV from the first process of a pid namespace, which QEMU is, unless it has
# made the fault itself: such a run shows only that nothing comes of it.
SIGNALS = {"KILL": signal.SIGKILL, "SEGV": signal.SIGSEGV, "STOP": signal.SIGSTOP}


# By what is in the command line; the first that fits counts.
ROLES = {
    " serve ": "daemon",
    "moat-helper net-holder": "holder",
    "moat-helper net-dns": "dns",
    "qemu-system": "qemu",
    "pasta ": "pasta",
    "dnsmasq ": "dnsmasq",
    "/moat ": "client",  # or a process of its leak checker, which must be left alone
}


def role(line: str) -> str:
    """Which target a process is. A guard has the command line of what it guards behind its own."""
    _, is_guard, guarded = line.partition("moat-helper guard ")
    found = (name for words, name in ROLES.items() if words in (guarded or line))
    if is_guard:
        name = next(found, "")
        return f"{name}-guard" if name else "guard"
    return next(found, "worker")


def send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class Run:
    """One cell of the matrix, chosen by its number."""

    def __init__(self, home: Faulty, number: int) -> None:
        self.home = home
        self.rng = random.Random(f"{SEED}/{number}")
        names = [name for name, m in MOMENTS.items() for _ in range(m.weight)]
        self.moment = self.rng.choice(names)
        self.target = self.rng.choice(MOMENTS[self.moment].targets)
        self.signal = self.rng.choice(list(SIGNALS))
        # What happens to a stopped process: it goes on, or is left as it is by a user who removes
        # the sandbox, or by a daemon that is killed.
        self.then = self.rng.choice(["go on", "give up", "daemon killed"])
        self.delay = self.rng.choice(
            [0.0, self.rng.uniform(0, 0.1), self.rng.uniform(0, 0.5), self.rng.uniform(0, 2)]
        )
        self.client: subprocess.Popen[bytes] | None = None
        self.stopped: list[int] = []

    def __str__(self) -> str:
        more = f", then {self.then}" if self.signal == "STOP" else ""
        return f"{self.signal} to {self.target} {self.delay:.2f} s into {self.moment}{more}"

    # ---- what is interrupted ----

    def begin(self) -> None:
        """Makes the sandbox, if the moment needs one, and starts the client."""
        home, sandbox = self.home, ""
        if MOMENTS[self.moment].running:
            sandbox = home.up(MOMENTS[self.moment].spec)
            if self.moment == "restore":
                home.ok("snapshot", sandbox, "one")
        if self.moment == "import":  # another disk: the same one would not be converted again
            with (home.dir / "disk.raw").open("r+b") as disk:
                disk.seek(4096)
                disk.write(self.rng.randbytes(16))
        loud = "yes | head -c 5000000; sleep 1"
        commands = {
            "up": ["up", home.spec(WARM_NET)],
            "up-cold": ["up", home.spec(COLD_NET)],
            "exec": ["exec", sandbox, "--", "sh", "-c", loud],
            "cp-in": ["cp", str(home.dir / "big"), f"{sandbox}:/tmp/big"],
            "cp-out": ["cp", f"{sandbox}:/bin/busybox", str(home.dir / "copied")],
            "snapshot": ["snapshot", sandbox, "two"],
            "restore": ["restore", sandbox, "one"],
            "fork": ["fork", sandbox],
            "rm": ["rm", sandbox],
            "import": ["image", "import", "--name", "imported", str(home.dir / "disk.raw")],
            "build": ["image", "build", "--rebuild", "built"],
            "steps": ["image", "build", "tiny-disk", "--name", "changed", "--run", home.step()],
            "pull": ["image", "pull", "--name", "pulled", f"{home.mirror.url}/disk.raw"],
            "commit": ["image", "commit", sandbox, "committed"],
            "files": ["up", home.spec(FILES)],
        }
        if self.moment in commands:
            self.client = home.start(*commands[self.moment])

    def victims(self) -> list[int]:
        if self.target == "client":
            return [self.client.pid] if self.client and self.client.poll() is None else []
        client = self.client.pid if self.client else 0
        mine = self.home.processes().items()
        return sorted(p for p, line in mine if p != client and role(line) == self.target)

    def strike(self) -> bool:
        """False: there was no such process before the client ended."""
        while not self.victims():
            if not self.client or self.client.poll() is not None:
                return False
            time.sleep(0.005)
        time.sleep(self.delay)  # the instant is the attack
        found = self.victims()
        if not found:
            return False
        # One of several, such as the holder's two processes, or all at once.
        struck = found if self.rng.random() < 0.5 else [self.rng.choice(found)]
        hit = [pid for pid in struck if send(pid, SIGNALS[self.signal])]
        if self.signal == "STOP":
            self.stopped = hit
        return bool(hit)

    # ---- what becomes of it ----

    def resume(self) -> None:
        for pid in self.stopped:
            send(pid, signal.SIGCONT)
        self.stopped = []

    def settle(self) -> None:
        """A stopped process: its user waits, removes everything, or the daemon dies as well."""
        if self.target == "daemon":
            self.settle_daemon()
        elif self.target == "client":
            if self.then == "go on":
                self.resume()
        elif self.then == "go on":
            time.sleep(self.rng.uniform(0, 0.5))
            self.resume()
        elif self.then == "daemon killed":
            self.home.kill_daemon()
        # A guard that was stopped is woken; what works below it may work as long as it likes.
        if self.target == "worker" and self.client and self.stopped:
            self.client.send_signal(signal.SIGTERM)

    def settle_daemon(self) -> None:
        """Nothing comes from a stopped daemon, and new clients are told so."""
        if self.then == "give up":
            assert "does not answer" in self.home.fails("ls", timeout=LIMIT)
        if self.then == "daemon killed":
            self.home.kill_daemon()
        self.resume()

    def end(self) -> None:
        self.home.ok("ls", timeout=LIMIT)  # the next daemon, if the last one is gone
        if self.client and self.target == "client" and self.stopped:
            send(self.client.pid, signal.SIGKILL)
        self.home.ok("rm", "--all", timeout=LIMIT)
        if self.client:
            self.client.wait(LIMIT)
        self.home.ok("rm", "--all", timeout=LIMIT)  # what a client's last words were about
        for name in MADE:
            self.home.run("image", "rm", name, timeout=LIMIT)

    def close(self) -> None:
        self.resume()
        if self.client and self.client.poll() is None:
            self.client.kill()
            self.client.wait()


class Tally:
    """What the runs came to."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.struck: Counter[tuple[str, str]] = Counter()
        self.missed: Counter[str] = Counter()
        self.failures: list[str] = []

    def add(self, run: Run, struck: bool) -> None:
        with self.lock:
            if struck:
                self.struck[run.target, run.signal] += 1
            else:
                self.missed[run.target] += 1

    def fail(self, number: int, what: str) -> None:
        with self.lock:
            self.failures.append(f"MOAT_FAULT_SEED={SEED} MOAT_FAULT_ONLY={number}: {what}")

    def __str__(self) -> str:
        lines = [
            f"{target:14}"
            + "".join(f" {name} {self.struck[target, name]:4}" for name in SIGNALS)
            + f" too late {self.missed[target]:4}"
            for target in dict.fromkeys((*SANDBOX, *STORE))
        ]
        return "\n".join(lines)


def one_run(home: Faulty, traces: Traces, number: int, tally: Tally) -> None:
    run = Run(home, number)
    try:
        run.begin()
        struck = run.strike()
        tally.add(run, struck)
        if struck and run.signal == "STOP":
            run.settle()
        run.end()
        until(lambda: not traces.left() and not home.steps(), "nothing is left", LIMIT)
    except (AssertionError, subprocess.TimeoutExpired) as ex:
        tally.fail(number, f"{run}: {ex}; left: {traces.left()} {home.steps()}")
        raise
    finally:
        run.close()


class Faulty(Home):
    """A home with a store of its own, which images are imported into and built in."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self.env["MOAT_DATA_DIR"] = str(data)
        # AddressSanitizer's handler may wait for ever for a lock that the crashed thread has.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":handle_segv=0"
        (self.dir / "big").write_bytes(os.urandom(4_000_000))
        (self.dir / "disk.raw").write_bytes(b"\0" * 510 + b"\x55\xaa" + os.urandom(32 << 20))
        (data / "recipes").mkdir(exist_ok=True)
        (data / "recipes" / "built.sh").write_text(RECIPE)
        self.mirror = Mirror(self.dir)
        self.seconds = f"1.{random.randrange(10**9):09}"  # nobody else sleeps so long

    def step(self) -> str:
        """A script that changes an image, another one each time."""
        path = self.dir / "step.sh"
        path.write_text(f"echo {time.monotonic_ns()} >/changed\nexec sleep {self.seconds}\n")
        return str(path)

    def steps(self) -> list[str]:
        """Such scripts at work. They have an environment of their own, by which none is known."""
        wanted = f"sleep\0{self.seconds}\0".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cmdline").read_bytes() == wanted:
                    found.append(f"step {process.name}")
        return found

    def close(self) -> None:
        self.mirror.close()
        super().close()


@pytest.fixture(scope="module")
def homes(images: None) -> Iterator[list[Faulty]]:
    """The first makes the template, the others get copies of it."""
    made: list[Faulty] = []
    core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, core[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_CORE, core)
        for number in range(HOMES):
            data = stack.enter_context(own_data())
            made.append(Faulty(data))
            stack.callback(made[-1].close)
            if number == 0:
                made[0].ok("image", "build", "tiny-disk", timeout=1800)
                made[0].up(WARM_NET)
                made[0].up(DISK)
                made[0].ok("rm", "--all")
            else:
                copy_data(Path(made[0].env["MOAT_DATA_DIR"]), data, "templates")
        yield made


def test_traces_are_seen(homes: list[Faulty]) -> None:
    """The control: what a sandbox and a build have made is counted while they are there."""
    home = homes[0]
    traces = Traces(home)
    sandbox = home.up(WARM_NET)
    assert {"process", "child", "network", "file", "directory", "row"} <= traces.kinds()
    builder = home.start("image", "build", "--rebuild", "built")
    until(lambda: "stored" in traces.kinds(), "the build has begun")
    assert builder.wait(LIMIT) == 0
    assert "stored" in traces.kinds()
    home.ok("image", "rm", "built")
    home.ok("rm", sandbox)
    until(lambda: not traces.left(), "nothing is left")


def test_matrix(homes: list[Faulty]) -> None:
    """Several homes at once: most of a run is waiting for the instant."""
    numbers = iter([int(ONLY)] if ONLY else range(RUNS))
    lock, tally = threading.Lock(), Tally()

    def work(home: Faulty) -> None:
        home.ok("ls")
        traces = Traces(home)
        while not tally.failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            one_run(home, traces, number, tally)

    with ThreadPoolExecutor(HOMES) as pool:
        done = [pool.submit(work, home) for home in homes]
    print(f"MOAT_FAULT_SEED={SEED}\n{tally}")
    assert not tally.failures, "\n".join(tally.failures)
    for one in done:
        one.result()
    if not ONLY:
        assert sum(tally.struck.values()) > 0.6 * RUNS, "the faults come too late"
