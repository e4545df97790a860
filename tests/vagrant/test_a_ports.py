"""Ports of a machine on this host, through its SSH connection."""

from __future__ import annotations

import hashlib
import re
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from vagrant_home import TIMEOUT, VagrantHome

from inspect_moat import VagrantSandboxEnvironment
from inspect_moat._connect import connect

pytestmark = pytest.mark.anyio
LARGE = 6 * 1024 * 1024


def forward(home: VagrantHome, lab: str, port: int | str, vm: str = "web") -> int:
    host, number = home.ok("forward", lab, vm, str(port), timeout=TIMEOUT).split(":")
    assert host == "127.0.0.1"
    return int(number)


def fetch(port: int, path: str = "flag") -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=TIMEOUT) as page:
        return bytes(page.read())


def as_root(home: VagrantHome, lab: str, script: str, vm: str = "web") -> str:
    command = ("exec", "--vm", vm, "-u", "root", lab, "--", "sh", "-c", script)
    return home.run(*command, timeout=TIMEOUT).stdout.strip()


@pytest.fixture(scope="module")
def web(home: VagrantHome, lab: str) -> Iterator[int]:
    """The web server of the machine `web`."""
    port = forward(home, lab, 8080)
    yield port
    home.ok("forward", "--remove", str(port), lab)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), TIMEOUT)


def test_a_page_of_the_guest(home: VagrantHome, lab: str, web: int) -> None:
    assert fetch(web) == b"first\n"
    assert re.search(rf"127.0.0.1:{web} +web +8080", home.ok("forward", lab))


async def test_inspect_is_told(home: VagrantHome, lab: str, web: int) -> None:
    machines = [VagrantSandboxEnvironment(await connect(), lab, vm) for vm in ("web", "attacker")]
    ports = [(await machine.connection()).ports for machine in machines]
    assert ports[1] is None
    assert ports[0] is not None
    (one,) = ports[0]
    assert (one.container_port, one.mappings[0].host_port) == (8080, web)


def test_a_large_body_beside_many_small_ones(home: VagrantHome, lab: str, web: int) -> None:
    script = f"head -c {LARGE} /dev/urandom >/srv/www/large; sha256sum </srv/www/large"
    want = as_root(home, lab, script).split()[0]
    with ThreadPoolExecutor(17) as pool:
        large = pool.submit(fetch, web, "large")
        small = list(pool.map(lambda _: fetch(web), range(48)))
    assert set(small) == {b"first\n"}
    assert hashlib.sha256(large.result()).hexdigest() == want


def test_both_directions_and_their_ends(home: VagrantHome, lab: str) -> None:
    script = (
        "nc -ll -p 9000 -e cat </dev/null >/tmp/nc 2>&1 & "
        "for i in $(seq 100); do netstat -ltn | grep -q :9000 && exit; sleep 0.2; done; cat /tmp/nc"
    )
    assert as_root(home, lab, script) == ""
    port = forward(home, lab, 9000)
    content = bytes(range(256)) * 4096
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as peer:
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(peer.sendall, content)
            back = b""
            while len(back) < len(content) // 2:
                back += peer.recv(65536)
            sent.result()
        peer.shutdown(socket.SHUT_WR)  # cat sees it, and ends; what was on its way still comes
        while piece := peer.recv(65536):
            back += piece
    assert back == content


def test_a_service_on_one_address_only(home: VagrantHome, lab: str) -> None:
    lines = home.exec(lab, "ip", "-4", "-o", "addr", "show", "dev", "eth0", vm="web")
    address = lines.split()[3].split("/")[0]
    serve = "httpd -p 127.0.0.1:8081 -h /srv/www; httpd -p {}:8082 -h /srv/www"
    as_root(home, lab, serve.format(address))
    for port in (8081, 8082):
        assert fetch(forward(home, lab, port)) == b"first\n"


def test_nobody_listens(home: VagrantHome, lab: str, web: int) -> None:
    """The client's connection is closed; other connections are not disturbed."""
    port = forward(home, lab, 9999)
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as peer:
        assert peer.recv(1) == b""
    assert fetch(web) == b"first\n"
    assert "in use" in home.fails("forward", lab, "web", f"80:{port}", timeout=TIMEOUT)
    home.ok("forward", "--remove", str(port), lab)
    assert "is not forwarded" in home.fails("forward", "--remove", str(port), lab)


def test_after_a_lost_connection(home: VagrantHome, lab: str, web: int) -> None:
    """The next connection to the port makes the SSH connection again."""
    as_root(home, lab, "ps | awk '/[s]shd: vagrant/ { print $1 }' | xargs kill")
    assert fetch(web) == b"first\n"


def test_a_server_that_forwards_nothing(home: VagrantHome, lab: str) -> None:
    config = "/etc/ssh/sshd_config"
    again = "ps | awk '/[s]shd/ { print $1 }' | xargs kill"
    as_root(home, lab, f"echo AllowTcpForwarding no >>{config}; {again}", "attacker")
    message = home.fails("forward", lab, "attacker", "22", timeout=TIMEOUT)
    assert "AllowTcpForwarding" in message
    as_root(home, lab, f"sed -i /AllowTcpForwarding/d {config}; {again}", "attacker")
    port = forward(home, lab, 22, "attacker")
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as peer:
        assert peer.recv(4) == b"SSH-"
    home.ok("forward", "--remove", str(port), lab)
    assert home.exec(lab, "echo", "still here") == "still here"


def test_what_moat_does_not_know_of_the_networks(home: VagrantHome, lab: str) -> None:
    assert "not made by moat" in home.run("net", lab).stderr
    assert "cannot capture" in home.fails("capture", lab)
