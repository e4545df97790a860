"""VMs made of container images: their service, and commands that run as in the container."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import containers
import pytest
from home import Home

from tools import until as until_says


def until(true: Any) -> None:
    until_says(true, "what the test waits for", 120)


LAB = {
    "alias": "lab",
    "subnets": [
        {
            "cidr": "10.9.0.0/24",
            "gateway": "10.9.0.1",
            "snat": False,
            "dhcp_ranges": [{"start": "10.9.0.10", "end": "10.9.0.99"}],
        }
    ],
}
# Says what it was given, and stays.
TELL = (
    'echo "args $*"; echo "mark $MARK $OWN"; echo "at $(pwd) as $(id -u):$(id -g):$(id -G)";'
    ' echo "to stderr" >&2; echo "again" >/dev/stdout; exec sleep 100000'
)
KILL_RUNNER = (
    "for p in /proc/[0-9]*; do grep -q ^moat-guest $p/cmdline && kill -9 ${p#/proc/}; done; sleep 9"
)
BUSYBOX = {
    "entrypoint": ["/bin/sh", "-c", TELL, "tell"],
    "cmd": ["one", "two  words"],
    "env": ["PATH=/bin", "MARK=of the image"],
    "working_dir": "/srv",
    "user": "app:staff",
}


@pytest.fixture(scope="module")
def home(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home()
    made.ok("image", "build", "container", timeout=1800)
    tree = tmp_path_factory.mktemp("busybox")
    containers.busybox(tree)
    containers.store("test-busybox", tree, BUSYBOX)
    bare = tmp_path_factory.mktemp("scratch")
    shutil.copy2("/bin/busybox", bare / "busybox")
    containers.store(
        "test-scratch",
        bare,
        {"entrypoint": ["/busybox"], "cmd": ["httpd", "-f", "-p", "80"], "user": "1234"},
    )
    try:
        yield made
    finally:
        made.run("rm", "--all")
        for name in ("test-busybox", "test-scratch"):
            made.run("image", "rm", name)
        made.close()


def vm(name: str, source: str = "test-busybox", **more: Any) -> dict[str, Any]:
    return {"name": name, "source": source, "ram_mb": 128, "vcpus": 1, **more}


def runs(script: str, **more: Any) -> dict[str, Any]:
    return {"entrypoint": ["/bin/sh", "-c", script], **more}


def up(home: Home, *vms: dict[str, Any], networks: Any = "none", fails: bool = False) -> str:
    if networks == "none":
        vms = tuple({**one, "nics": []} for one in vms)
    path = home.spec({"vms": list(vms), "networks": networks})
    return (home.fails if fails else home.ok)("up", "--quiet", path, timeout=600)


def root(home: Home, sandbox: str, script: str) -> str:
    return home.ok("exec", "-u", "root", sandbox, "--", "/bin/sh", "-c", script)


def log(home: Home, sandbox: str) -> list[str]:
    return home.ok("logs", "--service", sandbox).splitlines()


def test_as_in_the_container(home: Home, tmp_path: Path) -> None:
    """Entrypoint, command, variables, directory, user: of the service, and of commands."""
    sandbox = up(home, vm("box", service={"environment": {"OWN": "1"}, "name": "the_box"}))
    until(lambda: log(home, sandbox)[-1:] == ["again"])
    assert log(home, sandbox) == [
        "args one two  words",
        "mark of the image 1",
        "at /srv as 1000:50:50",
        "to stderr",
        "again",
    ]
    said = home.ok("exec", "--vm", "the_box", sandbox, "--", "sh", "-c", "id -u; id -g; pwd; env")
    assert said.splitlines()[:3] == ["1000", "50", "/srv"]
    assert {"MARK=of the image", "OWN=1", "HOSTNAME=the-box", "HOME=/home/app", "PATH=/bin"} <= set(
        said.splitlines()
    )
    said = home.ok("exec", "-e", "OWN=2", "-w", "/tmp", sandbox, "--", "sh", "-c", "echo $OWN; pwd")
    assert said.splitlines() == ["2", "/tmp"]
    # Relative paths are in the directory of the image.
    root(home, sandbox, "chown app /srv")
    (tmp_path / "note").write_text("hello")
    home.ok("cp", str(tmp_path / "note"), f"{sandbox}:note")
    assert home.ok("exec", sandbox, "--", "cat", "/srv/note") == "hello"
    assert root(home, sandbox, "hostname; cat /etc/hostname") == "the-box\nthe-box"
    # Without a network there is no DNS server.
    assert root(home, sandbox, "wc -c </etc/resolv.conf; ls /sys/class/net") == "0\nlo"
    assert root(home, sandbox, "stat -c %a /tmp /dev/shm; ls -d /dev/pts/ptmx /dev/fd/0") == (
        "1777\n1777\n/dev/fd/0\n/dev/pts/ptmx"
    )
    # As containers have it: few files at first, and as many as a database asks for.
    assert root(home, sandbox, "ulimit -n; ulimit -Hn") == "1024\n524288"
    # The modules that the kernel of such a VM may be asked for.
    said = root(home, sandbox, "modprobe overlay && grep -c overlay /proc/filesystems")
    assert said == "1"
    home.ok("rm", sandbox)


def test_processes(home: Home) -> None:
    """Orphans are reaped, the runner and the service are started again, and copies go on."""
    count = (
        "echo $$ >/tmp/pid; n=0; while :; do n=$((n+1)); echo $n; echo $n >/tmp/n; sleep 0.2; done"
    )
    sandbox = up(home, vm("box", service=runs(count, user="root", restart="always")))
    root(home, sandbox, "(sleep 0.1 & ) ; true")
    until(lambda: " Z" not in root(home, sandbox, "ps -o pid,stat,comm | grep -v ps"))
    # The runner ends in the middle of what it does, and commands work again.
    home.fails("exec", "-u", "root", sandbox, "--", "sh", "-c", KILL_RUNNER)
    assert root(home, sandbox, "echo back") == "back"
    # What goes on in a copy goes on from where it was.
    until(lambda: int(root(home, sandbox, "cat /tmp/n") or 0) > 5)
    fork = home.ok("fork", sandbox, timeout=600)
    before = len(log(home, fork))
    assert before > 5
    until(lambda: len(log(home, fork)) > before)
    assert log(home, fork)[:5] == ["1", "2", "3", "4", "5"]
    home.ok("rm", fork)
    # Killed, it begins anew.
    root(home, sandbox, "kill -9 $(cat /tmp/pid)")
    until(lambda: log(home, sandbox).count("1") == 2)
    home.ok("rm", sandbox)


def test_endless_output(home: Home) -> None:
    """A service that writes for ever costs a bounded log, and nobody has to wait for it."""
    sandbox = up(home, vm("box", service=runs("yes filling the log", user="root")))
    until(lambda: len(home.ok("logs", "--service", sandbox)) > 2**20 - 4096)
    assert len(home.ok("logs", "--service", sandbox)) <= 2**20
    follow = home.start("logs", "--service", "-f", sandbox)
    assert root(home, sandbox, "echo here") == "here"
    assert follow.poll() is None
    root(home, sandbox, "killall yes")
    follow.kill()
    follow.wait()
    home.ok("rm", sandbox)


def test_services(home: Home) -> None:
    """Names, forwards and conditions between the services of a sandbox, from templates."""
    wired = {"networks": {"vnets": [LAB]}}["networks"]
    nic = {"nics": [{"vnet": "lab"}]}
    sandbox = up(
        home,
        vm(
            "setup",
            service=runs("sleep 0.5; echo done", name="set_up"),
            **nic,
        ),
        vm(
            "web",
            service=runs(
                "sleep 1; mkdir -p /tmp/w && echo from web >/tmp/w/index.html &&"
                " exec httpd -f -p 8080 -h /tmp/w",
                name="target_web",
                tmpfs=["/cache"],
                shm_size_mb=8,
            ),
            files=[{"path": "/cache/of/web", "content": "kept"}],
            aliases=["files.example"],
            healthcheck={
                "test": ["wget", "-qO-", "http://127.0.0.1:8080"],
                "interval": 0.2,
                "retries": 300,
            },
            forwards=[{"port": 8080}],
            depends_on=[{"vm": "setup", "condition": "completed"}],
            **nic,
        ),
        vm(
            "client",
            service=runs(
                "wget -qO- http://target_web:8080; exec sleep 100000",
                extra_hosts={"moat": "gateway", "else": "192.0.2.7"},
                user="root",
            ),
            depends_on=["web", {"vm": "setup", "condition": "started"}],
            **nic,
        ),
        networks=wired,
    )
    show = json.loads(home.ok("ls", "--json", sandbox))
    assert [v["start"] for v in show["sandboxes"][0]["vms"]] == ["warm"] * 3
    client = ("--vm", "client", sandbox)
    until(lambda: "from web" in home.ok("logs", "--service", *client))
    for name in ("web", "target_web", "files.example", "web.internal"):
        said = home.ok("exec", *client, "--", "wget", "-qO-", f"http://{name}:8080")
        assert said == "from web"
    assert "10.9.0.1\tmoat" in home.ok("exec", *client, "--", "cat", "/etc/hosts")
    assert "192.0.2.7\telse" in home.ok("exec", *client, "--", "cat", "/etc/hosts")
    assert home.ok("exec", "--vm", "web", sandbox, "--", "hostname") == "target-web"
    said = home.ok("exec", "--vm", "web", sandbox, "--", "df", "-m", "/dev/shm", "/cache")
    assert next(line.split()[1] for line in said.splitlines()[1:]) == "8"
    # A file is in the file system in memory that is above it, not below.
    said = home.ok("exec", "--vm", "web", sandbox, "--", "sh", "-c", "cat /cache/of/web")
    assert said == "kept"
    # Each has an address, a route and a server of its own: those of a template would be others.
    addresses = {
        home.ok("exec", "--vm", name, sandbox, "--", "sh", "-c", "ip -4 -o addr show eth0")
        for name in ("setup", "web", "client")
    }
    assert len(addresses) == 3
    assert "default via 10.9.0.1" in home.ok("exec", *client, "--", "ip", "route")
    forwards = json.loads(home.ok("net", "--json", sandbox))["forwards"]
    port = forwards[0]["host_port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as answer:
        assert answer.read() == b"from web\n"
    home.ok("rm", sandbox)


def test_scratch(home: Home, tmp_path: Path) -> None:
    """An image of one program and nothing else: no shell, no users, no directories."""
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    (site / "sub" / "page").write_text("a page")
    (site / "link").symlink_to("sub/page")
    sandbox = up(
        home,
        vm(
            "box",
            "test-scratch",
            service={
                "working_dir": "/site",
                "binds": [{"host": str(site), "path": "/site", "read_only": True}],
            },
            disk_gb=1,
            files=[{"path": "/flag/one", "content": "flag{1}", "mode": "0400", "owner": "1234:0"}],
        ),
    )
    said = home.ok("exec", sandbox, "--", "/busybox", "id")
    assert said == "uid=1234 gid=0 groups=0"
    page = home.ok("exec", sandbox, "--", "/busybox", "wget", "-qO-", "http://127.0.0.1/link")
    assert page == "a page"
    assert home.ok("exec", sandbox, "--", "/busybox", "cat", "/flag/one") == "flag{1}"
    # The file system is as large as the disk that was asked for.
    said = home.ok("exec", sandbox, "--", "/busybox", "df", "-m", "/").split()
    assert int(said[8]) > 900
    assert "Read-only" in home.fails(
        "exec", "-u", "root", sandbox, "--", "/busybox", "touch", "/site/x"
    )
    home.ok("rm", sandbox)


def test_failures(home: Home) -> None:
    """What cannot be started, and what others wait for in vain, is said with its own words."""
    said = up(home, vm("box", service={"entrypoint": ["/no/such"]}), fails=True)
    assert "cannot be started" in said
    assert "/no/such: No such file or directory" in said
    said = up(home, vm("box", service={"user": "nobody-at-all"}), fails=True)
    assert 'its user "nobody-at-all" is not in the image' in said
    first = vm("first", service=runs("echo bad luck >&2; printf '\\033[2J'; exit 3"))
    after = vm("after", depends_on=[{"vm": "first", "condition": "completed"}])
    said = up(home, first, after, fails=True)
    assert "the service of VM first ended with exit code 3" in said
    assert "bad luck" in said
    assert "\033" not in said
    check = {"test": ["false"], "interval": 0.1, "retries": 10000}
    said = up(home, {**first, "healthcheck": check}, fails=True)
    assert "ended with exit code 3" in said
    # Nobody waits for it: then the VM is there, whatever its service did.
    sandbox = up(home, first)
    assert home.ok("exec", sandbox, "--", "echo", "here") == "here"
    until(lambda: "bad luck" in home.ok("logs", "--service", sandbox))
    home.ok("rm", sandbox)
    assert "it has no service" in home.fails("logs", "--service", home.up())
    home.ok("rm", "--all")
    home.assert_nothing_left()
