"""The Python package and `moat up` say the same of a specification, right or wrong.

Python's classes refuse what has another type or name than the specification knows; all else the
daemon is asked about. Nothing is made, so no VM is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from inspect_ai._util.error import PrerequisiteError
from pydantic import BaseModel, ValidationError
from spec_maker import SpecMaker

from inspect_moat import MoatSandboxEnvironment, MoatSandboxEnvironmentConfig, _config
from inspect_moat._connect import connect
from inspect_moat._errors import MoatError
from inspect_moat._sandbox_requests import validate_spec
from proxmoxsandbox.schema import ProxmoxSandboxEnvironmentConfig
from real_daemon import REPOSITORY, Moat, daemon

pytestmark = pytest.mark.anyio

GOLDEN = REPOSITORY / "tests" / "golden" / "spec"
SEEDS = range(8)
RIGHT, BROKEN = 20, 130  # specifications for each seed

RECIPE = """#!/bin/sh
echo x >"$1/kernel"
echo x >"$1/initrd"
cat >"$1/manifest.json" <<END
{"format":1,"arch":"x86_64","kernel":"kernel","initrd":"initrd","cloud_init":true,"user":"root"}
END
"""

VM = {"source": "mine"}
MODELS: dict[str, type[BaseModel]] = {
    "": MoatSandboxEnvironmentConfig,
    "bind": _config.Bind,
    "cloud_init": _config.CloudInit,
    "depends_on": _config.DependsOn,
    "dhcp_range": _config.DhcpRange,
    "dockerfile": _config.Dockerfile,
    "egress": _config.Egress,
    "egress_allow": _config.EgressAllow,
    "file": _config.GuestFile,
    "forward": _config.Forward,
    "healthcheck": _config.HealthCheck,
    "networks": _config.Networks,
    "nic": _config.VmNic,
    "service": _config.Service,
    "source": _config.VmSource,
    "subnet": _config.Subnet,
    "tmpfs": _config.Tmpfs,
    "vm": _config.VmConfig,
    "vnet": _config.Vnet,
}
BY_TYPE = "by type: "

# The errors of pydantic that are about a type or a name.
TYPES_AND_NAMES = {
    "bool_type", "dict_type", "extra_forbidden", "finite_number", "float_type", "int_type",
    "greater_than_equal", "less_than", "literal_error", "missing", "model_attributes_type",
    "model_type", "path_type", "string_type", "tuple_type",
}  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def moat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moat]:
    """A daemon with an image that can be asked for, but not started."""
    data = tmp_path_factory.mktemp("data")
    (data / "recipes").mkdir()
    (data / "recipes" / "mine.sh").write_text(RECIPE)
    with daemon(str(data)) as client:
        client.image("mine")
        yield client


@pytest.fixture(scope="module")
def schema(moat: Moat) -> dict[str, Any]:
    found = json.loads(moat.run("schema").stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def settings(moat: Moat, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in moat.settings.items():
        monkeypatch.setenv(name, value)


def moat_says(moat: Moat, spec: Any) -> str | None:
    """What `moat up --check` has against a specification."""
    return checked(moat, "-", json.dumps(spec))


def checked(moat: Moat, file: str, text: str = "") -> str | None:
    done = moat.run("up", "--check", file, input=text)
    return None if done.returncode == 0 else done.stderr.strip().removeprefix("moat: ")


async def python_says(specs: list[Any]) -> list[str | None]:
    """What the Python package has against specifications."""
    connection = await connect()

    async def one(spec: Any) -> str | None:
        try:
            config = MoatSandboxEnvironmentConfig.model_validate(spec)
        except ValidationError as ex:
            rules = {item["type"] for item in ex.errors()} - TYPES_AND_NAMES
            return f"a rule in Python: {ex}" if rules else f"{BY_TYPE}{ex}"
        try:
            await validate_spec(connection, config.to_spec())
        except MoatError as ex:
            return ex.message
        return None

    return [await one(spec) for spec in specs]


def in_short(said: str) -> str:
    """A text for a source is an image, and Python has made it one."""
    return said.replace(".source.image: ", ".source: ")


def assert_same(spec: Any, of_moat: str | None, of_python: str | None) -> str:
    """Returns who refused it."""
    what = f"{json.dumps(spec)}\nmoat: {of_moat}\nPython: {of_python}"
    assert (of_moat is None) == (of_python is None), what
    if of_python is None:
        return "nobody"
    if of_python.startswith(BY_TYPE):
        return "Python"
    assert in_short(of_python) == in_short(of_moat or ""), what
    return "the daemon"


@pytest.mark.parametrize("seed", SEEDS)
async def test_generated_specifications(moat: Moat, schema: dict[str, Any], seed: int) -> None:
    maker = SpecMaker(schema, seed)
    specs = [maker.right() for _ in range(RIGHT)] + [maker.broken() for _ in range(BROKEN)]
    with ThreadPoolExecutor(4) as threads:
        of_moat = list(threads.map(lambda spec: moat_says(moat, spec), specs))
    of_python = await python_says(specs)
    refused: Counter[str] = Counter()
    for spec, *said in zip(specs, of_moat, of_python, strict=True):
        refused[assert_same(spec, *said)] += 1
    assert of_moat[:RIGHT] == [None] * RIGHT, "a specification that should be right"
    assert min(refused[who] for who in ("nobody", "the daemon", "Python")) >= 5


@pytest.mark.parametrize(
    ("spec", "verdict"),
    [
        ({"vms": [VM, {**VM, "name": "web", "depends_on": ["Default"]}]}, None),
        ({"vms": [{**VM, "ram_mb": 2048.0, "vcpus": None, "nics": None, "user": 1000}]}, None),
        ({"vms": [{**VM, "nics": [{"vnet": "default", "mac": "5254.0012.34aB"}]}]}, None),
        ({"vms": [{**VM, "ram_mb": 10**30}]}, BY_TYPE),
        ({"vms": [{**VM, "ram_mb": "2048"}]}, BY_TYPE),
        ({"vms": [{**VM, "vcpus": True}]}, BY_TYPE),
        ({"vms": [{**VM, "tablet": 1}]}, BY_TYPE),
        ({"vms": [{**VM, "user": True}]}, BY_TYPE),
        ({"vms": [VM], "native": None, "networks": None}, None),
        ({"vms": None}, BY_TYPE),
        ({"vms": []}, "vms: is empty"),
        ({"vms": [VM, VM]}, "vms[1].name: is missing; only the first sandbox VM may go without"),
        (
            {"vms": [{**VM, "source": {"image": "mine", "ova": "/bin/sh"}}]},
            "vms[0].source: exactly one of its members must be given, not 2",
        ),
        (
            {"vms": [{**VM, "healthcheck": {"test": ["true"], "interval": 0.05}}]},
            "vms[0].healthcheck.interval: 0.05 is not between 0.1 and 3600",
        ),
    ],
)
async def test_specifications_that_were_judged_differently(
    moat: Moat, spec: dict[str, Any], verdict: str | None
) -> None:
    of_moat = moat_says(moat, spec)
    (of_python,) = await python_says([spec])
    assert_same(spec, of_moat, of_python)
    if verdict == BY_TYPE:
        assert of_python is not None
        assert of_python.startswith(BY_TYPE)
    else:
        assert of_python == verdict


def golden() -> list[str]:
    """The files of the tests of `moat` itself."""
    files = [file.name for file in GOLDEN.iterdir() if file.suffix in (".yaml", ".json")]
    assert len(files) > 100
    # In Python Vagrant has a provider of its own, VMs have a default, and paths may be relative.
    differ = {
        "valid-vagrant.yaml",
        "bad-no-vms.yaml",
        "bad-source-ova.yaml",
        "bad-cdrom.yaml",
        "bad-dockerfile-context.yaml",
        "bad-service-bind.yaml",
    }
    assert differ < {*files}
    return sorted({*files} - differ)


@pytest.mark.parametrize("name", golden())
async def test_files(moat: Moat, name: str) -> None:
    of_moat = checked(moat, str(GOLDEN / name))
    assert_same(name, of_moat, await python_says_of_file(GOLDEN / name))


async def python_says_of_file(file: Path) -> str | None:
    try:
        spec = MoatSandboxEnvironmentConfig.from_file(file).to_spec()
        return (await python_says([spec]))[0]
    except ValueError as ex:  # also for text that cannot be sent
        return f"{BY_TYPE}{ex}"


async def test_an_eval_shows_what_the_daemon_says(moat: Moat, tmp_path: Path) -> None:
    wrong = {"vms": [{"source": "mine", "name": "a b"}]}
    said = moat_says(moat, wrong)
    file = tmp_path / "moat.json"
    file.write_text(json.dumps(wrong))
    for config, where in (
        (MoatSandboxEnvironmentConfig.model_validate(wrong), ""),
        (str(file), f"{file}: "),
    ):
        with pytest.raises(PrerequisiteError) as caught:
            await MoatSandboxEnvironment.task_init("startup", config)
        assert str(caught.value) == f"sandbox moat: {where}{said}"


NIC: dict[str, Any] = {"vnet": "default"}
PROXMOX = {"source": {"built_in": "debian12"}}


def of_plugin(vm: dict[str, Any]) -> dict[str, Any]:
    """A VM with the names that the Proxmox plugin has for its members."""
    nics = [{"vnet_alias": nic["vnet"], **nic} for nic in vm.get("nics", ())]
    return {**vm, "vm_source_config": vm["source"], "nics": nics}


@pytest.mark.parametrize(
    ("vms", "right"),
    [
        ([{"name": "web"}, {"name": "db", "depends_on": ["Web"]}], True),
        ([{"nics": [{**NIC, "mac": "5254.0012.3456"}]}], True),
        ([{"name": "a_b"}], False),
        ([{"name": "x" * 64}], False),
        ([{"source": {}}], False),
        ([{"source": {"built_in": "debian12", "ova": "/bin/sh"}}], False),
        ([{"source": {"built_in": "none"}}], False),
        ([{"is_sandbox": False}], False),
        ([{"name": "a"}, {"name": "default"}], False),
        ([{"name": "a"}, {"name": "A"}], False),
        ([{"name": "a", "depends_on": ["b"]}], False),
        ([{"name": "a", "depends_on": ["A"]}], False),
        ([{"name": "a", "depends_on": ["b", "B"]}, {"name": "b"}], False),
        ([{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["A"]}], False),
        ([{"nics": [{**NIC, "ipv4": "10.0.0.1"}]}], False),
        ([{"nics": [{**NIC, "mac": "nonsense"}]}], False),
        ([{"nics": [{**NIC, "vlan_tag": 4095}]}], False),
        ([{"healthcheck": {"test": []}}], False),
        ([{"healthcheck": {"test": [""]}}], False),
        ([{"healthcheck": {"test": ["true"], "retries": 0}}], False),
    ],
)
async def test_what_the_proxmox_plugin_refuses_at_once(
    moat: Moat, vms: list[dict[str, Any]], right: bool
) -> None:
    """Its classes ask no daemon, and must not refuse what the daemon takes."""
    vms = [{**PROXMOX, **vm} for vm in vms]
    config = {"vms_config": [of_plugin(vm) for vm in vms]}
    assert (moat_says(moat, {"driver": "proxmox", "vms": vms}) is None) == right
    if right:
        spec = ProxmoxSandboxEnvironmentConfig.model_validate(config).to_spec()
        assert moat_says(moat, spec) is None
    else:
        with pytest.raises(ValidationError):
            ProxmoxSandboxEnvironmentConfig.model_validate(config)


def object_form(node: dict[str, Any]) -> dict[str, Any]:
    """The schema of what may also be written in a short form."""
    forms = [object_form(one) for one in node.get("anyOf", ())]
    return next((form for form in forms if "properties" in form), node)


def test_names_and_defaults_are_those_of_the_schema(schema: dict[str, Any]) -> None:
    for title, model in MODELS.items():
        node = object_form(schema["$defs"][title] if title else schema)
        assert set(model.model_fields) - {"standby"} == set(node["properties"])
        for name, member in node["properties"].items():
            field = model.model_fields[name]
            if (title, name) == ("vm", "source"):
                continue  # only Vagrant can do without
            if (title, name) == ("", "vms"):
                continue  # one VM of a default image
            assert field.is_required() == (name in node["required"]), f"{title}.{name}"
            if not field.is_required():
                default = field.get_default(call_default_factory=True)
                default = list(default) if isinstance(default, tuple) else default
                assert default == member.get("default"), f"{title}.{name}"
