"""The configuration class with the name and fields that evals for the Vagrant plugin import."""

from __future__ import annotations

import os
from typing import Any

from pydantic import ConfigDict, Field, field_validator
from typing_extensions import Self, override

from ._config import SandboxConfig
from ._relative_paths import Locate

DEFAULT_PATH = "./Vagrantfile"


class VagrantSandboxEnvironmentConfig(SandboxConfig):
    """A sandbox that a Vagrantfile describes.

    Attributes:
        vagrantfile_path: its path; $VAGRANTFILE_PATH or ./Vagrantfile if left out.
        primary_vm_name: the VM that is Inspect's default sandbox; the first one if left out.
        vagrantfile_env_vars: what the Vagrantfile finds in ENV; a dict is fine. Not for the VMs.
        vagrant_dir: a directory to copy beside the Vagrantfile, for files that it refers to. The
            Vagrantfile is the one in there, unless `vagrantfile_path` names another.
        provider: as in `vagrant up --provider`; Vagrant's own choice if left out.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)
    reads_files = True

    vagrantfile_path: str = Field(
        default_factory=lambda: os.environ.get("VAGRANTFILE_PATH", DEFAULT_PATH)
    )
    primary_vm_name: str | None = None
    vagrantfile_env_vars: tuple[tuple[str, str], ...] = Field(default=(), repr=False)
    vagrant_dir: str | None = None
    provider: str | None = None

    @field_validator("vagrantfile_env_vars", mode="before")
    @classmethod
    def _dict_to_pairs(cls, value: Any) -> Any:
        return tuple(value.items()) if isinstance(value, dict) else value

    def vagrantfile(self, locate: Locate = os.path.abspath) -> str:
        """The absolute path: the daemon has another working directory."""
        # The value is compared, not whether it was given: a log has all fields.
        if self.vagrant_dir is not None and self.vagrantfile_path == DEFAULT_PATH:
            return os.path.join(locate(self.vagrant_dir), "Vagrantfile")
        return locate(self.vagrantfile_path)

    @classmethod
    @override
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The sandbox that the Vagrantfile of this path describes."""
        return cls(vagrantfile_path=os.fspath(path))

    @override
    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        native: dict[str, Any] = {
            "vagrantfile": self.vagrantfile(locate),
            "primary_vm": self.primary_vm_name,
            "primary_vm_required": False,  # the first VM is taken then, with a warning
            "env": dict(self.vagrantfile_env_vars),
        }
        if self.vagrant_dir is not None:
            native["vagrant_dir"] = locate(self.vagrant_dir)
        if self.provider is not None:
            native["provider"] = self.provider
        # the Vagrantfile says which VMs there are; this entry stands for the default one
        return {"driver": "vagrant", "vms": [{"name": "default"}], "native": native}
