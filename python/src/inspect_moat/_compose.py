"""Compose files, Dockerfiles and Inspect's `ComposeConfig` as configurations of `moat`.

The daemon makes a specification of them, the same that `moat up` would make.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from logging import INFO, NOTSET, getLogger
from pathlib import Path
from typing import Any

import yaml
from inspect_ai.util import SandboxEnvironmentConfigType
from pydantic import BaseModel, PrivateAttr
from typing_extensions import override

from ._client import Connection
from ._config import SandboxConfig
from ._inspect_private import sandbox_prebuilt
from ._relative_paths import Locate
from ._sandbox_requests import QUERY_TIMEOUT
from ._text import is_valid_text

FILES = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile"]
METADATA = "SAMPLE_METADATA_"

# What is said here is in the log of the eval. Of other packages than its own Inspect asks for
# warnings only, unless they say otherwise.
logger = getLogger(__name__)
if logger.level == NOTSET:
    logger.setLevel(INFO)


class ComposeFile(SandboxConfig):
    """A compose file or a Dockerfile, by its path, or as Inspect's `ComposeConfig`.

    Attributes:
        path: of the file; None if there is `content`.
        content: the compose file itself.
        directory: where relative paths of `content` begin.
    """

    path: str | None = None
    content: dict[str, Any] | None = None
    directory: str = ""

    _services: dict[str, str] = PrivateAttr(default_factory=dict)  # name of the VM of each
    _default: str = PrivateAttr(default="")

    @override
    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        """Nothing yet: `ask_spec` asks the daemon for it."""
        return {}

    async def ask_spec(
        self, connection: Connection, metadata: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The specification that the file stands for.

        Raises:
            MoatError: what is wrong with the file.
        """
        told = await self._ask(connection, self.metadata_variables(metadata or {}))
        self._services = {str(name): str(vm) for name, vm in told["services"].items()}
        self._default = str(told["default"])
        self._tell(told)
        spec: dict[str, Any] = told["spec"]
        return spec

    async def _ask(self, connection: Connection, variables: Mapping[str, str]) -> dict[str, Any]:
        env = {name: value for name, value in os.environ.items() if is_valid_text(name + value)}
        args: dict[str, Any] = {"env": {**env, **variables}, "prebuilt": sandbox_prebuilt()}
        if self.path is not None:
            args["path"] = self.path
        else:
            args.update(config=self.content, directory=self.directory)
        return (await connection.request("compose", args, timeout=QUERY_TIMEOUT)).result

    def _tell(self, told: dict[str, Any]) -> None:
        """Says where the networks lead, and that some of the file has no effect."""
        name = self.path or "compose.yaml"
        for network, leads in told["networks"].items():
            logger.info("%s: network %s: %s", name, network, LEADS[leads])
        if told["accepted"]:
            logger.info(
                "%s: %d members have no effect in VMs: moat up --check lists them",
                *(name, len(told["accepted"])),
            )

    def metadata_variables(self, metadata: Mapping[str, Any]) -> dict[str, str]:
        """The variables of a sample's metadata that the file names, as for Docker."""
        if self.path is None:
            return {}
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}  # the daemon says what is wrong with the file
        names = {f"{METADATA}{key.replace(' ', '_').upper()}": key for key in metadata}
        return {name: str(metadata[key]) for name, key in names.items() if name in text}

    async def images_of_sample(
        self, connection: Connection, metadata: Mapping[str, Any]
    ) -> dict[str, str]:
        """The variables of the sample, if images depend on them; otherwise none."""
        variables = self.metadata_variables(metadata)
        if not variables:
            return {}
        mine = _sources(await self._ask(connection, variables))
        anyone = dict.fromkeys(variables, "x")
        return variables if mine != _sources(await self._ask(connection, anyone)) else {}

    def name_services(self, vms: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The VMs by the names of their services, the default one first."""
        by_name = {str(vm["name"]): vm for vm in vms}
        found = {service: by_name[vm] for service, vm in self._services.items()}
        return {self._default: found[self._default], **found}


LEADS = {
    "open": "open to the Internet, but not to this machine or private networks",
    "allow": "open to the names of x-inspect_k8s_sandbox",
    "deny": "closed",
}


def _sources(told: dict[str, Any]) -> list[Any]:
    return [vm["source"] for vm in told["spec"]["vms"]]


def is_compose_file(path: str) -> bool:
    """Whether a file is a Dockerfile or a compose file: by its name, or by what is in it."""
    name = os.path.basename(path)
    if name == "Dockerfile" or name.startswith("Dockerfile.") or name.endswith(".Dockerfile"):
        return True
    stem, suffix = os.path.splitext(name)
    named_so = stem == "compose" or stem.endswith(("-compose", ".compose"))
    if named_so and suffix in (".yaml", ".yml"):
        return True
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text) if suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return False  # whoever reads it as a specification says what is wrong
    return isinstance(content, Mapping) and "services" in content and "vms" not in content


def compose_file(config: SandboxEnvironmentConfigType | None, directory: str) -> ComposeFile | None:
    """What of this kind a configuration is; None: it is another."""
    if isinstance(config, str):
        return ComposeFile(path=os.path.abspath(config)) if is_compose_file(config) else None
    # by its members: an older Inspect has no such class
    if isinstance(config, BaseModel) and "services" in type(config).model_fields:
        content = config.model_dump(mode="json", by_alias=True, exclude_none=True)
        return ComposeFile(content=content, directory=directory)
    return None
