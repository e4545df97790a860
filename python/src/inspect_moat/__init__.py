"""Virtual machines as sandboxes for Inspect: `sandbox="moat"`."""

from ._config import (
    CloudInit,
    DhcpRange,
    Egress,
    EgressAllow,
    GuestFile,
    HealthCheck,
    MoatSandboxEnvironmentConfig,
    Networks,
    Subnet,
    VmConfig,
    VmNic,
    VmSource,
    Vnet,
)
from ._providers import (
    MoatSandboxEnvironment,
    ProxmoxSandboxEnvironment,
    VagrantSandboxEnvironment,
)
from ._sandbox import VmSandboxEnvironment
from ._tools import restore_snapshot, save_snapshot
from ._version import __version__

__all__ = [
    "CloudInit",
    "DhcpRange",
    "Egress",
    "EgressAllow",
    "GuestFile",
    "HealthCheck",
    "MoatSandboxEnvironment",
    "MoatSandboxEnvironmentConfig",
    "Networks",
    "ProxmoxSandboxEnvironment",
    "Subnet",
    "VagrantSandboxEnvironment",
    "VmConfig",
    "VmNic",
    "VmSandboxEnvironment",
    "VmSource",
    "Vnet",
    "__version__",
    "restore_snapshot",
    "save_snapshot",
]
