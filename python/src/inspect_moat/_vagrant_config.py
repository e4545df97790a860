"""The configuration class with the name and fields that evals for the Vagrant plugin import."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator


class VagrantSandboxEnvironmentConfig(BaseModel):
    """A sandbox that a Vagrantfile describes.

    Attributes:
        vagrantfile_path: its path; $VAGRANTFILE_PATH or ./Vagrantfile if left out.
        primary_vm_name: the VM that is Inspect's default sandbox; the first one if left out.
        vagrantfile_env_vars: what the Vagrantfile finds in ENV; a dict is fine. Not for the VMs.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    vagrantfile_path: str = Field(
        default_factory=lambda: os.environ.get("VAGRANTFILE_PATH", "./Vagrantfile")
    )
    primary_vm_name: str | None = None
    vagrantfile_env_vars: tuple[tuple[str, str], ...] = Field(default=(), repr=False)

    @field_validator("vagrantfile_env_vars", mode="before")
    @classmethod
    def _dict_to_pairs(cls, value: Any) -> Any:
        return tuple(value.items()) if isinstance(value, dict) else value

    def to_spec(self) -> dict[str, Any]:
        """The specification for the daemon, which has another working directory."""
        return {
            "driver": "vagrant",
            # the Vagrantfile has the last word on what VMs there are
            "vms": [{"name": self.primary_vm_name or "default"}],
            "native": {
                "vagrantfile": os.path.abspath(self.vagrantfile_path),
                "primary_vm": self.primary_vm_name,
                "env": dict(self.vagrantfile_env_vars),
            },
        }
