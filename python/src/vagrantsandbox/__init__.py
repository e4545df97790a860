"""Drop-in for evals written for the Vagrant plugin: the same names, run by moat."""

from .vagrant_sandbox_provider import (
    SandboxUnrecoverableError,
    VagrantSandboxEnvironment,
    VagrantSandboxEnvironmentConfig,
)

__all__ = [
    "SandboxUnrecoverableError",
    "VagrantSandboxEnvironment",
    "VagrantSandboxEnvironmentConfig",
]
