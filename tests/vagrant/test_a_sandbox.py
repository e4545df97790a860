"""One sandbox of two Vagrant machines, used in every way."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403
from vagrant_home import TIMEOUT, VagrantHome

from inspect_moat import VagrantSandboxEnvironment
from inspect_moat._connect import connect

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def sandbox_env(home: VagrantHome, lab: str) -> SandboxEnvironment:
    """What Inspect's own checks, imported above, run in: commands run as the user `vagrant`."""
    return VagrantSandboxEnvironment(await connect(), lab, "attacker")


def test_machines_by_name_the_default_one_first(home: VagrantHome, lab: str) -> None:
    sandbox = home.sandbox(lab)
    assert sandbox["driver"] == "vagrant"
    assert [vm["name"] for vm in sandbox["vms"]] == ["attacker", "web"]
    assert [vm["default"] for vm in sandbox["vms"]] == [True, False]
    assert {vm["user"] for vm in sandbox["vms"]} == {"vagrant"}
    assert {vm["way"] for vm in sandbox["vms"]} == {"runner"}
    # the suffix, which the Vagrantfile used, is Vagrant's business
    assert [vm["known_as"] for vm in sandbox["vms"]] == [f"attacker-{lab}", f"web-{lab}"]
    assert lab in home.ok("ls")


def test_commands(home: VagrantHome, lab: str) -> None:
    assert home.exec(lab, "whoami") == "vagrant"
    assert home.exec(lab, "pwd") == "/home/vagrant"
    assert home.ok("exec", "-u", "root", lab, "--", "id", "-u") == "0"
    assert home.ok("exec", "-u", "nobody", lab, "--", "whoami") == "nobody"
    shown = home.ok("exec", "-w", "/usr", "-e", "A=b c", lab, "--", "sh", "-c", 'pwd; echo "$A"')
    assert shown == "/usr\nb c"
    assert home.run("exec", lab, "--", "sh", "-c", "exit 70").returncode == 70
    assert home.run("exec", lab, "--", "no-such-program").returncode == 127
    content = bytes(range(256)) * 4096
    done = home.run("exec", "-i", lab, "--", "cat", input=content, text=False, timeout=TIMEOUT)
    assert done.stdout == content


def test_files(home: VagrantHome, lab: str, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "there").write_bytes(content)
    home.ok("cp", str(tmp_path / "there"), f"{lab}:/tmp/x", timeout=TIMEOUT)
    home.ok("cp", f"{lab}:/tmp/x", str(tmp_path / "back"), timeout=TIMEOUT)
    assert (tmp_path / "back").read_bytes() == content


def test_many_commands_at_once(home: VagrantHome, lab: str) -> None:
    with ThreadPoolExecutor(16) as pool:
        outputs = pool.map(lambda n: home.exec(lab, "echo", str(n)), range(40))
    assert list(outputs) == [str(n) for n in range(40)]


def test_one_machine_attacks_the_other(home: VagrantHome, lab: str) -> None:
    """The flag came from the environment of this sandbox alone."""
    lines = home.exec(lab, "ip", "-4", "-o", "addr", "show", "dev", "eth0", vm="web")
    address = lines.split()[3].split("/")[0]
    assert home.exec(lab, "wget", "-qO-", f"http://{address}:8080/flag") == "first"


def test_vagrant_itself_still_works(home: VagrantHome, lab: str) -> None:
    vm = home.sandbox(lab)["vms"][0]
    done = subprocess.run(
        ["vagrant", "ssh", vm["known_as"], "-c", "echo $((6 * 7))"],
        env={**os.environ, "VAGRANT_CWD": vm["place"], "INSPECT_VM_SUFFIX": f"-{lab}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.stdout.strip() == "42", done.stderr
    assert "Machine booted and ready" in home.ok("logs", lab)


def test_what_vagrant_may_share_with_guests(home: VagrantHome, lab: str) -> None:
    """Guests may see the directory of the Vagrantfile: nothing else is in there."""
    place = Path(home.sandbox(lab)["vms"][0]["place"])
    assert {path.name for path in place.iterdir()} == {
        ".vagrant",
        "Vagrantfile",
        "Vagrantfile.moat",
    }
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert b"VAGRANT_HOME=" in (place.parent / "env").read_bytes()


async def test_connection(sandbox_env: SandboxEnvironment, lab: str) -> None:
    assert isinstance(sandbox_env, VagrantSandboxEnvironment)
    assert (await sandbox_env.connection()).command.endswith(f"shell --vm attacker {lab}")
    command = await sandbox_env.vagrant_ssh_command()
    assert command.endswith(f"vagrant ssh attacker-{lab}")
    assert f"/moat-{lab}" in command
    with anyio.fail_after(TIMEOUT):
        done = await anyio.run_process(["sh", "-c", command], input=b"whoami\n", check=False)
    assert b"vagrant" in done.stdout.splitlines(), done.stderr


async def test_ssh_and_vs_code(
    home: VagrantHome, sandbox_env: SandboxEnvironment, lab: str, tmp_path: Path
) -> None:
    """The name that VS Code is told is one that ssh knows, by a line in its configuration."""
    window = (await sandbox_env.connection()).vscode_command
    assert window == ["opensshremotes.openEmptyWindow", {"host": f"moat-{lab}-attacker"}]
    assert (await sandbox_env.connection(user="root")).vscode_command is None
    config = tmp_path / "config"
    config.write_text(f"Include {home.cache}/moat-*/ssh/*\n")
    for machine in ("attacker", "web"):
        command = ["ssh", "-F", str(config), "-o", "BatchMode=yes", f"moat-{lab}-{machine}"]
        with anyio.fail_after(TIMEOUT):
            done = await anyio.run_process([*command, "whoami"], check=False)
        assert done.stdout == b"vagrant\n", done.stderr


def cut_connection(home: VagrantHome, lab: str, user: str) -> None:
    cut = "ps | awk '/[s]shd[a-z-]*: vagrant/ { print $1 }' | xargs kill"
    home.run("exec", "-u", user, lab, "--", "sh", "-c", cut, timeout=TIMEOUT)


def test_a_lost_connection_is_made_again(home: VagrantHome, lab: str) -> None:
    """The new connection has another key than the first: see `insert_key` in Vagrantfile.lab."""
    place = Path(home.sandbox(lab)["vms"][0]["place"])
    assert "insecure" not in (place.parent / "ssh" / f"moat-{lab}-attacker").read_text()
    slow = home.start("exec", lab, "--", "sleep", "1000")
    home.wait_until(lambda: "sleep 1000" in home.exec(lab, "ps"), "the command should run")
    cut_connection(home, lab, "root")
    assert slow.wait(TIMEOUT) != 0
    assert home.exec(lab, "echo", "again") == "again"


def test_a_user_without_sudo(home: VagrantHome, lab: str) -> None:
    """Commands run as that user, and cannot run as any other."""
    back = "until [ -e /tmp/back ]; do sleep 1; done; mv /etc/away /etc/sudoers"
    away = f"mv /etc/sudoers /etc/away; ({back}) &"
    home.ok("exec", "-u", "root", lab, "--", "sh", "-c", away, timeout=TIMEOUT)
    cut_connection(home, lab, "root")
    assert home.exec(lab, "whoami") == "vagrant"
    assert "root" in home.fails("exec", "-u", "root", lab, "--", "true", timeout=TIMEOUT)
    home.exec(lab, "sh", "-c", "touch /tmp/back; until sudo -n true; do sleep 1; done")
    cut_connection(home, lab, "vagrant")
    assert home.ok("exec", "-u", "root", lab, "--", "whoami", timeout=TIMEOUT) == "root"


def test_snapshots(home: VagrantHome, lab: str) -> None:
    home.exec(lab, "sh", "-c", "echo before >/tmp/state")
    home.ok("snapshot", lab, "one", timeout=TIMEOUT)
    home.exec(lab, "sh", "-c", "echo after >/tmp/state")
    home.ok("restore", lab, "one", timeout=TIMEOUT)
    assert home.exec(lab, "cat", "/tmp/state") == "before"
    guest, here = int(home.exec(lab, "date", "+%s")), time.time()
    assert abs(guest - here) < 60
    assert "nosuch" in home.fails("restore", lab, "nosuch", timeout=TIMEOUT)


def test_another_host_key_is_another_machine(home: VagrantHome, lab: str) -> None:
    change = (
        "cd /etc/ssh && mv host_key keep && mv host_key.pub keep.pub && "
        "ssh-keygen -q -t ed25519 -N '' -f host_key && "
        "ps | awk '/[s]shd/ { print $1 }' | xargs kill"
    )
    home.run("exec", "--vm", "web", "-u", "root", lab, "--", "sh", "-c", change, timeout=TIMEOUT)
    done = home.run("exec", "--vm", "web", "--timeout", "60", lab, "--", "true", timeout=TIMEOUT)
    assert done.returncode != 0
    assert "host key" in done.stderr


def test_a_machine_that_was_shut_down(home: VagrantHome, lab: str) -> None:
    domain = next(name for name in home.domains() if f"attacker-{lab}" in name)
    subprocess.run(["virsh", "-q", "destroy", domain], check=True)
    home.run("exec", lab, "--", "true", timeout=TIMEOUT)  # may be the one that notices
    message = home.fails("exec", lab, "--", "true", timeout=TIMEOUT)
    assert "not running" in message
    assert home.sandbox(lab)["vms"][0]["state"] == "dead"
    home.ok("restore", lab, "one", timeout=TIMEOUT)  # of test_snapshots
    assert home.exec(lab, "cat", "/tmp/state") == "before"
    assert home.sandbox(lab)["vms"][0]["state"] == "running"
