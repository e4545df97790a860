"""Failures at every step leave nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from home import kill
from traces import children_of, files_of
from vagrant_home import FILES, TIMEOUT, VagrantHome
from walls import check_row, rows, user_of

INSPECT = [sys.executable, "-m", "inspect_ai"]


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def log_of(home: VagrantHome) -> str:
    logs = list(home.cache.glob("*/vagrant.log")) if home.cache.exists() else []
    return logs[0].read_text(errors="replace") if logs else ""


def vagrants(home: VagrantHome) -> list[int]:
    return [
        pid
        for pid, args in home.processes().items()
        if "vagrant up " in args and "--machine-readable" in args and " guard " not in args
    ]


def ssh_processes(home: VagrantHome, *, guards: bool) -> list[int]:
    return [
        pid
        for pid, args in home.processes().items()
        if args.strip().endswith("moat-ssh") and (" guard " in args) == guards
    ]


def test_the_ssh_process_is_as_the_table_says(home: VagrantHome, lab: str) -> None:
    home.exec(lab, "true")
    table = {row["process"]: row for row in rows("Which processes are there?")}
    found = ssh_processes(home, guards=False)
    assert found
    for pid in found:
        check_row(pid, "moat-ssh", table["moat-ssh"], table["holder"])
    assert len({user_of(pid) for pid in found}) == len(found)


def kept(home: VagrantHome) -> list[str]:
    """What the daemon has, and what it has started, for the lab's two machines."""
    daemon = home.daemon_pid()
    kinds = ("anon_inode:[pidfd]", "pipe:")
    files = [name.split("[")[0] for name in files_of(daemon) if name.startswith(kinds)]
    lines = [line.split("/")[-1] for line in home.processes().values()]
    return sorted(files + lines + ["child"] * len(children_of(daemon)))


@pytest.mark.parametrize(
    ("struck", "number", "moment"),
    [
        ("guard", signal.SIGKILL, "exec"),
        ("guard", signal.SIGSTOP, "idle"),
        ("moat-ssh", signal.SIGKILL, "idle"),
        ("moat-ssh", signal.SIGSEGV, "exec"),
        ("moat-ssh", signal.SIGSTOP, "exec"),
    ],
)
def test_struck_ssh_processes_leave_nothing(
    home: VagrantHome, lab: str, struck: str, number: signal.Signals, moment: str
) -> None:
    """Whatever becomes of them, and when: there are other ones, and not more than before."""

    def use() -> None:
        for vm in ("attacker", "web"):
            home.run("exec", "--vm", vm, lab, "--", "true", timeout=TIMEOUT)  # may notice
            assert home.exec(lab, "echo", "here", vm=vm) == "here"

    use()
    before = kept(home)
    client = None
    if moment == "exec":
        client = home.start("exec", lab, "--", "sh", "-c", "yes | head -c 3000000; sleep 1")
    found = ssh_processes(home, guards=struck == "guard")
    assert found
    for pid in found:
        os.kill(pid, number)
    if number == signal.SIGSTOP and struck == "moat-ssh":
        if client:
            client.send_signal(signal.SIGINT)
            assert client.wait(TIMEOUT) != 0
        for pid in found:
            os.kill(pid, signal.SIGCONT)
    if client:
        client.wait(TIMEOUT)
    use()
    deadline = time.monotonic() + TIMEOUT
    while (now := kept(home)) != before:
        assert time.monotonic() < deadline, f"before: {before}\nnow: {now}"
        time.sleep(0.1)


def hang_ssh(home: VagrantHome) -> list[int]:
    found = [pid for pid, args in home.processes().items() if args.strip().endswith("moat-ssh")]
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    return found


def test_a_process_for_ssh_that_hangs_holds_nobody_up(home: VagrantHome, lab: str) -> None:
    home.exec(lab, "true")
    hanging = hang_ssh(home)
    assert hanging
    client = home.start("exec", lab, "--", "true")
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(2)
    client.send_signal(signal.SIGINT)
    assert client.wait(60) != 0
    for pid in hanging:
        kill(pid)
    home.run("exec", lab, "--", "true", timeout=TIMEOUT)  # may be the one that notices
    assert home.exec(lab, "echo", "back") == "back"
    assert hang_ssh(home)  # as the daemon of the next test will leave it


def test_after_a_crash_of_the_daemon_inspect_cleans_up(home: VagrantHome, lab: str) -> None:
    """The daemon of the other tests' sandbox dies, its machines do not."""
    home.kill_daemon()
    assert home.domains()
    done = subprocess.run(
        [*INSPECT, "sandbox", "cleanup", "vagrant", lab],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert lab in done.stdout
    home.wait_until_clean()


def test_errors_name_the_cause(home: VagrantHome, tmp_path: Path) -> None:
    broken = write(tmp_path / "Vagrantfile.broken", "Vagrant.configure('2') do |config|\n")
    assert "syntax error" in home.fails("up", broken, timeout=TIMEOUT)
    box = 'config.vm.box = "no/such-box"; config.vm.box_url = "file:///nowhere"'
    text = f'Vagrant.configure("2") {{ |config| {box} }}\n'
    nobox = write(tmp_path / "Vagrantfile.nobox", text)
    message = home.fails("up", nobox, timeout=TIMEOUT)
    assert "nowhere" in message or "no/such-box" in message
    assert "no such file" in home.fails("up", str(tmp_path / "Vagrantfile")).lower()
    home.env["PATH"], path = "/nowhere", home.env["PATH"]
    try:
        assert "doctor vagrant" in home.fails("up", str(FILES / "Vagrantfile.single"))
    finally:
        home.env["PATH"] = path
    home.wait_until_clean()


MISSING = """Vagrant.configure("2") do |config|
  config.vm.box = "moat-test"
  config.vm.define "one"
  config.vm.define "two" do |two|
    two.vm.provision "shell", path: "not-there.sh"
  end
end
"""
ELSEWHERE = """Vagrant.configure("2") do |config|
  config.vm.box = "moat-elsewhere"
end
"""


def test_a_machine_that_vagrant_refuses_keeps_no_other_alive(
    home: VagrantHome, tmp_path: Path
) -> None:
    """It refuses to destroy it as well, and with it all others."""
    file = write(tmp_path / "Vagrantfile", MISSING)
    message = home.fails("up", file, timeout=TIMEOUT)
    assert "not-there.sh" in message
    assert "vagrant_dir" in message
    home.wait_until_clean()


def test_the_files_beside_a_vagrantfile(home: VagrantHome, tmp_path: Path) -> None:
    """`moat up DIR/` copies them; a provisioner that fails has its last words in the error."""
    (tmp_path / "not-there.sh").write_text("echo what went wrong >&2; echo giving up; exit 7\n")
    write(tmp_path / "Vagrantfile", MISSING)
    message = home.fails("--quiet", "up", f"{tmp_path}/", timeout=TIMEOUT)
    assert "two: " in message
    assert "what went wrong | giving up" in message
    assert "vagrant_dir" not in message
    home.wait_until_clean()


def test_a_box_for_another_provider(home: VagrantHome, tmp_path: Path) -> None:
    write(tmp_path / "metadata.json", '{"provider": "virtualbox"}')
    box = str(tmp_path / "other.box")
    subprocess.run(["tar", "-czf", box, "-C", str(tmp_path), "metadata.json"], check=True)
    command = ["vagrant", "box", "add", "--force", "--name", "moat-elsewhere", box]
    subprocess.run(command, check=True, capture_output=True)
    message = home.fails("up", write(tmp_path / "Vagrantfile", ELSEWHERE), timeout=TIMEOUT)
    assert "moat-elsewhere that is here is for virtualbox" in message
    home.wait_until_clean()


@pytest.mark.parametrize("how", ["rm", "gc"])
def test_somebody_deletes_the_directory(home: VagrantHome, how: str) -> None:
    sandbox = home.ok("up", str(FILES / "Vagrantfile.single"), timeout=TIMEOUT)
    shutil.rmtree(home.cache / f"moat-{sandbox}")
    if how == "gc":
        home.kill_daemon()
    assert home.domains()
    assert sandbox in home.ok(how, *([sandbox] if how == "rm" else []), timeout=TIMEOUT)
    home.wait_until_clean()


def test_a_vagrantfile_that_is_broken_by_then(home: VagrantHome) -> None:
    """Vagrant can do nothing with it, the provider's own tools can."""
    sandbox = home.ok("up", str(FILES / "Vagrantfile.single"), timeout=TIMEOUT)
    place = Path(home.sandbox(sandbox)["vms"][0]["place"])
    (place / "Vagrantfile").write_text("Vagrant.configure('2') do |config|\n")
    home.ok("rm", sandbox, timeout=TIMEOUT)
    home.wait_until_clean()


def test_machines_that_nothing_can_destroy(home: VagrantHome) -> None:
    """Nobody says that they are gone, until they are."""
    sandbox = home.ok("up", str(FILES / "Vagrantfile.single"), timeout=TIMEOUT)
    place = Path(home.sandbox(sandbox)["vms"][0]["place"])
    file = place / "Vagrantfile"
    good = file.read_text()
    file.write_text("Vagrant.configure('2') do |config|\n")
    (notes,) = (place.parent / "making").iterdir()
    name, uri = notes.read_text().splitlines()
    notes.write_text(f"{name}\nqemu:///nowhere\n")
    assert "default (libvirt" in home.fails("rm", sandbox, timeout=TIMEOUT)
    assert "default (libvirt" in home.fails("gc", timeout=TIMEOUT)
    assert home.domains() == [name]
    file.write_text(good)
    notes.write_text(f"{name}\n{uri}\n")
    assert sandbox in home.ok("gc", timeout=TIMEOUT)
    home.wait_until_clean()


BYSTANDER = """<domain type="qemu">
  <name>bystander</name>
  <memory unit="MiB">16</memory>
  <os><type>hvm</type></os>
</domain>
"""
NOBODY = "00000000-1111-4222-8333-444444444444"


def virsh(*words: str) -> str:
    done = subprocess.run(["virsh", "-q", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_id_that_names_somebody_else(home: VagrantHome, tmp_path: Path) -> None:
    """A guest may be able to write the file with the id: see docs/vagrant.md."""
    sandbox = home.ok("up", str(FILES / "Vagrantfile.single"), timeout=TIMEOUT)
    place = Path(home.sandbox(sandbox)["vms"][0]["place"])
    (place / "Vagrantfile").write_text("Vagrant.configure('2') do |config|\n")
    file = place / ".vagrant" / "machines" / "default" / "libvirt" / "id"
    virsh("define", write(tmp_path / "bystander.xml", BYSTANDER))
    virsh("start", "--paused", "bystander")
    try:
        for id_, why, command in (
            (virsh("domid", "bystander"), "no uuid", ["rm", sandbox]),
            (virsh("domuuid", "bystander"), "the domain bystander", ["gc"]),
        ):
            file.write_text(id_)
            message = home.fails(*command, timeout=TIMEOUT)
            assert f"default (libvirt, {id_}: " in message
            assert why in message
            assert virsh("domstate", "bystander") == "paused"
        file.write_text(NOBODY)
        home.ok("gc", timeout=TIMEOUT)
        assert home.domains() == ["bystander"]
    finally:
        virsh("destroy", "bystander")
        virsh("undefine", "bystander")
    home.wait_until_clean()


def test_doctor(home: VagrantHome) -> None:
    report = home.ok("doctor", "vagrant", timeout=TIMEOUT)
    assert "vagrant-libvirt" in report
    assert "libvirt" in report


@pytest.mark.parametrize("victim", ["daemon", "client", "vagrant"])
def test_a_kill_while_machines_are_made(home: VagrantHome, victim: str) -> None:
    client = home.start("up", str(FILES / "Vagrantfile.single"))
    home.wait_until(lambda: "Starting domain" in log_of(home), "it should have started")
    if victim == "daemon":
        home.kill_daemon()
    elif victim == "client":
        client.send_signal(signal.SIGKILL)
    else:
        for pid in vagrants(home):
            kill(pid)
    client.wait(TIMEOUT)
    assert client.returncode != 0
    home.ok("gc", timeout=TIMEOUT)  # the next daemon, if it was killed
    home.wait_until_clean()


def test_a_crash_when_a_secret_is_needed_to_destroy(home: VagrantHome, tmp_path: Path) -> None:
    """The secret is written down nowhere: gc takes it from the environment of its user.

    As with a cloud, nobody else may reach the machine: we tell a wrong place of libvirt.
    """
    needs = 'raise "no token" unless ENV["LAB_TOKEN"] == "sesame"\n'
    file = write(tmp_path / "Vagrantfile", needs + (FILES / "Vagrantfile.single").read_text())
    home.env["LAB_TOKEN"] = "sesame"
    try:
        sandbox = home.ok("up", file, timeout=TIMEOUT)
        (note,) = (Path(home.sandbox(sandbox)["vms"][0]["place"]).parent / "making").iterdir()
        note.write_text(f"{note.read_text().splitlines()[0]}\nqemu:///nowhere\n")
        home.kill_daemon()
        del home.env["LAB_TOKEN"]
        home.ok("serve", "--background")
        home.fails("gc", timeout=TIMEOUT)
        assert any(sandbox in name for name in home.domains())
        home.env["LAB_TOKEN"] = "sesame"
        assert sandbox in home.ok("gc", timeout=TIMEOUT)
    finally:
        home.env.pop("LAB_TOKEN", None)
    home.wait_until_clean()


@pytest.mark.parametrize("at", ["disk", "domain"])
@pytest.mark.parametrize("victim", ["daemon", "vagrant", "daemon and Vagrantfile"])
def test_a_kill_before_vagrant_has_written_down_what_it_made(
    home: VagrantHome, victim: str, at: str, tmp_path: Path
) -> None:
    paused = tmp_path / "paused"
    native = {
        "vagrantfile": str(FILES / "Vagrantfile.half"),
        "env": {"PAUSE_AT": at, "PAUSED": str(paused)},
    }
    spec = home.spec({"driver": "vagrant", "vms": [{}], "native": native})
    client = home.start("up", spec)
    home.wait_until(paused.exists, "it should have come so far")
    assert len(home.disks()) == 1
    assert len(home.domains()) == (at == "domain")
    if victim == "vagrant":
        for pid in vagrants(home):
            kill(pid)
    else:
        home.kill_daemon()
    assert client.wait(TIMEOUT) != 0
    if victim == "daemon and Vagrantfile":  # Vagrant can do nothing then
        (file,) = home.cache.glob("moat-*/moat-*/Vagrantfile")
        write(file, "Vagrant.configure('2') do |config|\n")
    home.ok("gc", timeout=TIMEOUT)
    home.wait_until_clean()


def test_interrupted_while_another_takes_the_box_in(home: VagrantHome) -> None:
    """Vagrant waits for the lock that this test holds, and gets an interrupt, as by Ctrl-C."""
    home.ok("serve", "--background")
    cache = Path(json.loads(home.ok("info", "--json"))["paths"]["cache"])
    path = cache / "vagrant" / "moat-test.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = re.compile(rf"-> FLOCK .*:{path.stat().st_ino} ")
        client = home.start(
            "up", str(FILES / "Vagrantfile.single"), stderr=subprocess.PIPE, text=True
        )
        home.wait_until(
            lambda: bool(waiting.search(Path("/proc/locks").read_text())), "it should wait"
        )
        for pid in vagrants(home):
            os.kill(pid, signal.SIGINT)
        _, said = client.communicate(timeout=TIMEOUT)
    assert client.returncode != 0
    assert "interrupt" in said
    home.wait_until_clean()


def test_interrupted_while_waiting_for_a_turn(home: VagrantHome) -> None:
    first = home.start("up", "--attach", str(FILES / "Vagrantfile.single"))
    home.wait_until(lambda: bool(vagrants(home)), "the first one should be going up")
    home.env["INSPECT_MAX_VAGRANT_STARTUPS"] = "1"
    try:
        second = home.start("up", str(FILES / "Vagrantfile.single"))
        home.wait_until(lambda: len(list(home.cache.iterdir())) == 2, "the second one should wait")
        assert len(vagrants(home)) == 1
        os.kill(second.pid, signal.SIGINT)
        assert second.wait(TIMEOUT) != 0
    finally:
        del home.env["INSPECT_MAX_VAGRANT_STARTUPS"]
    first.send_signal(signal.SIGINT)
    first.wait(TIMEOUT)
    home.wait_until_clean()
