"""Container images become images: from registries, files and Dockerfiles."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from disks import tool
from home import Home
from registries import Layer, Registry, busybox_layer, sha256, skopeo, upper_layer, write_image

from tools import copy_data, until


def own_data(home: Home) -> None:
    """A data directory of its own, with the kernel that container images start with."""
    home.ok("image", "build", "container", timeout=900)
    home.ok("serve", "--stop", "--force")
    copy_data(Path(home.env["MOAT_DATA_DIR"]), home.dir / "data", "images")
    home.env["MOAT_DATA_DIR"] = str(home.dir / "data")


def inspect(home: Home, image: str) -> dict[str, Any]:
    return json.loads(home.ok("image", "inspect", "--json", image))


def unfinished(home: Home) -> list[Path]:
    images = home.dir / "data/images"
    return [*images.glob("tmp-*"), *images.glob("dead-*"), *(images / "busy").iterdir()]


class Files:
    """The file system of an image."""

    def __init__(self, home: Home, image: str, scratch: Path) -> None:
        self.raw = scratch / "disk.raw"
        disk = Path(inspect(home, image)["dir"]) / "disk.qcow2"
        tool("qemu-img", "convert", "-O", "raw", disk, self.raw)

    def ask(self, question: str) -> str:
        return tool("debugfs", "-R", question, self.raw)

    def modes(self, folder: str) -> dict[str, tuple[str, int, int]]:
        """Of each file in it: mode with kind, owner, group."""
        rows = re.findall(
            r"^ *\d+ +(\d+) \(\d+\) +(\d+) +(\d+) .* (\S+) *$",
            self.ask(f"ls -l {folder}"),
            re.MULTILINE,
        )
        return {name: (mode, int(uid), int(gid)) for mode, uid, gid, name in rows}


class Lab:
    """A moat with a registry that has the image "lab"."""

    def __init__(self, scratch: Path) -> None:
        self.home = Home()
        own_data(self.home)
        self.registry = Registry(scratch / "registry")
        self.base, self.image = busybox_layer().packed(), scratch / "image"
        self.digest = write_image(self.image, [self.base, upper_layer().packed()])
        self.registry.push(self.image, "kim/lab:1")
        self.ref = f"{self.registry.host}/kim/lab:1"


@pytest.fixture(scope="module")
def lab(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.registry.close()
    made.home.close()


def test_pull(lab: Lab, tmp_path: Path) -> None:
    assert lab.home.ok("image", "pull", lab.ref) == lab.ref
    shown = inspect(lab.home, lab.ref)
    assert shown["container"] == {
        "ref": lab.ref,
        "digest": f"sha256:{lab.digest}",
        "entrypoint": ["/bin/sh", "-c"],
        "cmd": ["sleep 1000"],
        "env": ["PATH=/bin", "A=b c"],
        "working_dir": "/srv",
        "user": "1500:1500",
        "healthcheck": {
            "test": ["CMD-SHELL", "true"],
            "interval": 7,
            "timeout": 30,
            "start_period": 0,
            "retries": 2,
        },
        "exposed_ports": ["80/tcp"],
        "volumes": ["/data"],
        "stop_signal": "SIGINT",
    }
    files = Files(lab.home, lab.ref, tmp_path)
    tool("e2fsck", "-f", "-n", files.raw)
    assert "lost+found" not in files.modes("/")
    assert files.modes("/bin")["busybox"] == ("104755", 0, 0)
    assert files.modes("/bin")["tool"] == ("100755", 0, 0), "the link /sbin leads there"
    assert files.modes("/srv").keys() == {".", "..", "owned", "old", "capable", "null"}
    assert files.modes("/srv")["owned"] == ("100640", 1500, 70000)
    assert files.modes("/srv")["null"] == ("20666", 0, 0)
    assert files.modes("/srv/old").keys() == {".", "..", "new"}
    assert "01 00 00 02 00 20" in files.ask("ea_list /srv/capable")
    assert "seen" in files.ask("ea_list /srv/capable")
    assert "Links: 2" in files.ask("stat /bin/ping")
    assert 'Fast link dest: "busybox"' in files.ask("stat /bin/sh")
    assert files.ask("cat /srv/owned") == "hello\n"


def test_one_image_for_all_names(lab: Lab) -> None:
    lab.home.ok("image", "pull", lab.ref)
    exact = f"{lab.registry.host}/kim/lab@sha256:{lab.digest}"
    again = lab.home.run("image", "pull", f"docker://{lab.ref}")
    assert (again.returncode, "unpacking" in again.stderr) == (0, False), again.stderr
    pinned = lab.home.run("image", "pull", exact)
    assert (pinned.returncode, "unpacking" in pinned.stderr) == (0, False), pinned.stderr
    assert inspect(lab.home, exact)["digest"] == inspect(lab.home, lab.ref)["digest"]
    assert lab.home.run("image", "pull", exact).stderr == "", "a digest never changes"
    lab.home.ok("image", "rm", exact)
    assert inspect(lab.home, lab.ref)["name"] == lab.ref


def test_layers_are_shared(lab: Lab, tmp_path: Path) -> None:
    lab.home.ok("image", "pull", lab.ref)
    more = Layer().add("srv/more", b"more\n").packed()
    write_image(tmp_path / "image", [lab.base, more])
    lab.registry.push(tmp_path / "image", "kim/more:1")
    kept = (lab.registry.root / "data/docker/registry/v2/blobs/sha256").glob(
        f"*/{sha256(lab.base)}/data"
    )
    content = next(kept).read_bytes()
    lab.registry.lose(sha256(lab.base))
    try:
        lab.home.ok("image", "pull", f"{lab.registry.host}/kim/more:1")
        said = lab.home.ok("gc", "--kept")
        assert "layers of container images" in said
        lab.home.fails("image", "pull", "--rebuild", f"{lab.registry.host}/kim/more:1")
    finally:
        blob = lab.registry.root / "data/docker/registry/v2/blobs/sha256"
        (blob / sha256(lab.base)[:2] / sha256(lab.base) / "data").write_bytes(content)


def test_what_is_not_there(lab: Lab, tmp_path: Path) -> None:
    said = lab.home.fails("image", "pull", f"{lab.registry.host}/kim/lab:2")
    assert "the registry has no such image" in said
    said = lab.home.fails("image", "inspect", f"{lab.registry.host}/kim/lab:2")
    assert f"moat image pull {lab.registry.host}/kim/lab:2" in said
    assert "names no container image" in lab.home.fails("image", "pull", "Kim/Lab:1")
    write_image(tmp_path / "image", [lab.base], arch="arm64")
    lab.registry.push(tmp_path / "image", "kim/arm:1")
    said = lab.home.fails("image", "pull", f"{lab.registry.host}/kim/arm:1")
    assert "it is for linux/arm64, not for linux/amd64" in said
    assert unfinished(lab.home) == []


def test_pulls_at_once(lab: Lab, tmp_path: Path) -> None:
    """Two pulls of one name share the work."""
    write_image(tmp_path / "image", [Layer().add("srv", b"once").packed()])
    lab.registry.push(tmp_path / "image", "kim/once:1")
    pull = ("image", "pull", f"{lab.registry.host}/kim/once:1")
    clients = [lab.home.start(*pull, stderr=subprocess.PIPE) for _ in range(2)]
    said = [client.communicate(timeout=120)[1].decode() for client in clients]
    assert [client.returncode for client in clients] == [0, 0], said
    assert sum("unpacking layers" in text for text in said) == 1, said


@pytest.mark.parametrize("victim", ["skopeo", "daemon"])
def test_kill_while_pulling(lab: Lab, victim: str) -> None:
    def tools() -> list[int]:
        lines = lab.home.processes().items()
        return [pid for pid, line in lines if line.startswith("skopeo ")]

    lab.registry.process.send_signal(signal.SIGSTOP)
    try:
        client = lab.home.start("image", "pull", lab.ref)
        pid = until(tools, "skopeo asks")[0]
        if victim == "skopeo":
            os.kill(pid, signal.SIGKILL)
        else:
            lab.home.kill_daemon()
        assert client.wait(60) != 0
        until(lambda: not tools(), "skopeo has ended")
    finally:
        lab.registry.process.send_signal(signal.SIGCONT)
    lab.home.ok("gc")
    assert unfinished(lab.home) == []
    lab.home.ok("image", "pull", lab.ref)


def test_login_and_mirror(lab: Lab, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry", password="secret")
    home = Home(f"image_mirror: http://{registry.host}/hub\nidle_exit: 0\n")
    try:
        own_data(home)
        registry.push(lab.image, "hub/library/lab:1", "--dest-creds", "kim:secret")
        assert "the registry wants another login" in home.fails("image", "pull", "lab:1")
        login = base64.b64encode(b"kim:secret").decode()
        auth = tmp_path / "auth.json"
        auth.write_text(json.dumps({"auths": {registry.host: {"auth": login}}}))
        with (home.dir / "config.yaml").open("a") as config:
            config.write(f"registry_auth_file: {auth}\n")
        home.ok("serve", "--stop", "--force")
        assert home.ok("image", "pull", "lab:1") == "docker.io/library/lab:1"
        assert inspect(home, "lab:1")["container"]["digest"] == f"sha256:{lab.digest}"
    finally:
        home.close()
        registry.close()


def test_import(lab: Lab, tmp_path: Path) -> None:
    saved, layout = tmp_path / "saved.tar", tmp_path / "layout"
    skopeo("copy", "-q", f"dir:{lab.image}", f"docker-archive:{saved}:lab:1")
    skopeo("copy", "-q", f"dir:{lab.image}", f"oci:{layout}:1")
    with tarfile.open(tmp_path / "layout.tar", "w") as tar:
        tar.add(layout, ".")
    assert lab.home.ok("image", "import", str(saved)) == "saved"
    shown = inspect(lab.home, "saved")["container"]
    assert (shown["user"], shown["healthcheck"]["interval"]) == ("1500:1500", 7)
    lab.home.ok("image", "import", "--name", "one", str(layout))
    lab.home.ok("image", "import", "--name", "two", str(tmp_path / "layout.tar"))
    assert inspect(lab.home, "one")["digest"] == inspect(lab.home, "two")["digest"]
    files = Files(lab.home, "one", tmp_path)
    assert files.modes("/srv")["owned"] == ("100640", 1500, 70000)
    with saved.open("r+b") as file:
        file.truncate(saved.stat().st_size // 2)
    lab.home.fails("image", "import", "--name", "cut", str(saved))
    assert unfinished(lab.home) == []


HOSTILE = {
    "leads out of the image": Layer().add("../../../../tmp/moat-escaped", b"x"),
    "lead in circles": Layer().link("a", "b").link("b", "a").add("a/x", b"x"),
    "is linked to, but is not there": Layer().link("x", "/etc/hostname", tarfile.LNKTYPE),
    "is a file and a directory": Layer().add("x", b"x").add("x/y", b"y"),
}


@pytest.mark.parametrize("why", HOSTILE)
def test_hostile_layer(lab: Lab, tmp_path: Path, why: str) -> None:
    name = f"kim/hostile-{list(HOSTILE).index(why)}:1"
    write_image(tmp_path / "image", [HOSTILE[why].packed()])
    lab.registry.push(tmp_path / "image", name)
    assert why in lab.home.fails("image", "pull", f"{lab.registry.host}/{name}")
    assert not Path("/tmp/moat-escaped").exists()
    assert unfinished(lab.home) == []


def test_links_stay_inside(lab: Lab, tmp_path: Path) -> None:
    layer = Layer().link("out", "../../../../../tmp").add("out/moat-escaped", b"inside\n")
    layer.link("abs", "/tmp").add("abs/moat-escaped-2", b"inside\n")
    write_image(tmp_path / "image", [layer.packed()])
    lab.registry.push(tmp_path / "image", "kim/links:1")
    lab.home.ok("image", "pull", f"{lab.registry.host}/kim/links:1")
    files = Files(lab.home, f"{lab.registry.host}/kim/links:1", tmp_path)
    assert {"moat-escaped", "moat-escaped-2"} < files.modes("/tmp").keys()
    assert not Path("/tmp/moat-escaped").exists()
    assert not Path("/tmp/moat-escaped-2").exists()


def test_huge_layer(lab: Lab, tmp_path: Path) -> None:
    layer = Layer()
    info = tarfile.TarInfo("huge")
    info.size = 30 << 30
    layer.bytes.write(info.tobuf(tarfile.GNU_FORMAT))
    write_image(tmp_path / "image", [layer.packed()])
    lab.registry.push(tmp_path / "image", "kim/huge:1")
    said = lab.home.fails("image", "pull", f"{lab.registry.host}/kim/huge:1")
    assert "container_disk_gb" in said
    assert unfinished(lab.home) == []


DOCKERFILE = """\
FROM scratch AS base
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p /etc /tmp && chmod 4755 /bin/busybox && echo kim:x:1500:1500::/:/bin/sh >/etc/passwd
ARG GREETING=none
RUN echo $GREETING >/greeting

FROM base
COPY --from=base --chown=1500:70 /etc/passwd /srv/passwd
COPY . /srv/context
USER kim
WORKDIR /srv
ENV A=b
HEALTHCHECK --interval=9s CMD true
ENTRYPOINT ["/bin/sh"]
CMD ["-c", "sleep 1000"]
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    folder.mkdir()
    shutil.copy("/bin/busybox", folder / "busybox")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / ".dockerignore").write_text("secret\n")
    (folder / "secret").write_text("x")
    return folder


def test_build(lab: Lab, context: Path, tmp_path: Path) -> None:
    build = ("image", "build", f"{context}/", "--name", "built", "--build-arg", "GREETING=hello")
    lab.home.ok(*build, timeout=300)
    shown = inspect(lab.home, "built")
    about = shown["container"]
    assert (about["user"], about["working_dir"]) == ("kim", "/srv")
    assert about["entrypoint"] == ["/bin/sh"]
    assert "A=b" in about["env"]
    assert about["healthcheck"]["interval"] == 9
    files = Files(lab.home, "built", tmp_path)
    assert files.modes("/bin")["busybox"] == ("104755", 0, 0)
    assert files.modes("/srv")["passwd"] == ("100644", 1500, 70)
    assert "secret" not in files.modes("/srv/context")
    assert files.ask("cat /greeting") == "hello\n"

    os.utime(context / "Dockerfile")
    again = lab.home.run(*build)
    assert (again.returncode, "unpacking" in again.stderr) == (0, False), again.stderr
    (context / "file").write_text("new")
    lab.home.ok(*build, timeout=300)
    assert inspect(lab.home, "built")["digest"] != shown["digest"]
    assert unfinished(lab.home) == []


def test_run_that_leaves_its_image(lab: Lab, context: Path, tmp_path: Path) -> None:
    """It finds programs and what belongs to builds, but not this host's files."""
    shutil.copy(Path(lab.home.binary).parents[2] / "tests/leave", context / "leave")
    (context / "Dockerfile").write_text(
        'FROM scratch\nCOPY busybox leave /bin/\nRUN ["/bin/busybox", "sh", "-c",'
        ' "/bin/leave >/seen"]\n'
    )
    lab.home.ok("image", "build", f"{context}/", "--name", "leaves", timeout=300)
    seen = set(Files(lab.home, "leaves", tmp_path).ask("cat /seen").split())
    assert "usr" in seen
    hosts = {"boot", "media", "srv"}
    assert hosts & set(os.listdir("/"))
    assert seen.isdisjoint(hosts)


def test_build_on_a_registrys_image(lab: Lab, tmp_path: Path) -> None:
    """The base's user, directory and health check are those of the new image, too."""
    (tmp_path / "context").mkdir()
    # A user namespace has 65536 groups.
    write_image(tmp_path / "image", [busybox_layer(gid=7000).packed()])
    lab.registry.push(tmp_path / "image", "kim/base:1")
    dockerfile = tmp_path / "Containerfile"
    base = f"{lab.registry.host}/kim/base:1"
    dockerfile.write_text(f"FROM {base}\nUSER 0\nRUN echo more >/srv/more\nUSER kim\n")
    build = ("image", "build", f"{tmp_path}/context", "-f", str(dockerfile), "--name", "based")
    lab.home.ok(*build, timeout=300)
    about = inspect(lab.home, "based")["container"]
    assert (about["user"], about["working_dir"]) == ("kim", "/srv")
    assert about["healthcheck"]["interval"] == 7
    files = Files(lab.home, "based", tmp_path)
    assert files.ask("cat /srv/more") == "more\n"
    assert files.modes("/srv")["owned"] == ("100640", 1500, 7000)
    assert "01 00 00 02 00 20" in files.ask("ea_list /srv/capable")


def test_failed_build(lab: Lab, context: Path) -> None:
    def fails(*lines: str) -> str:
        (context / "Dockerfile").write_text(DOCKERFILE + "\n".join(lines) + "\n")
        return lab.home.fails("image", "build", str(context), timeout=300)

    said = fails("RUN exit 7")
    assert "RUN exit 7" in said
    assert "exit status 7" in said
    version = subprocess.check_output(["buildah", "--version"], text=True).split()[2]
    if tuple(map(int, version.split(".")[:2])) < (1, 33):
        assert "knows no here-documents" in fails("RUN <<EOF", "true", "EOF")
    assert unfinished(lab.home) == []


def test_kill_while_building(lab: Lab, context: Path) -> None:
    (context / "Dockerfile").write_text(DOCKERFILE + "RUN echo now; exec sleep 98765\n")
    log = lab.home.dir / "data/images/log/killed.log"
    client = lab.home.start("image", "build", str(context), "--name", "killed")

    def sleeps() -> bool:
        return log.exists() and "\nnow\n" in log.read_text()

    def sleepers() -> list[str]:
        return [p for p in os.listdir("/proc") if p.isdigit() and "98765" in command(p)]

    def command(pid: str) -> str:
        try:
            line = Path("/proc", pid, "cmdline").read_text()
        except OSError:
            return ""
        return line if line.startswith("sleep") else ""

    until(sleeps, "the step runs", 300)
    assert sleepers()
    lab.home.kill_daemon()
    client.wait(60)
    until(lambda: not sleepers(), "the step has ended")
    until(lambda: "buildah" not in str(lab.home.processes()), "buildah has ended")
    lab.home.ok("gc")
    assert unfinished(lab.home) == []

    log.unlink()
    client = lab.home.start("image", "build", str(context), "--name", "killed")
    until(sleeps, "the step runs again", 300)
    client.send_signal(signal.SIGINT)
    client.wait(60)
    until(lambda: not sleepers(), "the step has ended")
    until(lambda: unfinished(lab.home) == [], "nothing is left")


def test_up(lab: Lab) -> None:
    """A VM of an image that is not there yet, and of its Dockerfile's."""
    lab.home.run("image", "rm", lab.ref)
    spec = {"vms": [{"source": {"oci": lab.ref}, "ram_mb": 256, "vcpus": 1, "warm": False}]}
    sandbox = lab.home.up(spec)
    try:
        assert "uid=1500" in lab.home.ok("exec", sandbox, "--", "/bin/busybox", "id", timeout=300)
    finally:
        lab.home.ok("rm", sandbox)
    assert inspect(lab.home, lab.ref)["container"]["ref"] == lab.ref
