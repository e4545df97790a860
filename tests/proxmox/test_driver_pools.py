"""Where sandboxes go, what they are made from, and templates that stay."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import Client
from lives import SPEC as LIFE
from lives import a_server, fill
from server import PveServer

from driver import (
    SPEC,
    Mirror,
    PveHome,
    add_template,
    instance,
    left,
    make_ova,
    unpack_ovas,
    wait_for,
)

SCALE = 0.1


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PveServer]]:
    # Two GiB of each are the node's own.
    with (
        PveServer(time_scale=SCALE, task_time=0.05, memory=10) as one,
        PveServer(time_scale=SCALE, task_time=0.05, memory=6) as two,
    ):
        for server in (one, two):
            add_template(server)
            unpack_ovas(server)
        yield [one, two]


@pytest.fixture
def clean(servers: list[PveServer]) -> Iterator[list[PveServer]]:
    for server in servers:
        server.clear()
    before = [left(server) for server in servers]
    yield servers
    for server in servers:
        server.clear()
    assert [left(server) for server in servers] == before


IMPATIENT = "idle_exit: 0\nboot_timeout: 120\noutage_timeout: 0.5\n"


def sandboxes_on(home: PveHome) -> dict[str, int]:
    pools = json.loads(home.ok("pool", "ls", "--json"))
    return {i["instance"]: i["sandboxes"] for i in pools["instances"]}


def test_sandboxes_go_where_room_is_and_wait_in_order(clean: list[PveServer]) -> None:
    home = PveHome(
        instance(clean[0], instance_id="a", max_sandboxes=2),
        instance(clean[1], instance_id="b", max_sandboxes=1),
    )
    try:
        sandboxes = [home.up(SPEC) for _ in range(3)]
        assert sandboxes_on(home) == {"a": 2, "b": 1}
        done: list[int] = []

        def wait_and_leave(number: int) -> None:
            sandbox = home.up(SPEC)
            done.append(number)
            home.ok("rm", sandbox)

        threads = []
        for number in range(3):
            threads.append(threading.Thread(target=wait_and_leave, args=(number,)))
            threads[-1].start()
            waiting = number + 1
            wait_for(
                lambda n=waiting: (
                    json.loads(home.ok("pool", "ls", "--json"))["waiting"].get("default") == n
                )
            )
        assert done == []
        home.ok("rm", sandboxes[0])
        for thread in threads:
            thread.join()
        assert done == [0, 1, 2]
        home.ok("rm", *sandboxes[1:])
    finally:
        home.close()


def test_memory_decides_without_a_limit(clean: list[PveServer]) -> None:
    home = PveHome(instance(clean[0], instance_id="a"), instance(clean[1], instance_id="b"))
    big = {**SPEC, "vms": [{**SPEC["vms"][0], "ram_mb": 3000}]}
    try:
        sandboxes = [home.up(big) for _ in range(3)]
        assert sorted(sandboxes_on(home).values()) == [1, 2]
        waiting = home.start("up", home.spec(big))
        wait_for(lambda: json.loads(home.ok("pool", "ls", "--json"))["waiting"].get("default") == 1)
        waiting.terminate()
        waiting.wait()
        too_big = {**SPEC, "vms": [{**SPEC["vms"][0], "ram_mb": 100000}]}
        assert "needs 100000 MB" in home.fails("up", home.spec(too_big))
        home.ok("rm", *sandboxes)
    finally:
        home.close()


def test_a_server_that_fails_is_left_out(clean: list[PveServer]) -> None:
    home = PveHome(instance(clean[0], instance_id="a"), instance(clean[1], instance_id="b"))
    try:
        clean[0].fault(path=".*", action="drop", times=-1)
        sandbox = home.up(SPEC)
        assert sandboxes_on(home) == {"a": 0, "b": 1}
        states = {
            i["instance"]: i for i in json.loads(home.ok("pool", "ls", "--json"))["instances"]
        }
        assert states["a"]["state"] == "failed"
        assert states["a"]["detail"]
        clean[0].clear()
        home.ok("pool", "clean")
        home.ok("pool", "disable", "--instance", "b")
        other = home.up(SPEC)
        assert sandboxes_on(home) == {"a": 1, "b": 1}
        home.ok("pool", "enable", "--instance", "b")
        home.ok("rm", sandbox, other)
    finally:
        home.close()


def test_a_dirty_server_is_cleaned_and_comes_back(clean: list[PveServer]) -> None:
    home = PveHome(instance(clean[0], instance_id="a"), config=IMPATIENT)
    try:
        sandbox = home.up(SPEC)
        clean[0].fault(path="/qemu/", method="DELETE", action="drop", times=-1)
        home.fails("rm", sandbox)
        (state,) = json.loads(home.ok("pool", "ls", "--json"))["instances"]
        assert state["state"] == "dirty"
        clean[0].clear()
        home.ok("pool", "clean")
        home.assert_nothing_left(120)
        wait_for(
            lambda: json.loads(home.ok("pool", "ls", "--json"))["instances"][0]["state"] == "ok"
        )
        home.ok("rm", home.up(SPEC))
    finally:
        home.close()


def test_the_documented_role_is_enough() -> None:
    """A whole life, large files and snapshots included, with no privilege more than it names."""
    text = (Path(__file__).parents[2] / "docs" / "proxmox.md").read_text()
    match = re.search(r'pveum role add Moat --privs "([^"]*)"', text)
    assert match is not None
    with a_server() as server:
        fill(server)
        grants = {"/": match.group(1).split()}
        server.control("user", user="moat@pve", password="pw", grants=grants)
        home = PveHome(instance(server, user="moat", user_realm="pve", password="pw"))
        before = left(server)
        try:
            nics = {"nics": [{"vnet": "default", "mac": "52:54:00:00:00:07"}]}
            sandbox = home.up({**LIFE, "vms": [{**LIFE["vms"][0], **nics, "cloud_init": {}}]})
            file = home.dir / "large"
            file.write_bytes(bytes(2 << 20))
            server.control("clear_log")
            home.ok("cp", str(file), f"{sandbox}:/root/large")
            assert [e for e in server.log() if e["path"].endswith("/upload")]
            home.ok("snapshot", sandbox, "here")
            home.ok("restore", sandbox, "here")
            assert home.ok("exec", sandbox, "--", "stat", "-c", "%s", "/root/large") == "2097152"
            home.ok("rm", sandbox)
            assert [e["path"] for e in server.log() if e["status"] == 403] == []
            assert left(server) == before
        finally:
            home.close()


def test_without_the_runner_the_plain_agent_serves(tmp_path: Path) -> None:
    with a_server() as server:
        fill(server)
        home = PveHome(instance(server))
        home.copy_programs(tmp_path)
        (tmp_path / "share").symlink_to(Path(__file__).parents[2] / "share")
        try:
            sandbox = home.up(LIFE)
            assert home.ok("exec", sandbox, "--", "echo", "hello") == "hello"
            (shown,) = json.loads(home.ok("ls", "--json", sandbox))["sandboxes"]
            (vm,) = shown["vms"]
            assert vm["way"] == "agent"
            home.ok("rm", sandbox)
        finally:
            home.close()


def test_a_healthcheck_is_asked_until_it_passes_or_gives_up() -> None:
    third_time = "echo >>/tmp/asked; [ $(wc -l </tmp/asked) -ge 3 ]"
    with a_server() as server:
        fill(server)
        home = PveHome(instance(server))
        before = left(server)

        def spec(command: str) -> dict[str, Any]:
            check = {"test": ["sh", "-c", command], "interval": 0.1, "retries": 5}
            return {**LIFE, "vms": [{**vm, "healthcheck": check} for vm in LIFE["vms"]]}

        try:
            sandbox = home.up(spec(third_time))
            assert home.ok("exec", "-u", "root", sandbox, "--", "wc", "-l", "/tmp/asked")[0] == "3"
            home.ok("rm", sandbox)
            said = home.fails("up", home.spec(spec("exit 9")))
            assert "failed 5 times; last exit code 9" in said
            assert left(server) == before
        finally:
            home.close()


# --- what VMs are made from ---


def templates(home: PveHome) -> list[dict[str, Any]]:
    found = json.loads(home.ok("image", "ls", "--on", "default", "--json"))["templates"]
    return [t for t in found if t["made_by_moat"]]


def test_an_ova_is_uploaded_once(clean: list[PveServer], tmp_path: Path) -> None:
    home = PveHome(instance(clean[0], instance_id="a"))
    ova = tmp_path / "machine.ova"
    make_ova(ova)
    from_ova = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"ova": str(ova)}}]}
    try:
        sandboxes = [home.up(from_ova)]
        uploads = [e for e in clean[0].log() if e["path"].endswith("/upload")]
        assert len(uploads) == 1
        (template,) = templates(home)
        assert template["tags"].count("ova-") == 1
        clean[0].control("clear_log")
        sandboxes.append(home.up(from_ova))
        assert not [e for e in clean[0].log() if e["path"].endswith("/upload")]
        home.ok("rm", *sandboxes)
        # Only the template stays, and it can be removed.
        assert "not made by moat" in home.fails("image", "rm", "--on", "default", "9000")
        home.ok("image", "rm", "--on", "default", str(template["vmid"]))
        assert templates(home) == []
        home.assert_nothing_left()
    finally:
        home.close()


def test_a_built_in_system_is_set_up_once(clean: list[PveServer]) -> None:
    home = PveHome(instance(clean[0], instance_id="a"))
    built_in = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"built_in": "debian13"}}]}
    sandboxes: list[str] = []
    try:
        # Two sandboxes that need the template at the same time share the work.
        threads = [
            threading.Thread(target=lambda: sandboxes.append(home.up(built_in))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sandboxes) == 2
        downloads = [e for e in clean[0].log() if e["path"].endswith("/download-url")]
        assert len(downloads) == 1
        (template,) = templates(home)
        assert "builtin-debian13" in template["tags"]
        home.ok("rm", *sandboxes)
        home.ok("image", "rm", "--on", "default", "builtin-debian13")
        home.assert_nothing_left()
    finally:
        home.close()


def test_a_built_in_system_has_what_evals_expect(clean: list[PveServer]) -> None:
    """The packages of the older plugin's systems: those of the container buildpack-deps."""
    server = clean[0]
    server.control("task_seconds", kind="qmstart", seconds=2.0)
    home = PveHome(instance(server, instance_id="a"))
    client = Client(server)
    content = f"/nodes/{server.node}/storage/local/content"

    def seeds() -> list[str]:
        return [
            v["volid"] for v in client.get(content, content="iso") if "-build.iso" in v["volid"]
        ]

    try:
        spec = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"built_in": "debian13"}}]}
        process = home.start("up", home.spec(spec))
        wait_for(seeds)
        seed = Path(client.get(f"{content}/{seeds()[0]}")["path"]).read_bytes().decode("latin-1")
        for name in ("autoconf", "default-libmysqlclient-dev", "libxslt1-dev", "zlib1g-dev"):
            assert f"  - {name}\n" in seed
        assert process.wait(120) == 0
        home.ok("rm", "--all")
        home.ok("image", "rm", "--on", "default", "builtin-debian13")
    finally:
        server.control("task_seconds", kind="qmstart", seconds=0.05)
        home.close()


@pytest.mark.parametrize("version", ["2025.4", "2025.3"])
def test_a_packed_system_is_unpacked_here(clean: list[PveServer], version: str) -> None:
    server = clean[0]
    with Mirror() as mirror:
        home = PveHome(
            instance(server, instance_id="a"), config=f"idle_exit: 0\nimage_mirror: {mirror.url}/\n"
        )
        kali = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"built_in": f"kali{version}"}}]}
        try:
            sandboxes = [home.up(kali), home.up(kali)]
            (path,) = mirror.asked
            assert path.endswith(f"/kali-linux-{version}-cloud-genericcloud-amd64.tar.xz")
            (upload,) = [
                e
                for e in server.log()
                if e["path"].endswith("/upload") and e["params"]["content"] == "import"
            ]
            assert upload["params"]["filename"].endswith(f"moat-kali{version}.qcow2")
            (template,) = templates(home)
            assert f"builtin-kali{version}" in template["tags"]
            home.ok("rm", *sandboxes)
            home.ok("image", "rm", "--on", "default", f"builtin-kali{version}")
            assert [p.name for p in (home.dir / "state").glob("fetched-*")] == []
            home.assert_nothing_left()
        finally:
            home.close()


def test_a_download_that_fails_says_why(clean: list[PveServer]) -> None:
    with Mirror() as mirror:
        mirror.packed.truncate(200)
        for url, words in ((f"{mirror.url}/missing", "404"), (mirror.url, "cannot be unpacked")):
            home = PveHome(
                instance(clean[0], instance_id="a"), config=f"idle_exit: 0\nimage_mirror: {url}\n"
            )
            kali = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"built_in": "kali"}}]}
            try:
                told = home.fails("up", home.spec(kali))
                assert words in told
                assert "kali-linux-2025.4" in told
                home.assert_nothing_left()
            finally:
                home.close()


def test_a_failed_import_leaves_nothing(clean: list[PveServer], tmp_path: Path) -> None:
    home = PveHome(instance(clean[0], instance_id="a"))
    ova = tmp_path / "machine.ova"
    make_ova(ova)
    from_ova = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"ova": str(ova)}}]}
    try:
        clean[0].control("fail_task", kind="qmcreate", status="import failed")
        assert "import failed" in home.fails("up", home.spec(from_ova))
        home.assert_nothing_left()
    finally:
        home.close()


def test_a_local_image_is_uploaded_once(clean: list[PveServer], tmp_path: Path) -> None:
    home = PveHome(instance(clean[0], instance_id="a"))
    home.env["MOAT_DATA_DIR"] = str(home.dir / "data")
    disk = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "64M"], check=True)
    of_image = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"image": "mine"}}]}
    try:
        home.ok("image", "import", str(disk), "--name", "mine")
        sandboxes = [home.up(of_image), home.up(of_image)]
        (upload,) = [e for e in clean[0].log() if e["path"].endswith("/upload")]
        assert upload["params"]["content"] == "import"
        (template,) = templates(home)
        assert "image-" in template["tags"]
        home.ok("rm", *sandboxes)
        home.ok("image", "rm", "--on", "default", str(template["vmid"]))
        told = home.fails("up", home.spec({**of_image, "vms": [{"source": {"image": "none"}}]}))
        assert 'no image "none"' in told
        home.assert_nothing_left()
    finally:
        home.close()
