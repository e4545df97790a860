"""Packages of the right names that are our test server, and a signed repository of them: what a
Proxmox VE server of one's own is installed from in tests."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from email.utils import formatdate
from pathlib import Path

from mirror import Key

SERVER = Path(__file__).parents[1] / "proxmox"
SUITE, COMPONENT = "bookworm", "pve-no-subscription"

# It has the certificate that somebody gave it, as the genuine one; its first one is of its own.
PVEPROXY = """#!/bin/sh
set --
ssl=/etc/pve/local/pveproxy-ssl
[ ! -e $ssl.pem ] || set -- --certificate $ssl.pem --key $ssl.key
exec python3 /usr/share/pve-test/server.py --host 0.0.0.0 --port 8006 --nodes "$(hostname)" \\
    --password "$(cat /etc/moat-proxmox/password)" --task-time 0.05 --dir /run/pve-test "$@"
"""
# pvesm set STORAGE --content A,B
PVESM = """#!/usr/bin/python3
import json, pathlib, socket, subprocess, sys, time
socket_file = pathlib.Path("/run/pve-test/control")
node = subprocess.run(["hostname"], capture_output=True, text=True).stdout.strip()
wish = {"do": "storage", "node": node, "storage": sys.argv[2], "content": sys.argv[4].split(",")}
with socket.socket(socket.AF_UNIX) as to:
    while to.connect_ex(str(socket_file)):  # the server may be starting
        time.sleep(0.1)
    to.sendall(json.dumps(wish).encode() + b"\\n")
    sys.exit(not json.loads(to.makefile().readline())["ok"])
"""
UNIT = "[Unit]\nDescription={0}\n[Service]\n{1}\n[Install]\nWantedBy=multi-user.target\n"
ONCE = "Type=oneshot\nRemainAfterExit=yes\nExecStart="
MANAGER = {
    "usr/bin/pveproxy-test": PVEPROXY,
    "usr/bin/pvesm": PVESM,
    "lib/systemd/system/pve-cluster.service": UNIT.format(
        "files", ONCE + "/bin/mkdir -p /etc/pve/local"
    ),
    "lib/systemd/system/pvedaemon.service": UNIT.format("daemon", ONCE + "/bin/true"),
    "lib/systemd/system/pveproxy.service": UNIT.format("proxy", "ExecStart=/usr/bin/pveproxy-test"),
    "etc/apt/sources.list.d/pve-enterprise.sources": "needs a subscription\n",
    # What the genuine packages do in a chroot depends on this file.
    "DEBIAN/postinst": "#!/bin/sh\n[ -e /proxmox_install_mode ] || exit 1\n"
    "systemctl --quiet enable pve-cluster pvedaemon pveproxy\n",
}
OTHERS: dict[str, dict[str, str]] = {
    "postfix": {},
    "open-iscsi": {},
    "chrony": {},
    "dnsmasq": {"lib/systemd/system/dnsmasq.service": UNIT.format("dns", ONCE + "/bin/false")},
}


def package(pool: Path, name: str, files: dict[str, str], depends: str = "") -> str:
    """Makes one, and returns its part of the index."""
    tree = pool / "tree"
    control = (
        f"Package: {name}\nVersion: 99\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: for a test\n"
        + (f"Depends: {depends}\n" if depends else "")
    )
    for path, text in {"DEBIAN/control": control, **files}.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    if name == "pve-manager":
        share = tree / "usr/share/pve-test"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SERVER / "pvesim", share / "pvesim", ignore=ignored)
        shutil.copy(SERVER / "server.py", share)
    deb = pool / f"{name}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(deb)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)
    content = deb.read_bytes()
    return (
        f"{control}Filename: pool/{deb.name}\nSize: {len(content)}\n"
        f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
    )


def write_repository(root: Path, key: Key) -> None:
    """A repository below a directory: the packages, their index, and its signature."""
    (root / "pool").mkdir(parents=True)
    parts = [package(root / "pool", name, files) for name, files in OTHERS.items()]
    parts.append(package(root / "pool", "proxmox-ve", {}, "pve-manager"))
    parts.append(package(root / "pool", "pve-manager", MANAGER))
    index = root / "dists" / SUITE / COMPONENT / "binary-amd64" / "Packages"
    index.parent.mkdir(parents=True)
    index.write_text("\n".join(parts))
    text = index.read_bytes()
    (root / "dists" / SUITE / "Release").write_text(
        f"Origin: test\nSuite: {SUITE}\nCodename: {SUITE}\nArchitectures: amd64\n"
        f"Components: {COMPONENT}\nDate: {formatdate(usegmt=True)}\nSHA256:\n"
        f" {hashlib.sha256(text).hexdigest()} {len(text)} {COMPONENT}/binary-amd64/Packages\n"
    )
    release = root / "dists" / SUITE
    key.gpg("--clearsign", "--output", str(release / "InRelease"), str(release / "Release"))
