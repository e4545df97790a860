#!/usr/bin/env python3
"""make newcomer: plays a new user who has only the documents to go by.

tests/newcomer.py [RELEASE...]     bookworm and trixie; as root

On a fresh root file system of each release (mmdebstrap), an ordinary user who may use sudo clones
what is committed here, runs `make demo`, and then what the pages say, commands that need root and
the Internet included. Prints a line for each step, with its seconds. Logs are in build/newcomer.

apt and pip are as on this machine: its apt configuration, resolver and variables are handed on.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pages import ROOT, blocks

WHERE = ROOT / "build" / "newcomer"
PACKAGES = "ca-certificates,git,make,sudo,python3-venv,procps"
RELEASES = {"bookworm": "12", "trixie": "13"}
# What this user does not have.
LACKS = {"a disk", "a Proxmox VE server", "Vagrant", "systemd", "a terminal"}
HANDED_ON = ("PIP_", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")

# What is mounted below a root is not seen from here, and goes with the processes that mounted it:
# whatever kills us, no file system of this machine can be in a root when that is removed.
APART = ("unshare", "--mount", "--propagation", "private")

# In namespaces of its own: the new root, with its own devices and processes, and without KVM.
ENTER = """
set -eu
root=$1; shift
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 dev dev
for one in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
    set -- $one "$@"; mknod -m 666 "dev/$1" c "$2" "$3"; shift 3
done
mkdir dev/net dev/pts dev/shm old
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 shm dev/shm
pivot_root . old
cd /
umount -l /old && rmdir /old
exec "$@"
"""


class Newcomer:
    def __init__(self, release: str) -> None:
        self.release = release
        self.root = WHERE / release
        self.log = WHERE / f"{release}.log"
        self.failed = 0

    def say(self, what: str, begun: float, right: bool) -> None:
        self.failed += not right
        verdict = "right" if right else f"WRONG, see {self.log.relative_to(ROOT)}"
        print(f"{self.release:9} {time.monotonic() - begun:5.0f} s  {what}: {verdict}", flush=True)

    def run(self, what: str, *command: str | Path) -> bool:
        begun = time.monotonic()
        with self.log.open("a") as log:
            log.write(f"==== {what}\n")
            log.flush()
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        self.say(what, begun, done.returncode == 0)
        return done.returncode == 0

    def remove_root(self) -> None:
        subprocess.run(["rm", "-rf", "--one-file-system", self.root], check=True)

    def make_root(self) -> bool:
        """The system, and what this machine knows of mirrors."""
        self.remove_root()
        options = ("--variant=minbase", f"--include={PACKAGES}", self.release)
        if not self.run(
            "a fresh root file system", *APART, "mmdebstrap", "-q", *options, self.root
        ):
            return False
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        for conf in Path("/etc/apt/apt.conf.d").iterdir():
            if not conf.name.startswith("docker") and b"Proxy" in conf.read_bytes():
                shutil.copy(conf, self.root / "etc/apt/apt.conf.d")
        for value in self.handed_on().values():
            if value.startswith("/") and Path(value).exists():
                to = self.root / value[1:]
                to.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if Path(value).is_dir() else shutil.copy
                copy(value, to)
        (self.root / "etc/sudoers.d/new").write_text(
            'new ALL=(ALL) NOPASSWD: ALL\nDefaults env_keep += "http_proxy https_proxy"\n'
        )
        clone = self.root / "srv/moat.git"
        user = ("useradd", "-m", "-s", "/bin/bash", "new")
        return (
            self.run("a user", "chroot", self.root, *user)
            and self.run("the sources", "git", "clone", "-q", "--bare", ROOT, clone)
            # git trusts no repository of another user.
            and self.run("of that user", "chown", "-R", "1000:1000", clone)
        )

    @staticmethod
    def handed_on() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith(HANDED_ON)}

    def as_user(self, what: str, commands: str) -> bool:
        """Runs commands in a login of the user."""
        variables = [
            f"export {name}={shlex.quote(text)}" for name, text in self.handed_on().items()
        ]
        script = self.root / "home/new/script.sh"
        script.write_text("\n".join(["set -eux", *variables, commands]))
        login = ("setpriv", "--reuid", "1000", "--regid", "1000", "--init-groups", "--reset-env")
        inside = ("env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *login)
        unshare = (*APART, "--pid", "--fork", "--kill-child")
        enter = (*unshare, "sh", "-c", ENTER, "enter", str(self.root))
        return self.run(what, *enter, *inside, "bash", "--login", "/home/new/script.sh")

    def page(self, name: str, before: str = "") -> str:
        """The commands of a page, in a clone."""
        lines = ["cd ~/moat", before]
        for block in blocks(ROOT / name):
            if block.file:
                lines.append(f"cat >{block.file} <<'END_OF_FILE'\n{block.text}END_OF_FILE")
            elif block.is_commands and block.needs not in LACKS:
                lines.append(block.text)
        return "\n".join(lines)

    def play(self) -> None:
        if not self.make_root():
            return
        venv = ". venv/bin/activate"
        steps = [
            ("clone", "git clone -q /srv/moat.git ~/moat"),
            ("make demo EXAMPLES=hello", "cd ~/moat; make demo EXAMPLES=hello"),
            ("README.md", self.page("README.md")),
            ("docs/first-eval.md", self.page("docs/first-eval.md")),
            ("docs/attacker-victim.md", self.page("docs/attacker-victim.md", venv)),
            ("docs/own-image.md", self.page("docs/own-image.md")),
            ("doctor finds nothing missing", "moat doctor"),
            ("uninstall", "cd ~/moat; sudo make uninstall; ! test -e /usr/local/bin/moat"),
            ("nothing is left", "! find /usr/local -iname '*moat*' -type f | grep ."),
        ]
        for what, commands in steps:
            if not self.as_user(what, commands) and what == "clone":
                return


def main() -> int:
    releases = sys.argv[1:] or list(RELEASES)
    if os.geteuid() != 0:
        sys.exit("tests/newcomer.py: needs root, to make root file systems")
    WHERE.mkdir(parents=True, exist_ok=True)
    failed = 0
    for release in releases:
        newcomer = Newcomer(release)
        newcomer.log.unlink(missing_ok=True)
        newcomer.play()
        failed += newcomer.failed
        newcomer.remove_root()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
