"""Evals for the older plugin run as they are, through the `inspect` command, on a test server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import upstream_evals
from inspect_ai import eval as run_eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from lives import WAIT_SECONDS, fill, named
from server import PveServer

from driver import Mirror, left, make_ova, unpack_ovas

ROUTER = Path(__file__).parents[2] / "examples" / "proxmox_router.yaml"
EVALS = Path(upstream_evals.__file__)
TASKS = (
    "default_config",
    "static_ips",
    "two_vnets",
    "from_an_ova",
    "from_a_template",
    "no_network",
    "attacker_and_victim",
)
OWN = ("zones", "vnets", "subnets", "running", "ipam", "uploads")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PveServer]:
    """A server, and an environment that names it and a moat of our own."""
    folder = Path(str(tmp_path_factory.mktemp("m")))
    make_ova(folder / "machine.ova")
    server = PveServer(vms="container", time_scale=0.05, task_time=0.02, rollback_hold=0)
    with server, Mirror() as mirror:
        fill(server)
        unpack_ovas(server)
        (folder / "home").mkdir()
        (folder / "home" / "config.yaml").write_text(f"image_mirror: {mirror.url}\n")
        with named(server, folder / "home"):
            os.environ["EXAMPLE_OVA"] = str(folder / "machine.ova")
            yield server


def made(server: PveServer) -> dict[str, Any]:
    """What an eval must not leave: anything but templates."""
    state = left(server)
    vms = [vmid for vmid, vm in server.state()["vms"].items() if not vm["template"]]
    return {**{name: state[name] for name in OWN}, "vms": vms}


def test_they_run_unchanged(shop: PveServer, tmp_path: Path) -> None:
    before = made(shop)
    words = [sys.executable, "-m", "inspect_ai", "eval", *(f"{EVALS.name}@{t}" for t in TASKS)]
    words += ["--model", "mockllm/model", "--display", "plain", "--log-format", "json"]
    done = subprocess.run(
        [*words, "--log-dir", str(tmp_path), "--max-tasks", "4"],
        cwd=EVALS.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * WAIT_SECONDS,
        check=False,
    )
    logs = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    told = {log["eval"]["task"].rsplit("/")[-1]: log for log in logs}
    wrong = {name: log.get("error") for name, log in told.items() if log["status"] != "success"}
    assert (sorted(told), wrong) == (sorted(TASKS), {}), done.stdout + done.stderr
    scores = {
        name: log["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        for name, log in told.items()
    }
    assert scores == dict.fromkeys(TASKS, 1.0)
    assert made(shop) == before


def call(tool: str, **arguments: str) -> ModelOutput:
    output = ModelOutput.for_tool_call("mockllm/model", tool, arguments)
    output.usage = ModelUsage()  # otherwise tokens are counted, by tables from the network
    return output


def test_a_model_saves_and_goes_back(shop: PveServer, tmp_path: Path) -> None:
    before = made(shop)
    outputs = [
        call("bash", command="echo first >/root/file"),
        call("save_point", name="start"),
        call("bash", command="echo second >/root/file"),
        call("go_back", name="start"),
        call("bash", command="cat /root/file"),
        call("submit", answer="42"),
    ]
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = upstream_evals.snapshot_tools()
    (log,) = run_eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert log.samples is not None
    told = [message for message in log.samples[0].messages if message.role == "tool"]
    assert [message.error for message in told if message.error] == []
    said = [message.text for message in told]
    assert said == ["", "saved start", "", "back at start", "first\n", "42"], said
    assert made(shop) == before


def test_a_router_that_gives_the_addresses(shop: PveServer) -> None:
    """The server gives none in its network, where it names no other gateway than its own."""
    for vmid, tag in ((140, "opnsense"), (141, "kali")):
        disk = {"scsi0": f"local-lvm:base-{vmid}-disk-0,size=1G", "agent": "1", "serial0": "socket"}
        shop.control("add_vm", vmid=vmid, template=True, config={"tags": f"inspect;{tag}", **disk})
    before = made(shop)
    moat = os.environ["MOAT_BIN"]
    done = subprocess.run([moat, "up", ROUTER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state = shop.state()
    aliases = {name: vnet.get("alias", "").split(" ")[0] for name, vnet in state["vnets"].items()}
    (inside,) = [name for name, alias in aliases.items() if alias == "inside"]
    assert inside not in {subnet["vnet"] for subnet in state["subnets"].values()}
    cards = {
        vm["config"]["name"]: [
            aliases.get(part.removeprefix("bridge="))
            for number in ("net0", "net1")
            for part in vm["config"].get(number, "").split(",")
            if part.startswith("bridge=")
        ]
        for vm in state["vms"].values()
        if vm["config"].get("name") in ("router", "attacker")
    }
    assert cards == {"router": ["outside", "inside"], "attacker": ["inside"]}
    subprocess.run([moat, "rm", done.stdout.strip()], check=True)
    assert made(shop) == before


def test_a_victim_that_is_an_ova(shop: PveServer, tmp_path: Path) -> None:
    before = made(shop)
    words = [sys.executable, "-m", "inspect_ai", "eval", "proxmox_ctf.py"]
    words += ["-T", f"victim={os.environ['EXAMPLE_OVA']}", "--model", "mockllm/model"]
    done = subprocess.run(
        [*words, "--display", "plain", "--log-format", "json", "--log-dir", str(tmp_path)],
        cwd=ROUTER.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * WAIT_SECONDS,
        check=False,
    )
    (log,) = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert log["status"] == "success", done.stdout + done.stderr
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0
    assert made(shop) == before
