"""A world of its own for a test: a host that the daemon runs on, and everything outside of it.

Both are network namespaces of this machine, connected by one cable. The outside has addresses that
stand for web servers, for the laboratory's private network and for the metadata services of clouds,
with listeners on all of them; nothing is ever sent from this machine's own network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from home import Home, kill

from tools import until

HOST = "198.51.100.2"  # the host's address on the cable
HOST_TOO = "10.200.0.1"  # another one, as container engines and VPNs have
HOST6, HOST_BROADCAST = "2001:db8::2", "198.51.100.255"
ROUTER = "198.51.100.1"  # the outside's end of the cable, and the host's DNS
MIRROR, FORGE, EVIL, LITERAL = "203.0.113.10", "203.0.113.20", "203.0.113.66", "203.0.113.130"
PRIVATE, PRIVATE_TOO = "10.5.0.5", "192.168.99.9"
METADATA = ("169.254.169.254", "100.100.100.200", "168.63.129.16")
METADATA6 = "fd00:ec2::254"
LAST = "203.0.113.99"  # the last of many addresses
OUTSIDE = (MIRROR, FORGE, EVIL, LITERAL, LAST, PRIVATE, PRIVATE_TOO, *METADATA)
# More addresses than fit into a UDP packet.
MANY = [*(f"203.0.112.{n}" for n in range(1, 150)), LAST]
NAMES: dict[str, str | list[str]] = {
    "mirror.example": MIRROR,
    "www.forge.example": FORGE,
    "forge.example": FORGE,
    "evil.example": EVIL,
    "metadata.forge.example": METADATA[0],
    "private.forge.example": PRIVATE,
    "host.forge.example": HOST,
    "many.forge.example": MANY,
    "twice.forge.example": ["203.0.112.200"] * 2,
}
BANNER = "you-reached"

# Listens for TCP on these ports and answers DNS on port 53, at every address of its namespace.
# Prints each query in hexadecimal. Answers have more in them than was asked for: an EDNS option,
# and bytes behind the message.
SERVER = r"""
import json, select, socket, struct, sys
banner, ports, names = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
tcp = []
for port in ports:
    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port)); s.listen(64); tcp.append(s)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(("0.0.0.0", 53))
udp.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO: answer from where we were asked
v6 = socket.socket(socket.AF_INET6); v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
v6.bind(("::", ports[0])); v6.listen(16); tcp.append(v6)
big = socket.socket(); big.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
big.bind(("0.0.0.0", 53)); big.listen(16)
more = b"\0\0\x29\x10\0\0\0\0\0\0\x13\xfd\xe9\0\x0fresolver-secretresolver-secret"
print("ready", flush=True)
def reply(query, room):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode()); at += 1 + query[at]
    at += 5
    found = names.get(".".join(labels).lower(), [])
    found = [found] if isinstance(found, str) else found
    fit = found[: (room - at - len(more)) // 16]
    flags = 0x8180 if found else 0x8183
    flags |= 0x200 if len(fit) < len(found) else 0
    head = query[:2] + struct.pack(">HHHHH", flags, 1, len(fit), 0, 1) + query[12:at]
    records = [b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(one) for one in fit]
    return head + b"".join(records) + more
while True:
    for s in select.select([*tcp, udp, big], [], [])[0]:
        try:
            if s is udp:
                data, control, _, peer = s.recvmsg(2048, 256)
                print(data.hex(), flush=True)
                s.sendmsg([reply(data, 512)], [c for c in control], 0, peer)
            elif s is big:
                c = s.accept()[0]; c.settimeout(5)
                while len(head := c.recv(2, socket.MSG_WAITALL)) == 2:
                    query = c.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL)
                    print(query.hex(), flush=True)
                    # In two pieces, as networks may deliver it.
                    said = reply(query, 65535); said = struct.pack(">H", len(said)) + said
                    c.sendall(said[:7]); c.sendall(said[7:])
                c.close()
            else:
                c = s.accept()[0]; c.settimeout(5)
                c.recv(4096)
                c.sendall(f"HTTP/1.0 200 OK\r\n\r\n{banner}\n".encode())
                c.shutdown(socket.SHUT_WR)
                while c.recv(4096): pass
                c.close()
        except Exception as problem:
            print(problem, file=sys.stderr)
"""


# Says, in hexadecimal, every frame that carries a mark or is for the port "mk", on whatever
# interface.
EAR = r"""
import re, socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
print("ready", flush=True)
while True:
    frame = s.recv(65535)
    if re.search(rb"mk-|leak|^(?s:.{36})mk", frame): print(frame.hex(), flush=True)
"""


class Namespace:
    """A network and mount namespace, alive as long as its first process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.process.stdout.readline()  # it runs, so the namespaces exist
        self.children: list[subprocess.Popen[bytes]] = []
        self.sh("ip link set lo up")

    def enter(self) -> list[str]:
        return ["nsenter", "-t", str(self.process.pid), "--net", "--mount"]

    def sh(self, script: str) -> str:
        command = [*self.enter(), "sh", "-ec", script]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout

    def start(self, program: str, *arguments: str, said: Path) -> None:
        """Starts a Python program that prints "ready" first and runs until the end of the world."""
        with said.open("wb") as out:
            command = [*self.enter(), sys.executable, "-c", program, *arguments]
            self.children.append(subprocess.Popen(command, stdout=out))
        until(lambda: said.read_bytes().startswith(b"ready\n"), f"{said.name} is ready", 60)

    def serve(self, ports: list[int], said: Path) -> None:
        self.start(SERVER, BANNER, json.dumps(ports), json.dumps(NAMES), said=said)

    def close(self) -> None:
        for child in (*self.children, self.process):
            child.kill()
            child.wait()


class World:
    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="mw-", dir="/tmp"))
        self.host, self.outside = Namespace(), Namespace()
        self.outside.sh(
            f"ip link add cable type veth peer name eth0 netns {self.host.process.pid}\n"
            f"ip addr add {ROUTER}/24 dev cable\nip link set cable up\n"
            f"ip addr add 2001:db8::1/64 dev cable nodad\nip addr add {METADATA6}/128 dev lo\n"
            + "\n".join(f"ip addr add {address}/32 dev lo" for address in OUTSIDE)
        )
        resolv, tun = self.dir / "resolv.conf", self.dir / "tun"
        resolv.write_text(f"nameserver {ROUTER}\n")
        # As on most machines, every user may make taps, in a namespace of their own.
        self.host.sh(
            f"ip addr add {HOST}/24 dev eth0\nip link set eth0 up\n"
            f"ip route add default via {ROUTER}\n"
            f"ip addr add {HOST6}/64 dev eth0 nodad\nip -6 route add default via 2001:db8::1\n"
            f"ip link add too type bridge\nip addr add {HOST_TOO}/24 dev too\nip link set too up\n"
            f"mount --bind {resolv} /etc/resolv.conf\n"
            f"mknod -m 666 {tun} c 10 200\nmount --bind {tun} /dev/net/tun\n"
            "sysctl -qw net.ipv4.ping_group_range='0 2147483647' || true"
        )
        self.host.serve([80, 8080], self.dir / "host")
        self.outside.serve([80, 8080], self.dir / "outside")

    def listen(self) -> None:
        self.host.start(EAR, said=self.dir / "ear")

    def printed(self, program: str) -> list[bytes]:
        # The last line may be incomplete.
        whole, _, _ = (self.dir / program).read_text().rpartition("\n")
        return [bytes.fromhex(line) for line in whole.split()[1:]]

    def heard(self) -> list[bytes]:
        """Every frame with a mark that was seen on the host's network since then."""
        return self.printed("ear")

    def asked(self) -> list[bytes]:
        """Every query that the host's resolver got."""
        return self.printed("outside")

    def reaches(self, address: str, port: int = 80) -> bool:
        """A connection from the host, which must succeed: a control for attempts of guests."""
        program = (
            "import socket,sys\n"
            f"c=socket.create_connection(({address!r},{port}),60)\n"
            "c.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
            "d=b''\nwhile (p:=c.recv(100)): d+=p\nprint(d.decode())"
        )
        command = [*self.host.enter(), sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return BANNER in done.stdout

    def close(self) -> None:
        self.host.close()
        self.outside.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class WorldHome(Home):
    """A moat on the world's host, run by root or by a user without rights."""

    def __init__(self, world: World, uid: int, image: Path) -> None:
        super().__init__()
        self.world, self.uid = world, uid
        if uid:
            data = self.dir / "data"
            shutil.copytree(image, data / "images" / image.name)
            shutil.copytree(image.parent / "names", data / "images" / "names")
            self.env = {**self.env, "HOME": str(self.dir), "MOAT_DATA_DIR": str(data)}
            for path in (self.dir, *self.dir.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)

    def command(self, *args: str) -> list[str]:
        become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return [*self.world.host.enter(), *(become if self.uid else []), self.binary, *args]

    def run(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            self.command(*args),
            env=self.env,
            capture_output=True,
            text=more.pop("text", True),
            timeout=more.pop("timeout", 600),
            check=False,
            **more,
        )

    def start(self, *args: str, **more: Any) -> subprocess.Popen[bytes]:
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(self.command(*args), env=self.env, **more)

    def spec(self, spec: dict[str, Any]) -> str:
        path = super().spec(spec)
        os.chown(path, self.uid, self.uid)
        return path

    def sh(self, sandbox: str, vm: str, script: str, timeout: float = 600) -> str:
        return self.ok(
            "exec", "--user", "root", "--vm", vm, sandbox, "--", "sh", "-c", script, timeout=timeout
        )


__all__ = ["World", "WorldHome", "kill"]
