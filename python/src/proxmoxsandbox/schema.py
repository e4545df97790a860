"""The configuration classes, at the path where evals import them from."""

from inspect_moat._config import OsType
from inspect_moat._proxmox_checks import DNS_NAME as PVE_DNS_NAME_RE
from inspect_moat._proxmox_config import (
    DhcpRange,
    HealthCheck,
    HttpHeader,
    ProxmoxInstanceConfig,
    ProxmoxSandboxEnvironmentConfig,
    SdnConfig,
    SdnConfigType,
    SubnetConfig,
    VmConfig,
    VmNicConfig,
    VmSourceConfig,
    VnetConfig,
)
from inspect_moat._proxmox_config import instance_of_environment as _load_single_instance_from_env
from inspect_moat._proxmox_config import load_instances as _load_instances_from_env_or_file

__all__ = [
    "PVE_DNS_NAME_RE",
    "DhcpRange",
    "HealthCheck",
    "HttpHeader",
    "OsType",
    "ProxmoxInstanceConfig",
    "ProxmoxSandboxEnvironmentConfig",
    "SdnConfig",
    "SdnConfigType",
    "SubnetConfig",
    "VmConfig",
    "VmNicConfig",
    "VmSourceConfig",
    "VnetConfig",
    "_load_instances_from_env_or_file",  # what test suites call to read a pool file
    "_load_single_instance_from_env",
]
