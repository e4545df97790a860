"""A Proxmox VE server of one's own: built, started, named to a shell, and a sandbox made in it.

The packages are ours, of the vendor's names: they start the test server.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from disks import tool
from home import TINY, Home
from mirror import Key, Mirror
from packages import write_repository

sys.path.append(str(Path(__file__).parents[1] / "proxmox"))

from client import Client

NAME = "proxmox8"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Mirror, bytes]]:
    """It, and the key that signs it."""
    folder = tmp_path_factory.mktemp("repository")
    key = Key(folder / "key")
    write_repository(folder / "served", key)
    mirror = Mirror(folder / "served")
    yield mirror, key.public()
    mirror.close()
    key.close()


@pytest.fixture
def home(images: None, repository: tuple[Mirror, bytes], tmp_path: Path) -> Iterator[Home]:
    """A home with images of its own: hard links to the common ones."""
    mirror, public = repository
    made = Home(f"idle_exit: 0\nproxmox_repository: {mirror.url}\n")
    common, data = Path(made.env["MOAT_DATA_DIR"]) / "images", tmp_path / "data"
    (data / "recipes" / "keys").mkdir(parents=True)
    (data / "recipes" / "keys" / "proxmox.asc").write_bytes(public)
    tool("cp", "-rl", common, data)
    shutil.rmtree(data / "images" / "names")
    shutil.copytree(common / "names", data / "images" / "names")
    made.env["MOAT_DATA_DIR"] = str(data)
    yield made
    made.close()


def variables(home: Home, sandbox: str) -> dict[str, str]:
    """What a shell has after eval "$(moat proxmox env SANDBOX)"."""
    printed = home.ok("proxmox", "env", sandbox, timeout=1200)
    shell = tool("env", "-i", "sh", "-c", f'{printed}\nenv | grep "^PROXMOX_"')
    return dict(line.split("=", 1) for line in shell.splitlines())


def add_template(env: dict[str, str], node: str, certificate: Path) -> None:
    """As somebody would who prepares the server for his sandboxes. Windows: a VM of that server is
    nothing but an agent, which plays a little of Windows and nothing of Linux."""
    user = f"{env['PROXMOX_USER']}@{env['PROXMOX_REALM']}"
    where = SimpleNamespace(
        host=env["PROXMOX_HOST"],
        port=int(env["PROXMOX_PORT"]),
        certificate=str(certificate),
        user=user,
        password=env["PROXMOX_PASSWORD"],
    )
    client = Client(where)  # type: ignore[arg-type]
    wanted: dict[str, Any] = {
        "vmid": 900,
        "agent": "1",
        "tags": "inspect;lab",
        "memory": 256,
        "scsi0": "local:1",
    }
    wanted["ostype"] = "win11"
    assert client.task("POST", f"/nodes/{node}/qemu", wanted) == "OK"
    assert client.task("POST", f"/nodes/{node}/qemu/900/template") == "OK"


def test_from_the_build_to_a_sandbox_in_it(home: Home, tmp_path: Path) -> None:
    built = home.run("image", "build", NAME, timeout=1200)
    assert (built.returncode, built.stdout) == (0, f"{NAME}\n"), built.stderr
    password = built.stderr.split("root's password in it is ")[1].split()[0]
    again = home.run("image", "build", NAME)
    assert (again.returncode, again.stderr) == (0, "")  # it is there, and says nothing twice
    log = Path(home.env["MOAT_DATA_DIR"]) / "images" / "log" / f"{NAME}.log"
    assert password not in log.read_text()

    spec = {"vms": [{"source": NAME, "ram_mb": 1024, "vcpus": 1, "warm": False}]}
    sandbox = home.ok("up", home.spec(spec), timeout=1200)
    env = variables(home, sandbox)
    assert (env["PROXMOX_NODE"], env["PROXMOX_PASSWORD"]) == (NAME, password)

    def inside(script: str) -> str:
        return home.ok("exec", "-u", "root", sandbox, "--", "sh", "-c", script)

    hashed = "import crypt, spwd; h = spwd.getspnam('root').sp_pwdp"
    checked = f"{hashed}; print(crypt.crypt('{password}', h) == h)"
    assert inside(f'python3 -W ignore -c "{checked}"') == "True"
    named = inside("hostname; systemctl is-enabled dnsmasq || true")
    assert named.split() == [NAME, "disabled"]
    assert inside("stat -c %a /etc /etc/moat-proxmox /etc/moat-proxmox/password").split() == [
        "755",
        "700",
        "600",
    ]
    assert inside("ls / /etc/apt/sources.list.d | grep -e install_mode -e enterprise || true") == ""

    home.env |= env
    told = json.loads(home.ok("doctor", "proxmox", "--json", timeout=300))
    checks = {check["name"]: check["state"] for check in told["checks"]}
    for name in ("login", "certificate", "privileges", "node", "storage", "iso", "import"):
        assert checks[name] == "ok", told
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(inside("cat /etc/pve/local/pveproxy-ssl.pem"))
    add_template(env, NAME, certificate)
    vm = {"source": {"existing_vm_template_tag": "lab"}, "ram_mb": 256, "vcpus": 1}
    nested = home.ok("up", home.spec({"driver": "proxmox", "vms": [vm]}), timeout=600)
    assert home.ok("exec", nested, "whoami", timeout=600) == "nt authority\\system"
    pool = json.loads(home.ok("proxmox", "env", "--json", sandbox))
    (server,) = pool["instances"]
    assert (server["instance_id"], server["port"]) == (sandbox, int(env["PROXMOX_PORT"]))
    home.ok("rm", nested, timeout=600)
    home.ok("rm", sandbox)


def test_what_is_no_server(home: Home) -> None:
    sandbox = home.up(TINY)
    error = home.fails("proxmox", "env", sandbox)
    assert "is no Proxmox VE server of `moat image build proxmox9`" in error
    # What the guest says of itself goes to a shell: nothing in it may mean something there.
    place = "/usr/share/moat-proxmox"
    lie = f"mkdir -p {place}; echo \"echo 'node=a;reboot'\" >{place}/facts.sh"
    home.ok("exec", "-u", "root", sandbox, "--", "sh", "-c", lie)
    failed = home.run("proxmox", "env", sandbox)
    assert (failed.returncode != 0, failed.stdout) == (True, "")
    assert "node= is not what one is made of" in failed.stderr
    home.ok("rm", sandbox)


def test_a_repository_of_somebody_else(home: Home, tmp_path: Path) -> None:
    """Its packages are not taken."""
    other = Key(tmp_path / "other")
    keys = Path(home.env["MOAT_DATA_DIR"]) / "recipes" / "keys"
    (keys / "proxmox.asc").write_bytes(other.public())
    other.close()
    error = home.fails("image", "build", NAME, timeout=600)
    assert "installing packages failed" in error
    assert NAME not in home.ok("image", "ls", "--names").split()
