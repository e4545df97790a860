"""The sandbox class, at the path where evals import it from (`sandbox().as_type(...)`)."""

from inspect_moat._providers import ProxmoxSandboxEnvironment

from .schema import (
    OsType,
    ProxmoxInstanceConfig,
    ProxmoxSandboxEnvironmentConfig,
    SdnConfigType,
)

__all__ = [
    "OsType",
    "ProxmoxInstanceConfig",
    "ProxmoxSandboxEnvironment",
    "ProxmoxSandboxEnvironmentConfig",
    "SdnConfigType",
]
