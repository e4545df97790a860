"""What code could do that has taken over a process of moat."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Any

# Tries to get at the processes that are named. What succeeds is listed.
PROBE = """
import ctypes, json, os, sys

libc = ctypes.CDLL(None, use_errno=True)

def trace(pid):
    if libc.ptrace(0x4206, pid, 0, 0) < 0:  # PTRACE_SEIZE
        raise OSError(ctypes.get_errno(), "ptrace")

def works(what, *args):
    try:
        what(*args)
    except OSError:
        return False
    return True

def make(path):
    os.mkdir(path)
    os.rmdir(path)

done = []
for pid in map(int, sys.argv[1:]):
    done += ["write its memory"] if works(open, f"/proc/{pid}/mem", "r+b", 0) else []
    done += ["see its files"] if works(os.listdir, f"/proc/{pid}/fd") else []
    done += ["signal it"] if works(os.kill, pid, 0) else []
    done += ["trace it"] if works(trace, pid) else []
print(json.dumps({
    "done": done,
    "files": sorted(os.listdir("/")) + sorted(os.listdir("/etc")),
    "processes": [int(name) for name in os.listdir("/proc") if name.isdigit()],
    "written": [d for d in ("/", "/usr", "/etc", "/dev") if works(make, d + "/moat-test")],
    "capabilities": [line for line in open("/proc/self/status") if line.startswith("CapEff")],
}))
"""
# All that a confined process sees of a host: programs and what they need.
SHOWN = {
    *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr"),
    *("alternatives", "ld.so.cache", "protocols"),
}
ALL = ["write its memory", "see its files", "signal it", "trace it"]


def probe(user: int, targets: list[int], inside: int = 0, own_users: bool = False) -> Any:
    """Runs the probe as a user; in all namespaces of a process, if one is given.

    own_users: the process is in a user namespace, of that user.
    """
    command = ["setpriv", "--no-new-privs", "/usr/bin/python3", "-c", PROBE, *map(str, targets)]
    if not own_users:
        ids = ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
        command[1:1] = [*ids, "--inh-caps=-all", "--bounding-set=-all"]
    if inside:
        kinds = ["--mount", "--pid", "--net", "--ipc", "--uts"]
        kinds += ["--user", "--preserve-credentials"] if own_users else []
        command = ["nsenter", "--target", str(inside), *kinds, *command]
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if own_users else {}
    done = subprocess.run(
        command, **who, capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


def user_of(pid: int) -> int:
    """The one user id and group id of a process that has no other."""
    said = status(pid)
    ids = {*said["Uid"].split(), *said["Gid"].split(), *said["Groups"].split()}
    assert len(ids) == 1, f"process {pid} has several ids: {said}"
    return int(ids.pop())


def namespaces(pid: int) -> dict[str, str]:
    kinds = ("user", "mnt", "pid", "net", "ipc", "uts")
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in kinds}


def capabilities(pid: int) -> set[str]:
    """Those that it has, and those that it could get by running a program."""
    said = status(pid)
    bits = int(said["CapEff"], 16) | int(said["CapPrm"], 16)
    names = {10: "net_bind_service", 12: "net_admin", 13: "net_raw", 6: "setgid", 7: "setuid"}
    names |= {8: "setpcap", 18: "sys_chroot", 21: "sys_admin"}
    return {names.get(bit, f"capability {bit}") for bit in range(64) if bits >> bit & 1}


def rows(title: str) -> list[dict[str, str]]:
    """The first table below a heading of docs/security.md."""
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    lines = text.split(f"### {title}\n")[1].split("\n#")[0].splitlines()
    cells = [[c.strip() for c in x.strip("|").split("|")] for x in lines if x.startswith("|")]
    return [dict(zip(cells[0], one, strict=True)) for one in cells[2:]]


def check_row(pid: int, line: str, row: dict[str, str], holders: dict[str, str]) -> None:
    """A process is what its row of the table says. Users and capabilities of holders are given."""
    what, said, mine = row["process"], status(pid), namespaces(os.getpid())
    own = {kind for kind, number in namespaces(pid).items() if number != mine[kind]}
    stated = set(row["namespaces"].replace(" for what it confines", "").split(", ")) - {"none"}
    # The guard of a holder confines nothing.
    assert own == stated or (what == "guard" and not own), line
    if row["user"] == "who started it":
        assert user_of(pid) == os.getuid(), line
        assert said["Seccomp"] == "0"
        return
    assert user_of(pid) >= 0x70000000, line
    assert said["Seccomp"] == "2", line
    assert said["NoNewPrivs"] == "1", line
    allowed = row["capabilities"].split(":")[0]
    if allowed == "the holder's, or fewer":
        assert capabilities(pid) <= set(holders["capabilities"].split(":")[0].split(", ")), line
    else:
        assert capabilities(pid) == set(allowed.split(", ")) - {"none"}, line
    seen = os.listdir(f"/proc/{pid}/root")
    assert (seen == []) == (row["files it sees"] == "none"), line


# By number, on x86-64. Each with arguments that would do something if they were allowed.
X = {"socket": 41, "connect": 42, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47}
X |= {"close": 3, "bind": 49, "clone": 56, "execve": 59, "kill": 62, "dup2": 33, "ptrace": 101}
X |= {"mount": 165, "openat": 257, "unshare": 272, "setns": 308, "process_vm_readv": 310}
X |= {
    "io_uring_setup": 425,
    "memfd_create": 319,
    "getrandom": 318,
    "mprotect": 10,
    "ioctl": 16,
    "poll": 7,
}


class Taken:
    """A process that was taken over while it waited: makes any system calls in its place.

    With a debugger's means, so that all that was set up for the process is in force.
    """

    REGISTERS = 27
    ARGUMENTS = (14, 13, 12, 7, 9, 8)  # rdi, rsi, rdx, r10, r8, r9
    RAX, ORIG_RAX, RIP, RSP = 10, 15, 16, 19

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.memory = open(f"/proc/{pid}/mem", "r+b", 0)  # noqa: SIM115

    def __enter__(self) -> Taken:
        while True:
            self.trace(16)  # PTRACE_ATTACH
            os.waitpid(self.pid, 0x40000000)
            self.saved = self.registers()
            if self.read(self.saved[self.RIP] - 2, 2) == b"\x0f\x05":
                break
            self.trace(17)  # it was not in a system call: let it go on
        # Below what the process uses of its stack.
        self.room = (self.saved[self.RSP] - 65536) & ~0xFFF
        return self

    def __exit__(self, *_: object) -> None:
        self.set_registers(self.saved)
        self.trace(17)  # PTRACE_DETACH
        self.memory.close()

    def trace(self, what: int, data: Any = None) -> None:
        if self.libc.ptrace(what, self.pid, None, data) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {what}")

    def registers(self) -> list[int]:
        got = (ctypes.c_uint64 * self.REGISTERS)()
        self.trace(12, got)  # PTRACE_GETREGS
        return list(got)

    def set_registers(self, values: list[int]) -> None:
        self.trace(13, (ctypes.c_uint64 * self.REGISTERS)(*values))  # PTRACE_SETREGS

    def read(self, address: int, count: int) -> bytes:
        self.memory.seek(address)
        return self.memory.read(count)

    def put(self, data: bytes, at: int = 0) -> int:
        """Puts bytes into the process; returns their address."""
        self.memory.seek(self.room + at)
        self.memory.write(data)
        return self.room + at

    def call(self, name: str, *arguments: int) -> int:
        """The result of a system call, or minus its error number."""
        now = list(self.saved)
        now[self.RAX], now[self.ORIG_RAX], now[self.RIP] = X[name], 2**64 - 1, now[self.RIP] - 2
        for place, value in zip(self.ARGUMENTS, arguments, strict=False):
            now[place] = value & (2**64 - 1)
        self.set_registers(now)
        self.trace(9)  # PTRACE_SINGLESTEP
        os.waitpid(self.pid, 0x40000000)
        return ctypes.c_int64(self.registers()[self.RAX]).value
