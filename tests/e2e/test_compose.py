"""A compose file, as `moat up` makes it: three services on two networks, one of them closed."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import containers
import pytest
from home import Home

FILE = """
services:
  web_app:
    image: test-compose
    x-local: true
    entrypoint: [busybox, httpd]
    command: -f -p 80 -h /www
    mem_limit: 256m
    cpus: 1
    networks: {back: {aliases: [shop]}}
    volumes: ["./site:/www:ro", "data:/data"]
    ports: ["0:80"]
    healthcheck: {test: "wget -q -O /dev/null http://127.0.0.1/", interval: 1s, retries: 200}
  setup:
    image: test-compose
    x-local: true
    command: [sh, -c, "sleep 1; exit 0"]
    mem_limit: 256m
    cpus: 1
    network_mode: none
  attacker:
    image: test-compose
    x-local: true
    x-default: true
    command: [sh, -c, "echo $$WHO ${HELLO}; exec sleep 100000"]
    environment: [WHO=attacker]
    working_dir: /srv
    init: true
    mem_limit: 256m
    cpus: 1
    networks: [front, back]
    depends_on:
      web_app: {condition: service_healthy}
      setup: {condition: service_completed_successfully}
networks:
  front:
  back: {internal: true}
volumes: {data: }
"""


@pytest.fixture(scope="module")
def home(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home()
    made.ok("image", "build", "container", timeout=1800)
    tree = tmp_path_factory.mktemp("busybox")
    containers.busybox(tree)
    containers.store("test-compose", tree, {"env": ["PATH=/bin"], "cmd": ["sleep", "100000"]})
    try:
        yield made
    finally:
        made.run("rm", "--all")
        made.run("image", "rm", "test-compose")
        made.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("task")
    (directory / "site").mkdir()
    (directory / "site" / "index.html").write_text("the shop\n")
    (directory / ".env").write_text("HELLO=hello\n")
    (directory / "compose.yaml").write_text(FILE)
    return directory / "compose.yaml"


@pytest.fixture(scope="module")
def sandbox(home: Home, file: Path) -> str:
    return home.ok("up", "--quiet", str(file), timeout=900)


def test_what_has_no_effect_is_told_once(home: Home, file: Path) -> None:
    done = home.run("up", "--check", str(file))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "has no effect" in line]
    (line,) = lines
    assert line.startswith(f"moat: {file}: services.attacker.init: has no effect: ")
    assert "network front: open to the Internet" in done.stderr
    assert "network back" not in done.stderr
    checked = json.loads(home.ok("up", "--check", "--json", str(file)))
    assert checked["networks"] == {"back": "deny", "front": "open"}


def run(home: Home, sandbox: str, *words: str, vm: str = "attacker") -> str:
    return home.ok("exec", "--vm", vm, sandbox, "--", *words)


def test_services_know_each_other(home: Home, sandbox: str) -> None:
    assert home.ok("exec", sandbox, "--", "pwd") == "/srv"  # commands go to the default service
    for name in ("web_app", "web-app", "shop"):
        assert run(home, sandbox, "wget", "-q", "-O", "-", f"http://{name}/") == "the shop"
    assert home.ok("logs", "--service", "--vm", "attacker", sandbox) == "attacker hello"


def test_one_network_is_closed(home: Home, sandbox: str) -> None:
    assert "default via" in run(home, sandbox, "ip", "route")
    assert "default" not in run(home, sandbox, "ip", "route", vm="web_app")
    assert run(home, sandbox, "ls", "/sys/class/net", vm="setup") == "lo"


def test_files_and_volumes(home: Home, sandbox: str) -> None:
    assert run(home, sandbox, "cat", "/www/index.html", vm="web_app") == "the shop"
    done = home.run("exec", "--vm", "web_app", sandbox, "--", "touch", "/www/x")
    assert done.returncode != 0
    assert run(home, sandbox, "ls", "-d", "/data", vm="web_app") == "/data"


def test_a_port_is_published(home: Home, sandbox: str) -> None:
    (forward,) = json.loads(home.ok("net", "--json", sandbox))["forwards"]
    assert (forward["host"], forward["port"]) == ("127.0.0.1", 80)
    with urllib.request.urlopen(f"http://127.0.0.1:{forward['host_port']}/", timeout=60) as reply:
        assert reply.read() == b"the shop\n"


def test_a_mistake_is_told_with_its_place(home: Home, file: Path) -> None:
    wrong = file.parent / "wrong-compose.yaml"
    wrong.write_text(FILE.replace("mem_limit", "mem_limt", 1))
    assert home.fails("up", str(wrong)) == (
        f'moat: {wrong}: services.web_app.mem_limt: unknown member; did you mean "mem_limit"?'
    )
