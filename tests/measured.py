#!/usr/bin/env python3
"""Processor seconds of a command, with those of daemons and VMs that outlive who started them.

measured.py FILE COMMAND...   runs COMMAND, ends as it does, writes processor seconds to FILE.

No parent can wait for a process whose own parent has ended before. Here such processes become
children of measured.py, so that their times are counted with its own.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PID = "MEASURED_PID"  # in the environment of COMMAND: the process of measured.py


def processor_seconds(root: int) -> float:
    """Of a process and all below it, those included that have ended and were waited for."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended since
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(int(field) for field in fields[11:15])  # own and waited-for children's

    def below(pid: int) -> bool:
        while pid not in (0, root):
            pid = parents.get(pid, 0)
        return pid == root

    return sum(used for pid, used in ticks.items() if below(pid)) / TICKS_PER_SECOND


def main(file: str, *command: str) -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execvpe(command[0], command, {**os.environ, PID: str(os.getppid())})
    ended, status = 0, 0
    while ended != child:
        ended, status = os.wait()
    Path(file).write_text(f"{processor_seconds(os.getpid()):.1f}\n")
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
