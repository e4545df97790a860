"""Images that are made of others: files, packages and scripts, without booting."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, tool
from home import TINY, Home, kill
from mirror import Mirror, write_packages

from tools import STRANGER, until

BASE = "tiny-disk"


@pytest.fixture
def home(images: None, tmp_path: Path) -> Iterator[Home]:
    """A home with images of its own: hard links to the common ones."""
    made = Home()
    common = Path(made.env["MOAT_DATA_DIR"]) / "images"
    data = tmp_path / "data"
    data.mkdir()
    tool("cp", "-rl", common, data)
    shutil.rmtree(data / "images" / "names")
    shutil.copytree(common / "names", data / "images" / "names")
    made.env["MOAT_DATA_DIR"] = str(data)
    yield made
    made.close()


def digest(home: Home, image: str) -> str:
    return str(json.loads(home.ok("image", "inspect", "--json", image))["digest"])


def scratch_left(home: Home) -> list[str]:
    images = Path(home.env["MOAT_DATA_DIR"]) / "images"
    return [p.name for p in images.iterdir() if p.name.startswith(("tmp-", "dead-"))]


def test_files_and_scripts_are_in_the_image(home: Home, tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "sub").mkdir(parents=True)
    (files / "sub" / "deep").write_text("deep\n")
    (files / "link").symlink_to("sub/deep")
    (files / "tool").write_text("#!/bin/sh\n")
    (files / "tool").chmod(0o755)
    (tmp_path / "one").write_text("one\n")
    script = tmp_path / "setup.sh"
    script.write_text(
        "#!/bin/sh\ncat /srv/one /opt/files/link >/root/both\nchown 1000 /root/both\n"
    )
    args = ["--copy", f"{tmp_path}/one:/srv/one", "--copy", f"{files}:/opt/"]
    assert home.ok("image", "build", BASE, "--name", "mine", *args, "--run", str(script)) == "mine"
    disk = Disk(home, "mine", tmp_path)
    disk.check()
    assert disk.read("/root/both") == "one\ndeep\n"
    assert "User:  1000" in disk.stat("/root/both")
    assert "Mode:  0755" in disk.stat("/opt/files/tool")
    assert "User:     0" in disk.stat("/opt/files/tool")
    assert "symlink" in disk.stat("/opt/files/link")
    # What the base had is as it was: owners, and the names by which a boot loader finds it.
    assert "User:  1000" in disk.stat("/home/user")
    before = Disk(home, BASE, tmp_path).super()
    for name in ("Filesystem UUID", "Filesystem volume name", "Inode size", "Block size"):
        assert disk.super()[name] == before[name]
    # A VM starts from it.
    name = home.ok("up", home.spec({"vms": [{**TINY["vms"][0], "source": "mine", "warm": False}]}))
    assert home.ok("exec", "--user", "root", name, "--", "cat", "/root/both") == "one\ndeep"
    home.ok("rm", name)


def test_the_same_steps_are_the_same_image_at_once(home: Home, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "lab.yaml").write_text(f"base: {BASE}\ncopy:\n  - one:/one\n")
    home.ok("image", "build", f"{tmp_path}/lab.yaml")
    first = digest(home, "lab")
    os.utime(tmp_path / "one", (1, 1))  # a file that was only touched is the same
    again = home.run("image", "build", f"{tmp_path}/lab.yaml", "--name", "lab2")
    assert again.returncode == 0
    assert "unpacking the disk" not in again.stderr
    assert digest(home, "lab2") == first
    (tmp_path / "one").write_text("two\n")
    home.ok("image", "build", f"{tmp_path}/lab.yaml")
    assert Disk(home, "lab", tmp_path).read("/one") == "two\n"
    assert digest(home, "lab2") == first
    rebuilt = home.run("image", "build", f"{tmp_path}/lab.yaml", "--rebuild")
    assert "unpacking the disk" in rebuilt.stderr


def test_a_failing_step_is_named_with_its_last_line(home: Home, tmp_path: Path) -> None:
    script = tmp_path / "broken.sh"
    script.write_text("echo fine\necho the cause >&2\nexit 3\n")
    error = home.fails("image", "build", BASE, "--name", "mine", "--run", str(script))
    assert "broken.sh failed with exit status 3: the cause" in error
    log = Path(home.env["MOAT_DATA_DIR"]) / "images" / "log" / "mine.log"
    assert str(log) in error
    assert "fine" in log.read_text()
    error = home.fails("image", "build", BASE, "--name", "mine", "--packages", "tmux")
    assert "the base has no apt-get" in error
    assert "runs from memory" in home.fails(
        "image", "build", "tiny", "--name", "x", "--disk-gb", "1"
    )
    assert "absolute PATH" in home.fails("image", "build", BASE, "--name", "x", "--copy", "a:b")
    assert "--name is missing" in home.fails("image", "build", BASE, "--packages", "x")
    assert "no name of a package" in home.fails(
        "image", "build", BASE, "--name", "x", "--packages", "-oDir=/x"
    )
    assert not scratch_left(home)
    assert "mine" not in home.ok("image", "ls", "--names").split()


def test_a_step_sees_nothing_of_the_host(home: Home, tmp_path: Path) -> None:
    """A chroot could be left by a process with root's rights: here nothing is outside."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    script = tmp_path / "look.sh"
    script.write_text(
        "#!/bin/sh\nexec >/result 2>&1\n"
        f"ls {tmp_path} /proc/1/root{tmp_path} && echo SEEN\n"
        "mkdir -p /x && chroot /x true\n"
        "mount -t tmpfs none /x && echo MOUNTED\n"
        "mknod /x/sda b 8 0 && echo DEVICE\n"
        "echo x >/proc/sys/kernel/core_pattern && echo SET\n"
        "ls -d /proc/[0-9]*\n"
        "exit 0\n"
    )
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    home.ok("image", "build", BASE, "--name", "mine", "--run", str(script))
    result = Disk(home, "mine", tmp_path).read("/result")
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    for word in ("SEEN", "MOUNTED", "DEVICE", "SET"):
        assert word not in result.split()
    assert "/proc/1" in result
    assert f"/proc/{os.getpid()}" not in result.split()


def test_a_step_gets_no_file_of_the_host(home: Home, tmp_path: Path) -> None:
    """Root could open it once more by /proc/self/fd, to write. The first is resolv.conf."""
    shell = tmp_path / "shell"
    shell.write_text(
        "#!/bin/busybox sh\n[ $$ -ne 1 ] || files=$(ls -l /proc/1/fd)\n"
        '[ $$ -ne 1 ] || echo "$files" >>/files\n'
        'exec /bin/busybox sh "$@"\n'
    )
    shell.chmod(0o755)
    script = tmp_path / "nothing.sh"
    script.write_text("exit 0\n")
    home.ok("image", "build", BASE, "--name", "one", "--copy", f"{shell}:/bin/sh")
    home.ok("image", "build", "one", "--name", "two", "--run", str(script))
    files = re.findall(r" (\d+) -> (.*)", Disk(home, "two", tmp_path).read("/files"))
    files = [(fd, file) for fd, file in files if not file.endswith("/bin/sh")]  # is being read
    # For each of: before the step, the step, after it. The first build did the last of these.
    assert [fd for fd, _ in files if int(fd) < 3] == ["0", "1", "2"] * 4, files
    assert all(file.startswith("pipe:") for _, file in files), files


def test_a_base_names_no_file_of_the_host(home: Home, tmp_path: Path) -> None:
    """An image's directory may come from another machine, and its disk name what it likes."""
    secret = tmp_path / "secret.raw"
    images = Path(home.env["MOAT_DATA_DIR"]) / "images"
    disk = images / f"sha256-{digest(home, BASE).removeprefix('sha256:')}" / "disk.qcow2"
    tool("qemu-img", "convert", "-O", "raw", disk, secret)
    disk.unlink()  # a hard link
    tool("qemu-img", "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", disk)
    error = home.fails("image", "build", BASE, "--name", "mine", "--disk-gb", "1")
    assert "No such file or directory" in error
    assert not scratch_left(home)


# Is loaded into the host's moat-disk by the image, keeps that open, and writes when nobody runs it.
EVIL = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void)
{
	if (!getenv("EVIL")) {
		dup2(open("/proc/self/exe", O_RDONLY), 9);
		setenv("EVIL", "1", 1);
		execl("/bin/other", "other", NULL);
	} else {
		int fd = open("/proc/self/fd/9", O_WRONLY | O_TRUNC);
		perror("open");
		puts(write(fd, "evil", 4) == 4 ? "WRITTEN" : "refused");
		exit(0);
	}
}
"""


def test_an_image_cannot_write_to_the_program_that_enters_it(tmp_path: Path) -> None:
    program, root = tmp_path / "moat-disk", tmp_path / "root"
    # As it is built for users: the library of a sanitizer would have to be in the image.
    shutil.copy(Path(__file__).parents[2] / "build" / "src" / "cli" / "moat-disk", program)
    for directory in ("proc", "dev", "bin", "etc"):
        (root / directory).mkdir(parents=True)
    (tmp_path / "evil.c").write_text(EVIL)
    evil: list[str | Path] = ["cc", "-shared", "-fPIC", "-o", root / "evil.so", tmp_path / "evil.c"]
    subprocess.run(evil, check=True)
    (root / "etc" / "ld.so.preload").write_text("/evil.so\n")
    (root / "bin" / "sh").symlink_to("/proc/self/exe")
    shutil.copy("/usr/bin/true", root / "bin" / "other")
    for library in re.findall(r"(/\S+) \(", tool("ldd", program)):
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library[1:])
    before = program.read_bytes()
    enter = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    command: list[str | Path] = [*enter, program, "enter", root, "/bin/sh"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr
    assert "Read-only file system" in done.stderr
    assert program.read_bytes() == before


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_what_is_interrupted_leaves_nothing(home: Home, tmp_path: Path, how: str) -> None:
    script = tmp_path / "wait.sh"
    script.write_text("exec sleep 1000000\n")
    client = home.start("image", "build", BASE, "--name", "mine", "--run", str(script))

    def steps() -> list[str]:
        return [p.name for p in Path("/proc").iterdir() if is_step(p, home.dir)]

    until(lambda: steps(), "the step runs", 60)
    if how == "interrupt":
        client.terminate()
        assert client.wait(60) != 0
    else:
        kill(home.daemon_pid())
        client.wait(60)
    until(lambda: not steps(), "the step has ended", 30)
    if how == "kill":
        home.ok("ls")  # the next daemon deletes what was left
    until(lambda: not scratch_left(home), "its files are deleted", 30)
    assert "mine" not in home.ok("image", "ls", "--names").split()


def is_step(process: Path, home: Path) -> bool:
    """A step has an environment of its own: it is known by its command and its parents."""
    with contextlib.suppress(OSError):
        if not process.name.isdigit():
            return False
        if b"sleep\x001000000" not in (process / "cmdline").read_bytes():
            return False
        parent = process
        while parent.name not in ("0", "1"):
            if f"MOAT_HOME={home}".encode() in (parent / "environ").read_bytes():
                return True
            stat = (parent / "stat").read_text()
            parent = Path("/proc") / stat.rpartition(")")[2].split()[1]
    return False


def unpack(image: Path, to: Path) -> subprocess.CompletedProcess[str]:
    moat_disk = Path(os.environ["MOAT_BIN"]).parent / "moat-disk"
    to.mkdir()
    command = ["unshare", "--user", "--map-root-user", moat_disk, "unpack", image, "0", to]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "features", ["^has_journal", "inline_data", "^extent,^64bit,^metadata_csum"]
)
def test_files_come_out_as_they_went_in(tmp_path: Path, features: str) -> None:
    tree = tmp_path / "tree"
    (tree / "dir" / "deep").mkdir(parents=True)
    (tree / "dir" / "small").write_text("small\n")
    (tree / "dir" / "deep" / "same").hardlink_to(tree / "dir" / "small")
    (tree / "link").symlink_to("../" + "long/" * 40)
    (tree / "short").symlink_to("dir")
    os.mkfifo(tree / "pipe")
    with (tree / "sparse").open("wb") as sparse:
        sparse.seek(8 << 20)
        sparse.write(os.urandom(100_000))
    (tree / "sparse").chmod(0o4750)
    # Without extents a file can have no more.
    huge = 1 << 34 if "^extent" in features else 1 << 40
    with (tree / "huge").open("wb") as empty:
        empty.truncate(huge)
        empty.seek(huge // 2)
        empty.write(b"middle")
    os.utime(tree / "sparse", ns=(1_000_000_007, 1_234_567_890_123_456_789))
    for i in range(300):
        (tree / "dir" / f"{i:04}-{'x' * 60}").touch()
    image = tmp_path / "image"
    tool("truncate", "-s", "32M", image)
    tool("mke2fs", "-q", "-F", "-t", "ext4", "-I", "256", "-O", features, "-d", tree, image)
    done = unpack(image, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    listing = ["find", ".", "-printf", "%P %M %n %l %Ts %s\\n"]
    shown = [
        sorted(subprocess.run(listing, cwd=at, check=True, capture_output=True).stdout.split(b"\n"))
        for at in (tree, tmp_path / "out")
    ]
    # Directories have another size and, for lost+found, were written to once more.
    files = [[line for line in lines if b" d" not in line] for lines in shown]
    assert files[0] == files[1]
    assert len(files[0]) > 300
    whole = (tree / "sparse").read_bytes() == (tmp_path / "out" / "sparse").read_bytes()
    assert whole
    assert (tmp_path / "out" / "sparse").stat().st_blocks * 512 < 1 << 20
    with (tmp_path / "out" / "huge").open("rb") as copied:
        copied.seek(huge // 2 - 1)
        assert copied.read(8) == b"\0middle\0"
    same = (tmp_path / "out" / "dir" / "small").samefile(tmp_path / "out" / "dir/deep/same")
    assert same


def test_a_file_system_that_means_harm_writes_nowhere_else(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "aa_bb_evil").write_text("evil")
    image = tmp_path / "image"
    tool("truncate", "-s", "4M", image)
    tool("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum", "-d", tree, image)
    content = image.read_bytes()
    assert content.count(b"aa_bb_evil") == 1
    image.write_bytes(content.replace(b"aa_bb_evil", b"../../evil"))
    done = unpack(image, tmp_path / "out")
    assert done.returncode == 1
    assert "a name that no file can have" in done.stderr
    assert not list(tmp_path.rglob("evil"))
    assert not (tmp_path.parent / "evil").exists()


def test_an_owner_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    """Of the root directory, which nothing is above."""
    image = tmp_path / "image"
    tool("truncate", "-s", "4M", image)
    tool("mke2fs", "-q", "-F", "-t", "ext4", "-E", "root_owner=12345:12345", image)
    done = unpack(image, tmp_path / "out")
    assert done.returncode == 1
    assert "Invalid argument" in done.stderr


@pytest.mark.parametrize("line", ["Block count: PATH[$(>pwned)]+", "Free blocks: 1"])
def test_a_label_is_no_number_and_no_program(tmp_path: Path, line: str) -> None:
    """dumpe2fs prints labels as they are, and bash runs what stands in an arithmetic's index."""
    recipe = Path(__file__).parents[2] / "share" / "recipes" / "change" / "root.sh"
    disk = tmp_path / "disk.raw"
    tool("truncate", "-s", "4M", disk)
    tool("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum", disk)
    with disk.open("r+b") as f:
        f.seek(1024 + 0x88)  # "Last mounted on"
        f.write(f"/\n{line}\n".encode())
    script = f'set -eu; die() {{ echo "$*" >&2; exit 1; }}; . {recipe}; ROOT_START=0; root_used_mb'
    done = subprocess.run(
        ["bash", "--posix", "-c", script],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert not (tmp_path / "pwned").exists()
    assert done.returncode == 1
    assert "the superblock of the base is damaged" in done.stderr


# Gives a user with a range of ids to whatever comes behind.
WITH_IDS = """
set -e
mount --make-rprivate /
for file in passwd subuid subgid; do
	cp /etc/$file "$1/$file" 2>/dev/null || : >"$1/$file"
	case $file in
	passwd) echo "moat-test:x:$2:$2::/:/bin/sh" ;;
	*) echo "moat-test:1000000000:65536" ;;
	esac >>"$1/$file"
	mount --bind "$1/$file" /etc/$file
done
user=$2
shift 2
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"""


@pytest.mark.needs_root("it runs moat as another user")
def test_an_ordinary_user_needs_no_root(home: Home, tmp_path: Path) -> None:
    data = home.dir / "data"
    tool("cp", "-rL", home.env["MOAT_DATA_DIR"], data)
    cache = home.dir / "cache"
    cache.mkdir()
    home.env |= {
        "MOAT_DATA_DIR": str(data),
        "MOAT_CACHE_DIR": str(cache),
        "HOME": str(home.dir),
    }
    script = home.dir / "who.sh"
    script.write_text("id -u >/who\ncat /proc/self/uid_map >>/who\nchown 33 /who\n")
    for path in (home.dir, *home.dir.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    command = ["unshare", "--mount", "sh", "-c", WITH_IDS, "sh", str(home.dir), str(STRANGER)]
    build = [home.binary, "image", "build", BASE, "--name", "mine", "--run", str(script)]
    done = subprocess.run(
        [*command, *build], env=home.env, check=False, capture_output=True, text=True, timeout=180
    )
    subprocess.run([*command, home.binary, "serve", "--stop", "--force"], env=home.env, check=False)
    assert done.returncode == 0, done.stderr
    disk = Disk(home, "mine", tmp_path)
    disk.check()
    who = disk.read("/who").split()
    assert who[0] == "0"
    assert str(STRANGER) in who  # root among the image's files is that user outside
    assert "User:    33" in disk.stat("/who")
    assert "User:  1000" in disk.stat("/home/user")


def test_packages_of_the_images_own_sources(home: Home, tmp_path: Path) -> None:
    served = tmp_path / "apt"
    served.mkdir()
    write_packages(served, ["moat-one", "moat-two"])
    mirror = Mirror(tmp_path)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] {mirror.url}/apt ./\n")
    service = tmp_path / "service.sh"
    service.write_text("#!/bin/sh\n/usr/sbin/policy-rc.d ssh start; echo $? >/policy\n")
    try:
        home.ok(
            *["image", "build", "debian12", "--name", "mine", "--run", str(service)],
            *["--copy", f"{tmp_path}/sources.list:/etc/apt/sources.list.d/0000sources.list"],
            *["--packages", "moat-one,moat-two", "--disk-gb", "12"],
            timeout=600,
        )
    finally:
        mirror.close()
    disk = Disk(home, "mine", tmp_path)
    disk.check()
    assert "moat-two" in disk.read("/var/lib/dpkg/status")
    assert "regular" in disk.stat("/usr/share/moat-test/moat-one")
    assert disk.read("/policy").strip() == "101"  # services do not start on the host
    assert disk.read("/etc/resolv.conf") == ""
    assert "File not found" in missing(disk, "/usr/sbin/policy-rc.d")
    # ping's right to raw sockets, which is not kept by every copy.
    assert "security.capability" in tool("debugfs", "-R", "ea_list /usr/bin/ping", disk.file_system)
    assert disk.raw.stat().st_size == 12 << 30
    assert disk.root["size"] * 512 > 11 << 30
    kernel = json.loads(home.ok("image", "inspect", "--json", "mine"))["kernel"]
    assert kernel is True  # the base's, for a quick start


def missing(disk: Disk, path: str) -> str:
    command = ["debugfs", "-R", f"stat {path}", disk.file_system]
    return subprocess.run(command, check=False, capture_output=True, text=True).stderr
