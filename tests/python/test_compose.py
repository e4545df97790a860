"""Compose files, Dockerfiles and `ComposeConfig` as configurations of `moat`.

What the daemon makes of files is tested with the daemon. Nothing is started here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.util import ComposeConfig, ComposeService
from inspect_ai.util._sandbox.environment import set_sandbox_prebuilt

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig
from inspect_moat._compose import ComposeFile, compose_file, is_compose_file
from inspect_moat._connect import connect
from inspect_moat._inspect_private import PrerequisiteError
from inspect_moat._wire import Message
from real_daemon import Moat, daemon
from rogue_daemon import Peer, rogue_daemon

pytestmark = pytest.mark.anyio

TWO = """
services:
  target_env: {image: "victim:${SAMPLE_METADATA_TASK_NAME:-none}", networks: [inner]}
  attacker:
    image: attacker
    x-default: true
    init: true
    networks: [inner, default]
networks: {inner: {internal: true}}
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def moat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moat]:
    with daemon(str(tmp_path_factory.mktemp("data"))) as client:
        yield client


@pytest.fixture(autouse=True)
def settings(moat: Moat, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in moat.settings.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def two(tmp_path: Path) -> str:
    file = tmp_path / "compose.yaml"
    file.write_text(TWO)
    return str(file)


def parsed(config: Any) -> ComposeFile:
    found = MoatSandboxEnvironment.parse_config(config)
    assert isinstance(found, ComposeFile)
    return found


async def spec_of(config: Any, **metadata: Any) -> dict[str, Any]:
    return await parsed(config).ask_spec(await connect(), metadata)


def test_its_own_files_come_first() -> None:
    files = MoatSandboxEnvironment.config_files()
    assert files.index("moat.json") < files.index("compose.yaml") < files.index("Dockerfile")
    assert MoatSandboxEnvironment.is_docker_compatible()


@pytest.mark.parametrize(
    ("name", "text", "is_compose"),
    [
        ("Dockerfile", "", True),
        ("web.Dockerfile", "", True),
        ("Dockerfile.web", "", True),
        ("compose.yml", "nonsense: [", True),
        ("ctf-compose.yaml", "", True),
        ("lab.compose.yaml", "", True),
        ("lab.yaml", "services: {a: {image: b}}", True),
        ("lab.json", '{"services": {}}', True),
        ("lab.yaml", "vms: [{source: a}]", False),
        ("lab.yaml", "nonsense: [", False),
        ("moat.yaml", "vms: []\nservices: {}", False),
        ("decompose.yaml", "a: b", False),
    ],
)
def test_which_files_are_compose_files(
    tmp_path: Path, name: str, text: str, is_compose: bool
) -> None:
    (tmp_path / name).write_text(text)
    assert is_compose_file(str(tmp_path / name)) is is_compose


async def test_a_file_and_its_services(two: str) -> None:
    file = parsed(two)
    spec = await file.ask_spec(await connect(), {"task name": "web", "other": "x"})
    assert [vm["name"] for vm in spec["vms"]] == ["attacker", "target-env"]
    assert spec["vms"][1]["source"] == {"oci": "victim:web"}
    vms = [{"name": "target-env"}, {"name": "attacker"}]
    assert list(file.name_services(vms)) == ["attacker", "target_env"]
    environments = MoatSandboxEnvironment._environments(await connect(), "sb-1", vms, file)
    assert list(environments) == ["attacker", "target_env"]
    target = environments["target_env"]
    assert isinstance(target, MoatSandboxEnvironment)
    assert target.vm_name == "target-env"


async def test_a_sample(two: str, runtime_dir: Path) -> None:
    """From the file to the environments, as Inspect asks for them."""
    vms = [{"name": "attacker", "default": True}, {"name": "target-env"}]
    told = {
        "spec": {"vms": [], "networks": "none"},
        "accepted": [],
        "networks": {},
        "services": {"target_env": "target-env", "attacker": "attacker"},
        "default": "attacker",
    }

    async def answer(peer: Peer, message: Message) -> None:
        result: dict[str, dict[str, Any]] = {
            "compose": told,
            "up": {"sandbox": "3f9a1c20", "vms": vms},
        }
        await peer.result(message["id"], **result.get(message["op"], {}))

    async with rogue_daemon(runtime_dir, answer) as daemon:
        environments = await MoatSandboxEnvironment.sample_init(
            "t", two, {"__sample_id__": "7", "task name": "web"}
        )
        (asked,) = daemon.requests("compose")
        assert asked["args"]["env"]["SAMPLE_METADATA_TASK_NAME"] == "web"
        assert asked["args"]["path"] == two
        (up,) = daemon.requests("up")
        assert up["args"]["spec"] == told["spec"]
        assert "access" not in up["args"]
        assert list(environments) == ["attacker", "target_env"]
        await MoatSandboxEnvironment.sample_cleanup("t", two, environments, False)
        await MoatSandboxEnvironment.task_cleanup("shutdown", two, True)


async def test_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:12\n")
    (vm,) = (spec := await spec_of(str(tmp_path / "Dockerfile")))["vms"]
    assert vm["source"]["dockerfile"]["context"] == str(tmp_path)
    assert vm["service"]["command"] == ["tail", "-f", "/dev/null"]
    assert (vm["nics"], spec["networks"]) == ([], "none")


async def test_a_config_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    service = ComposeService.model_validate({"build": "web", "x-default": True, "mem_limit": "1g"})
    config = ComposeConfig(services={"web": service, "db": ComposeService(image="db")})
    web, db = (await spec_of(config))["vms"]
    assert web["source"]["dockerfile"]["context"] == str(tmp_path / "web")
    assert web["ram_mb"] == 1024
    assert db["source"] == {"oci": "db"}


async def test_a_specification_stays_one(tmp_path: Path) -> None:
    (tmp_path / "moat.yaml").write_text("vms: [{source: debian12}]")
    config = MoatSandboxEnvironment.parse_config(str(tmp_path / "moat.yaml"))
    assert isinstance(config, MoatSandboxEnvironmentConfig)
    assert compose_file(config, "/") is None
    assert compose_file(None, "/") is None


async def test_samples_with_images_of_their_own(two: str, tmp_path: Path) -> None:
    init = MoatSandboxEnvironment.task_init_environment
    assert await init(two, {"task name": "web"}) == {"SAMPLE_METADATA_TASK_NAME": "web"}
    assert await init(two, {"other": "web"}) == {}
    variable = tmp_path / "variable-compose.yaml"
    variable.write_text('services: {a: {image: b, environment: ["A=${SAMPLE_METADATA_X}"]}}')
    assert await init(str(variable), {"x": "y"}) == {}
    (vm,) = (await spec_of(str(variable), x="y"))["vms"]
    assert vm["service"]["environment"] == {"A": "y"}


async def test_nothing_is_built_where_all_is_prebuilt(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {a: {image: b, build: .}}")
    set_sandbox_prebuilt(True)
    try:
        assert (await spec_of(str(file)))["vms"][0]["source"] == {"oci": "b"}
        file.write_text("services: {a: {build: .}}")
        with pytest.raises(PrerequisiteError, match=r"services\.a\.build: nothing is to be built"):
            await MoatSandboxEnvironment.task_init("startup", str(file))
    finally:
        set_sandbox_prebuilt(False)


async def test_an_eval_shows_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {a: {image: b, gpus: all}}")
    with pytest.raises(PrerequisiteError) as caught:
        await MoatSandboxEnvironment.task_init("startup", str(file))
    assert str(caught.value).startswith(f"sandbox moat: {file}: services.a.gpus: VMs have no GPU")


async def test_the_log_says_where_networks_lead(
    two: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spec_of(two)
    assert f"{two}: network inner: closed" in caplog.messages
    assert any(line.startswith(f"{two}: network default: open") for line in caplog.messages)
    assert any("1 members have no effect" in line for line in caplog.messages)
    caplog.clear()
    monkeypatch.setenv("MOAT_COMPOSE_EGRESS", "deny")
    spec = await spec_of(two)
    assert {vnet["egress"] for vnet in spec["networks"]["vnets"]} == {"deny"}
    assert f"{two}: network default: closed" in caplog.messages
