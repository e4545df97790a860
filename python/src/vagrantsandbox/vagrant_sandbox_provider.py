"""The sandbox class and its configuration, at the path where evals import them from."""

from inspect_moat._providers import VagrantSandboxEnvironment
from inspect_moat._vagrant_config import VagrantSandboxEnvironmentConfig


class SandboxUnrecoverableError(Exception):
    """For code that catches it. moat raises Inspect's SandboxUnavailableError instead."""


__all__ = [
    "SandboxUnrecoverableError",
    "VagrantSandboxEnvironment",
    "VagrantSandboxEnvironmentConfig",
]
