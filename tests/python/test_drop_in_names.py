"""Names of the Proxmox plugin that evals and test suites reach for, beyond its configuration."""

from __future__ import annotations

from ipaddress import ip_address
from logging import Logger
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.tool import ToolError
from inspect_ai.util import Store
from pydantic import ValidationError

from inspect_moat import MoatSandboxEnvironment
from inspect_moat._connect import connect
from inspect_moat._wire import Message
from proxmoxsandbox._proxmox_sandbox_environment import ProxmoxSandboxEnvironment
from proxmoxsandbox.experimental import snapshots
from proxmoxsandbox.schema import (
    PVE_DNS_NAME_RE,
    DhcpRange,
    ProxmoxSandboxEnvironmentConfig,
    _load_single_instance_from_env,
)
from rogue_daemon import Peer, rogue_daemon


def config(*vms: dict[str, Any]) -> ProxmoxSandboxEnvironmentConfig:
    source = {"vm_source_config": {"built_in": "ubuntu24.04"}}
    return ProxmoxSandboxEnvironmentConfig.model_validate(
        {"vms_config": [{**source, **vm} for vm in vms]}
    )


def test_names_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PVE_DNS_NAME_RE.match("web-1.lab")
    for name in ("", "-web", "web-", "a_b", "a..b", "a b"):
        assert not PVE_DNS_NAME_RE.match(name)
    span = DhcpRange(start=ip_address("10.0.0.5"), end=ip_address("10.0.0.9"))
    assert span._to_proxmox_format() == "start-address=10.0.0.5,end-address=10.0.0.9"
    for name in ("PROXMOX_HOST", "PROXMOX_NODE", "PROXMOX_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert _load_single_instance_from_env().host == "localhost"
    monkeypatch.setenv("PROXMOX_HOST", "pve")
    assert _load_single_instance_from_env().host == "pve"


def test_names_of_the_class() -> None:
    assert isinstance(ProxmoxSandboxEnvironment.logger, Logger)
    assert ProxmoxSandboxEnvironment.TRACE_NAME


def test_texts_of_errors() -> None:
    with pytest.raises(
        ValidationError, match=r"Duplicate VM name 'x' at vms_config\[0\] and vms_config\[1\]"
    ):
        config({"name": "x"}, {"name": "x"})
    with pytest.raises(
        ValidationError, match=r"'b' depends on unknown VM 'nope'. Known names: \['a', 'b'\]"
    ):
        config({"name": "b", "depends_on": ("nope",)}, {"name": "a"})


@pytest.mark.anyio
async def test_numbered_snapshots(runtime_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []

    async def answer(peer: Peer, message: Message) -> None:
        name = message["args"]["name"]
        if message["op"] == "snapshot":
            saved.append(name)
        elif name not in saved:
            await peer.error(message["id"], "not_found", f"no snapshot {name}")
        await peer.result(message["id"])

    notes = Store()
    monkeypatch.setattr(snapshots, "store", lambda: notes)
    async with rogue_daemon(runtime_dir, answer) as daemon:
        vm: Any = ProxmoxSandboxEnvironment(await connect(), "3f9a1c20", "only")
        monkeypatch.setattr(snapshots, "sandbox", lambda: vm)
        assert [await snapshots.create_snapshot()() for _ in range(2)] == [1, 2]
        assert await snapshots.rollback_to_snapshot()(snapshot_id=1) is True
        with pytest.raises(ToolError, match="no snapshot inspect7"):
            await snapshots.rollback_to_snapshot()(snapshot_id=7)
        vm = MoatSandboxEnvironment(await connect(), "3f9a1c20", "only")
        with pytest.raises(ValueError, match="of the provider proxmox"):
            await snapshots.create_snapshot()()
    assert saved == ["inspect1", "inspect2"]
    assert {one["args"]["vm"] for one in daemon.requests("snapshot")} == {"only"}
