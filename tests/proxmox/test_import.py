"""What a server must have for a template to be made on it, and what it says if it does not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client import Client
from server import PveServer

from driver import SPEC, PveHome, instance, make_ova, unpack_ovas

SCALE = 0.1
STANDARD = "backup,import,iso,vztmpl"
DEBIAN = {**SPEC, "vms": [{**SPEC["vms"][0], "source": {"built_in": "debian13"}}]}
# The role that the documentation advises, but for what downloads need.
DOCS = (Path(__file__).parents[2] / "docs" / "proxmox.md").read_text()
ROLE = re.findall(r"[\w.]+", DOCS.split('--privs "')[1].split('"')[0])
PRIVILEGES = [name for name in ROLE if name != "Sys.AccessNetwork"]


@pytest.fixture(scope="module")
def pve() -> Iterator[PveServer]:
    with PveServer(time_scale=SCALE, task_time=0.05) as server:
        yield server


@pytest.fixture
def no_kvm(clean: PveServer) -> Iterator[PveServer]:
    clean.control("node", node=clean.node, kvm=False)
    yield clean
    clean.control("node", node=clean.node, kvm=True)


@pytest.fixture
def clean(pve: PveServer) -> Iterator[PveServer]:
    """As a server is when it is new."""
    pve.clear()
    unpack_ovas(pve, STANDARD)
    yield pve
    pve.clear()
    assert pve.state()["volumes"] == []
    assert pve.state()["vms"] == {}


def old(version: str) -> PveServer:
    return PveServer(time_scale=SCALE, task_time=0.05, pve_version=version)


def of_ova(folder: Path) -> dict[str, Any]:
    make_ova(folder / "machine.ova")
    source = {"ova": str(folder / "machine.ova")}
    return {**SPEC, "vms": [{**SPEC["vms"][0], "source": source}]}


def sent(server: PveServer, end: str) -> list[dict[str, Any]]:
    return [e for e in server.log() if e["path"].endswith(end) and e["method"] == "POST"]


def checks(home: PveHome) -> dict[str, dict[str, str]]:
    """What the doctor says of each thing."""
    done = home.run("doctor", "proxmox", "--json")
    return {c["name"]: c for c in json.loads(done.stdout)["checks"]}


def make_and_remove(home: PveHome, spec: dict[str, Any]) -> None:
    home.ok("rm", home.up(spec))
    for template in json.loads(home.ok("image", "ls", "--on", "default", "--json"))["templates"]:
        home.ok("image", "rm", "--on", "default", str(template["vmid"]))


# --- where an OVA is unpacked ---


def test_an_ova_is_refused_before_it_is_sent(clean: PveServer, tmp_path: Path) -> None:
    home = PveHome(instance(clean))
    try:
        told = home.fails("up", home.spec(of_ova(tmp_path)))
        # The command keeps what the storage takes already.
        remedy = "pvesm set local --content backup,import,iso,vztmpl,images"
        assert remedy in told
        assert sent(clean, "/upload") == []
        found = checks(home)["ova"]
        assert (found["state"], found["fix"]) == ("warn", remedy)
    finally:
        home.close()


@pytest.mark.parametrize(
    ("kind", "content", "more", "storage"),
    [
        # Where the OVA is: the server does that by itself.
        ("nfs", "images", {"local": "import,iso,images"}, None),
        # Where the disks go, before any other.
        ("dir", "images", {"image_storage": "files"}, "files"),
        ("cifs", "images,backup", {}, "files"),
    ],
)
def test_an_ova_is_unpacked_where_files_may_be(
    clean: PveServer,
    tmp_path: Path,
    kind: str,
    content: str,
    more: dict[str, str],
    storage: str | None,
) -> None:
    more = dict(more)
    unpack_ovas(clean, more.pop("local", STANDARD))
    # This one has no path, and one that is off is no help.
    clean.control("add_storage", node="pve", storage="aaa", kind="rbd", content="images")
    clean.control("add_storage", node="pve", storage="bbb", kind="dir", content="images")
    clean.control("storage", node="pve", storage="bbb", active=False)
    if more:
        clean.control("add_storage", node="pve", storage="ccc", kind="dir", content="images")
    clean.control("add_storage", node="pve", storage="files", kind=kind, content=content)
    home = PveHome(instance(clean, **more))
    try:
        make_and_remove(home, of_ova(tmp_path))
        (create,) = sent(clean, "/nodes/pve/qemu")
        assert create["params"].get("import-working-storage") == storage
        assert checks(home)["ova"]["state"] == "ok"
    finally:
        home.close()
        for name in ("aaa", "bbb", "files", *(["ccc"] if more else [])):
            clean.control("remove_storage", node="pve", storage=name)


def test_a_disk_needs_no_place_to_be_unpacked(clean: PveServer) -> None:
    home = PveHome(instance(clean))
    try:
        make_and_remove(home, DEBIAN)
        (create,) = sent(clean, "/nodes/pve/qemu")
        assert "import-working-storage" not in create["params"]
    finally:
        home.close()


def test_a_storage_for_imports_is_missing(clean: PveServer, tmp_path: Path) -> None:
    unpack_ovas(clean, "backup,iso,vztmpl")
    # An ESXi server can be imported from, but nothing can be put there.
    clean.control("add_storage", node="pve", storage="esx", kind="esxi", content="import")
    home = PveHome(instance(clean))
    try:
        remedy = "pvesm set local --content backup,iso,vztmpl,import"
        for spec in (of_ova(tmp_path), DEBIAN):
            assert remedy in home.fails("up", home.spec(spec))
        found = checks(home)["import"]
        assert (found["state"], found["fix"]) == ("warn", remedy)
    finally:
        home.close()
        clean.control("remove_storage", node="pve", storage="esx")


def test_the_storage_for_unpacking_has_a_privilege(clean: PveServer) -> None:
    clean.control("add_storage", node="pve", storage="files", kind="dir", content="images")
    granted = {"/": ["VM.Allocate", "VM.Config.Disk", "Datastore.Audit"]}
    granted["/storage/local-lvm"] = ["Datastore.AllocateSpace"]
    clean.control("user", user="some@pve", password="pw", grants=granted)
    clean.control("add_volume", volid="local:import/x.ova", content="import")
    given = {
        "vmid": 171,
        "scsi0": "local-lvm:0,import-from=local:import/x.ova/disk.vmdk",
        "import-working-storage": "files",
    }
    reply = Client(clean, "some@pve", "pw").call("POST", "/nodes/pve/qemu", given)
    assert reply.status == 403
    assert "(/storage/files, Datastore.AllocateSpace)" in reply.reason
    clean.control("remove_storage", node="pve", storage="files")
    path = "/nodes/pve/storage/local/content/local:import/x.ova"
    assert Client(clean).task("DELETE", path) == "OK"


# --- versions ---


def test_which_files_a_server_takes(clean: PveServer) -> None:
    for name in ("a.ovf", "a.img", "a.vhdx"):
        reply = Client(clean).upload(name, b"x", [("content", "import")])
        assert reply.errors == {"filename": "invalid filename or wrong extension"}


def test_disks_need_a_newer_server_than_ovas(tmp_path: Path) -> None:
    with old("8.3") as server:
        unpack_ovas(server)
        reply = Client(server).upload("a.qcow2", b"x", [("content", "import")])
        assert reply.errors == {"filename": "invalid filename or wrong extension"}
        home = PveHome(instance(server))
        try:
            told = home.fails("up", home.spec(DEBIAN))
            assert "8.3" in told
            assert "need 8.4 or newer" in told
            assert sent(server, "/download-url") == []
            make_and_remove(home, of_ova(tmp_path))
            found = checks(home)["version"]
            assert found["state"] == "warn"
            assert "built-in systems and local images 8.4" in found["detail"]
        finally:
            home.close()


def test_a_server_from_before_imports(tmp_path: Path) -> None:
    with old("8.2") as server:
        home = PveHome(instance(server))
        try:
            assert "8.3 or newer" in home.fails("up", home.spec(of_ova(tmp_path)))
            assert "8.4 or newer" in home.fails("up", home.spec(DEBIAN))
        finally:
            home.close()


# --- what downloads need ---


@pytest.mark.parametrize(
    ("where", "privileges", "good"),
    [
        ("/", "Sys.Audit", False),
        ("/", "Sys.Audit Sys.Modify", True),
        ("/", "Sys.Audit Sys.AccessNetwork", True),
        ("/nodes/pve", "Sys.Audit Sys.Modify", False),
        ("/nodes/pve", "Sys.Audit Sys.AccessNetwork", True),
    ],
)
def test_downloads_have_a_privilege(
    clean: PveServer, where: str, privileges: str, good: bool
) -> None:
    granted = {"/": list(PRIVILEGES)}
    granted[where] = [*granted.get(where, []), *privileges.split()]
    clean.control("user", user="some@pve", password="pw", grants=granted)
    home = PveHome(instance(clean, user="some", user_realm="pve", password="pw"))
    try:
        assert checks(home)["privileges"]["state"] == "ok"
        found = checks(home)["downloads"]
        assert found["state"] == ("ok" if good else "warn")
        if good:
            make_and_remove(home, DEBIAN)
            return
        assert "Sys.AccessNetwork" in found["detail"]
        told = home.fails("up", home.spec(DEBIAN))
        assert "Sys.AccessNetwork on /nodes/pve" in told
    finally:
        home.close()


def test_a_node_without_kvm_runs_what_was_imported(
    home: PveHome, no_kvm: PveServer, tmp_path: Path
) -> None:
    unpack_ovas(no_kvm)
    make_ova(tmp_path / "vm.ova")
    vm = {**SPEC["vms"][0], "source": {"ova": str(tmp_path / "vm.ova")}}
    sandbox = home.up({**SPEC, "vms": [vm]})
    vms = no_kvm.state()["vms"]
    configs = [vm["config"] for vm in vms.values()]
    assert len(configs) == 2, "a template and its clone"
    assert all(str(c["kvm"]) == "0" and c["cpu"] == "max" for c in configs)
    home.ok("rm", sandbox)
    (template,) = [vmid for vmid, vm in vms.items() if vm["template"]]
    home.ok("image", "rm", "--on", "default", template)
