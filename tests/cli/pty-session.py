"""Plays a person at a terminal: types into `moat exec -it`, resizes, presses Ctrl-C."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

moat, sandbox = sys.argv[1:]


def wait_for(fd, text, seconds=60):
    seen, end = b"", time.monotonic() + seconds
    while text not in seen:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            sys.exit(f"waited for {text!r}, saw {seen!r}")
        try:
            piece = os.read(fd, 65536)
        except OSError:
            piece = b""
        if not piece:
            sys.exit(f"ended before {text!r}, saw {seen!r}")
        seen += piece
    return seen


pid, fd = pty.fork()
if pid == 0:
    os.execv(moat, [moat, "exec", "-it", sandbox, "sh"])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
os.write(fd, b"echo in$((1+1))\n")
wait_for(fd, b"in2")
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 101, 0, 0))
os.kill(pid, signal.SIGWINCH)
os.write(fd, b'until stty size | grep "^4[1] 101"; do sleep 0.1; done\n')
wait_for(fd, b"41 101")
# Ctrl-C is a byte for the guest's terminal, not a signal for us.
os.write(fd, b"sleep 100\n")
end = time.monotonic() + 60
listing = [moat, "exec", sandbox, "ps"]
while b"sleep 100\n" not in subprocess.run(listing, stdout=-1, check=True).stdout:
    if time.monotonic() > end:
        sys.exit("the command does not run")
    time.sleep(0.1)
os.write(fd, b"\x03")
os.write(fd, b"echo still$((1+1)); exit 7\n")
wait_for(fd, b"still2")
status = os.waitpid(pid, 0)[1]
sys.exit(0 if os.waitstatus_to_exitcode(status) == 7 else f"status {status}")
