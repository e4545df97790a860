"""The entry point of the group `inspect_ai`: importing it registers the providers."""

from ._providers import (
    MoatSandboxEnvironment,
    ProxmoxSandboxEnvironment,
    VagrantSandboxEnvironment,
)

__all__ = ["MoatSandboxEnvironment", "ProxmoxSandboxEnvironment", "VagrantSandboxEnvironment"]
