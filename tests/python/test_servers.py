"""Which Proxmox servers a sandbox is made on, and which secrets go where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_ai._util.error import PrerequisiteError

from proxmoxsandbox._proxmox_sandbox_environment import (
    ProxmoxSandboxEnvironment,
    ProxmoxSandboxEnvironmentConfig,
)
from proxmoxsandbox.schema import _load_instances_from_env_or_file

PASSWORD = "correct horse"


def test_servers_go_to_the_daemon_with_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROXMOX_CONFIG_FILE", raising=False)
    monkeypatch.setenv("PROXMOX_HOST", "pve")
    monkeypatch.setenv("PROXMOX_PASSWORD", PASSWORD)
    monkeypatch.setenv("PROXMOX_NODE", "node-1")
    access = ProxmoxSandboxEnvironment.access(ProxmoxSandboxEnvironmentConfig())
    assert access is not None
    (server,) = access["instances"]
    assert (server["host"], server["password"], server["node"]) == ("pve", PASSWORD, "node-1")
    monkeypatch.setenv("PROXMOX_TOKEN", "moat=secret")
    (server,) = (ProxmoxSandboxEnvironment.access(ProxmoxSandboxEnvironmentConfig()) or {})[
        "instances"
    ]
    assert server["token"] == "moat=secret"
    assert "password" not in server


def servers(config: ProxmoxSandboxEnvironmentConfig) -> list[dict[str, Any]]:
    access = ProxmoxSandboxEnvironment.access(config)
    assert access is not None
    instances: list[dict[str, Any]] = access["instances"]
    return instances


def test_a_pool_file_is_stronger_than_a_server_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Proxmox plugin wrote a host into each log, which may not be the one to use now."""
    file = tmp_path / "servers.json"
    one = {"pool_id": "default", "password": PASSWORD, "node": "n"}
    pool = [
        {**one, "instance_id": "a", "host": "first"},
        {**one, "instance_id": "b", "host": "second", "image_storage": "own"},
    ]
    file.write_text(json.dumps({"instances": pool}))
    monkeypatch.setenv("PROXMOX_CONFIG_FILE", str(file))
    monkeypatch.delenv("PROXMOX_IMAGE_STORAGE", raising=False)
    assert [one.host for one in _load_instances_from_env_or_file()] == ["first", "second"]
    old = ProxmoxSandboxEnvironmentConfig(host="localhost", image_storage="fast")
    assert [(one["host"], one["image_storage"]) for one in servers(old)] == [
        ("first", "fast"), ("second", "own"),
    ]  # fmt: skip
    monkeypatch.delenv("PROXMOX_CONFIG_FILE")
    monkeypatch.delenv("PROXMOX_HOST", raising=False)
    monkeypatch.setenv("PROXMOX_IMAGE_STORAGE", "slow")
    own = {"host": "localhost", "password": PASSWORD}
    for storage in ("fast", None):
        config = ProxmoxSandboxEnvironmentConfig.model_validate({**own, "image_storage": storage})
        (server,) = servers(config)
        assert (server["host"], server["image_storage"]) == ("localhost", storage or "slow")


def test_a_password_of_the_environment_goes_to_no_server_of_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PROXMOX_CONFIG_FILE", raising=False)
    monkeypatch.setenv("PROXMOX_HOST", "today")
    monkeypatch.setenv("PROXMOX_PASSWORD", PASSWORD)
    monkeypatch.setenv("PROXMOX_TOKEN", "moat=secret")
    logged = {"host": "old", "port": 1, "verify_tls": False, "user": "eve", "password": "*" * 10}
    config = ProxmoxSandboxEnvironmentConfig.model_validate(logged)
    (server,) = servers(config)
    assert (server["host"], server["port"], server["user"]) == ("today", 8006, "root")
    assert server["verify_tls"] is True
    monkeypatch.delenv("PROXMOX_HOST")
    with pytest.raises(PrerequisiteError, match="server old without a password"):
        servers(config)
    own = {**logged, "password": "its own"}
    (server,) = servers(ProxmoxSandboxEnvironmentConfig.model_validate(own))
    assert (server["host"], server["port"], server["user"]) == ("old", 1, "eve")
    assert server["password"] == "its own"
    assert "token" not in server
