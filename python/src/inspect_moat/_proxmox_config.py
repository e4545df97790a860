"""Configuration classes with the names and fields that evals for the Proxmox plugin import.

Old and new versions of that plugin are understood: `await_before_next_vm` of the old one,
`depends_on` and `healthcheck` of the new one, the server's address in the configuration (old) or
in a pool file (new). Unknown fields are ignored, as that plugin does, unless they would close a
network.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.networks import IPvAnyAddress, IPvAnyNetwork
from typing_extensions import override

from ._config import BuiltIn, CloudInit, OsType, SandboxConfig, with_absolute_paths, with_none
from ._download import cached_path
from ._inspect_private import PrerequisiteError
from ._proxmox_checks import (
    check_networks,
    check_one_source,
    check_os_type,
    check_vm_name,
    check_vms,
    normal_mac,
)
from ._relative_paths import Locate, locate_setting

DEFAULT_PORT = 8006
# How many sandboxes to ask for at once on a server without a max_sandboxes. The server gets as many
# as fit into its memory, and the others wait.
SANDBOXES_IF_UNKNOWN = 8
INTERVAL_MIN = 0.1
UNTIMED_WAIT = "PROXMOX_EXEC_UNTIMED_WAIT_SECONDS"


class _ProxmoxModel(BaseModel):
    # hide_input_in_errors: a password in the wrong place must not end up in a log
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    # Unknown fields that would close a network, and the values with which they would not.
    closing_fields: ClassVar[dict[str, tuple[object, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuses_what_would_close_a_network(cls, values: Any) -> Any:
        for name, harmless in cls.closing_fields.items() if isinstance(values, dict) else ():
            if values.get(name) not in (None, (), [], *harmless):
                raise ValueError(
                    f"{name}: a server cannot hold VMs to a list of names; "
                    "take snat=False, or SdnConfig(isolated=True)"
                )
        return values


class DhcpRange(_ProxmoxModel):
    """Addresses that DHCP may give away, both ends included."""

    start: IPvAnyAddress
    end: IPvAnyAddress

    def _to_proxmox_format(self) -> str:
        """The range as the API takes it. Only test suites use this: the daemon writes its own."""
        return f"start-address={self.start},end-address={self.end}"


class SubnetConfig(_ProxmoxModel):
    """An IP network; `snat` decides whether its VMs may talk to the world outside."""

    closing_fields = {"domain_whitelist": (), "vnet_type": ("proxmox",), "type": ("proxmox",)}

    cidr: IPvAnyNetwork
    gateway: IPvAnyAddress
    snat: bool
    dhcp_ranges: tuple[DhcpRange, ...]


class VnetConfig(_ProxmoxModel):
    """A virtual network; NICs refer to it by its alias."""

    alias: str | None = Field(default=None, max_length=256)
    subnets: tuple[SubnetConfig, ...] = ()
    vlan_aware: bool = False


class SdnConfig(_ProxmoxModel):
    """The networks of a sandbox; without `use_pve_ipam_dnsnmasq` (sic) they have no DHCP.

    `isolated` needs a server whose firewall is on, and fails otherwise: see docs/proxmox.md.
    """

    closing_fields = {"allow_domains": ()}

    vnet_configs: tuple[VnetConfig, ...]
    use_pve_ipam_dnsnmasq: bool = True
    isolated: bool = False


SdnConfigType = SdnConfig | Literal["auto"] | None


class VmSourceConfig(_ProxmoxModel):
    """Where a VM's disk comes from: exactly one of template, `ova`, `ova_url` and `built_in`.

    The file of `ova_url` is downloaded once, to this machine. `ova_sha256` is what it must have;
    `ova_url_filename` is for URLs that do not end with its name.
    """

    existing_vm_template_tag: str | None = None
    ova: Path | None = None
    ova_url: str | None = None
    built_in: BuiltIn | None = None
    ova_url_filename: str | None = Field(default=None, min_length=1)
    ova_sha256: str | None = Field(default=None, pattern="^[0-9a-fA-F]{64}$")

    @model_validator(mode="after")
    def _exactly_one(self) -> VmSourceConfig:
        check_one_source(self, ("existing_vm_template_tag", "ova", "ova_url", "built_in"))
        if self.ova_url is not None:
            cached_path(self.ova_url, self.ova_sha256, self.ova_url_filename)
        elif self.ova_url_filename or self.ova_sha256:
            raise ValueError("ova_url_filename and ova_sha256 are for ova_url")
        return self

    def downloaded(self) -> Path | None:
        """Where the file of `ova_url` is, or will be."""
        if self.ova_url is None:
            return None
        return cached_path(self.ova_url, self.ova_sha256, self.ova_url_filename)


class VmNicConfig(_ProxmoxModel):
    """A NIC; a static address needs a MAC address."""

    vnet_alias: str
    mac: Annotated[str, AfterValidator(normal_mac)] | None = None
    ipv4: IPvAnyAddress | None = None
    vlan_tag: int | None = Field(default=None, ge=1, le=4094, strict=True)

    @model_validator(mode="after")
    def _static_address_needs_mac(self) -> VmNicConfig:
        if self.ipv4 is not None and self.mac is None:
            raise ValueError("ipv4: an ipv4 address requires a mac address")
        return self


class HealthCheck(_ProxmoxModel):
    """A command in the VM that must succeed before the VM counts as ready. Times are seconds."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    test: tuple[str, ...] = Field(min_length=1)
    interval: float = Field(default=5, gt=0)
    timeout: int = Field(default=30, gt=0)
    retries: int = Field(default=60, gt=0)
    start_period: float = Field(default=0, ge=0)

    @field_validator("test")
    @classmethod
    def _is_a_command(cls, test: tuple[str, ...]) -> tuple[str, ...]:
        if not test[0]:
            raise ValueError("test needs an executable as its first element")
        if any("\0" in argument for argument in test):
            raise ValueError("test arguments must not contain NUL")
        return test


class VmConfig(_ProxmoxModel):
    """A virtual machine.

    `cloud_init` and `native` are those of `inspect_moat.VmConfig`: documents for cloud-init, and
    settings of Proxmox's own, as for `qm set`. `ram_mb=None` and `vcpus=None` keep the template's.
    """

    vm_source_config: VmSourceConfig
    name: Annotated[str, AfterValidator(check_vm_name)] | None = None
    ram_mb: int | None = Field(default=2048, ge=1)
    vcpus: int | None = Field(default=2, ge=1)
    nics: tuple[VmNicConfig, ...] | None = None
    is_sandbox: bool = True
    uefi_boot: bool = False
    disk_controller: Literal["scsi", "ide"] | None = None
    nic_controller: Literal["virtio", "e1000"] | None = None
    firewall: bool = False
    os_type: OsType | None = "l26"
    vga: Literal["none", "std"] = "none"
    tablet: bool = False
    cpu: str | None = None
    await_before_next_vm: bool = False
    depends_on: tuple[str, ...] = ()
    healthcheck: HealthCheck | None = None
    cloud_init: CloudInit | None = Field(default=None, repr=False)
    native: dict[str, Any] = Field(default_factory=dict)

    @override
    def __hash__(self) -> int:
        # pydantic's own hash fails on fields that hold a dict
        return hash((type(self), self.model_dump_json()))

    @property
    def requires_guest_agent(self) -> bool:
        """Whether commands have to be run inside the VM."""
        return self.is_sandbox or self.healthcheck is not None


class HttpHeader(_ProxmoxModel):
    """A header to send along with each request to a server."""

    name: str
    value: SecretStr


class ProxmoxInstanceConfig(_ProxmoxModel):
    """A Proxmox server."""

    instance_id: str
    pool_id: str
    host: str
    port: int = DEFAULT_PORT
    user: str = "root"
    user_realm: str = "pam"
    password: SecretStr | None = None
    node: str
    verify_tls: bool = True
    token: SecretStr | None = None
    fingerprint: str | None = None
    max_sandboxes: int | None = Field(default=None, ge=0)
    iso_storage: str | None = None
    import_storage: str | None = None
    image_storage: str = Field(
        default_factory=lambda: os.environ.get("PROXMOX_IMAGE_STORAGE", "local-lvm")
    )
    extra_headers: tuple[HttpHeader, ...] = ()
    tags: tuple[str, ...] | None = None


class ProxmoxSandboxEnvironmentConfig(_ProxmoxModel, SandboxConfig):
    """A sandbox on a Proxmox server: VMs, and the networks between them.

    The fields from `host` on are those of old versions, for one server named in the eval itself.
    Servers of the environment are stronger. `image_storage` is for servers that name none.
    """

    instance_pool_id: str = "default"
    sdn_config: SdnConfigType = "auto"
    vms_config: tuple[VmConfig, ...] = (
        VmConfig(vm_source_config=VmSourceConfig(built_in="ubuntu24.04")),
    )
    host: str | None = None
    port: int | None = None
    user: str | None = None
    user_realm: str | None = None
    # not written to eval logs; a retry takes server and password from the environment
    password: SecretStr | None = Field(default=None, exclude=True)
    node: str | None = None
    verify_tls: bool | None = None
    image_storage: str | None = None

    @field_validator("password")
    @classmethod
    def _stars_are_none(cls, password: SecretStr | None) -> SecretStr | None:
        """Logs of other versions have stars for the password, which eval-retry reads back."""
        return password if password and password.get_secret_value().strip("*") else None

    @model_validator(mode="after")
    def _vms_fit_together(self) -> ProxmoxSandboxEnvironmentConfig:
        check_vms(self.vm_names(), self.vms_config)
        return self

    @model_serializer(mode="wrap")
    def _written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return with_none(self, "sdn_config", serialize)

    def vm_names(self) -> tuple[str, ...]:
        """The names of the VMs in their order, with one made up for those that have none."""
        names: list[str] = []
        default_given = False
        for index, vm in enumerate(self.vms_config):
            unnamed = "default" if vm.is_sandbox and not default_given else f"vm-{index + 1}"
            names.append(vm.name or unnamed)
            default_given = default_given or vm.is_sandbox
        return tuple(names)

    @override
    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        for index, vm in enumerate(self.vms_config):
            if vm.vm_source_config.built_in is not None:
                check_os_type(index, vm.os_type)
        if isinstance(self.sdn_config, SdnConfig):
            vnets = self.sdn_config.vnet_configs
            ranges = [sum(len(subnet.dhcp_ranges) for subnet in vnet.subnets) for vnet in vnets]
            check_networks(self.sdn_config.use_pve_ipam_dnsnmasq, ranges)
        named = zip(self.vm_names(), self.vms_config, strict=True)
        spec: dict[str, Any] = {
            "driver": "proxmox",
            "pool": self.instance_pool_id,
            "vms": [_vm_to_spec(name, vm) for name, vm in named],
            "networks": self.sdn_config,
        }
        if self.sdn_config == "auto":
            # evals for that plugin expect that the automatic network leads to the world outside
            spec["native"] = {"auto_snat": True}
        if isinstance(self.sdn_config, SdnConfig):
            spec["networks"] = _networks_to_spec(self.sdn_config)
            if self.sdn_config.isolated:
                _isolate(spec)
        return with_absolute_paths(spec, locate)


def load_instances() -> tuple[ProxmoxInstanceConfig, ...]:
    """The servers that PROXMOX_CONFIG_FILE, or else PROXMOX_HOST and its companions, name."""
    pool = _instances_of_file()
    if pool is not None:
        return pool
    return (instance_of_environment(),) if os.environ.get("PROXMOX_HOST") else ()


def _instances_of_file() -> tuple[ProxmoxInstanceConfig, ...] | None:
    file = os.environ.get("PROXMOX_CONFIG_FILE")
    if not file or not os.path.exists(found := locate_setting(file)):
        return None
    with open(found, encoding="utf-8") as stream:
        content = json.load(stream)
    return tuple(ProxmoxInstanceConfig(**entry) for entry in content.get("instances", ()))


def untimed_wait() -> int | None:
    """How many seconds a command may take for which no timeout was given; None: any number."""
    text = os.environ.get(UNTIMED_WAIT)
    if not text:
        return None
    try:
        seconds = math.ceil(float(text))
    except (ValueError, OverflowError):
        seconds = 0
    if seconds <= 0:
        raise ValueError(f"{UNTIMED_WAIT}: {text!r} is not a number of seconds")
    return seconds


def instances_for(config: ProxmoxSandboxEnvironmentConfig) -> tuple[ProxmoxInstanceConfig, ...]:
    """The servers for a sandbox.

    Those of the environment come first: the older plugin wrote the server of the day into each
    log, and a retry must not go back to it.

    Raises:
        PrerequisiteError: there are none.
    """
    if config.host and not load_instances():
        instances: tuple[ProxmoxInstanceConfig, ...] = (_instance_of_config(config),)
    else:
        instances = known_instances()
    if config.image_storage:
        more = {"image_storage": config.image_storage}
        instances = tuple(
            one if "image_storage" in one.model_fields_set else one.model_copy(update=more)
            for one in instances
        )
    return instances


def known_instances() -> tuple[ProxmoxInstanceConfig, ...]:
    """The servers that the environment names.

    Raises:
        PrerequisiteError: it names none.
    """
    instances = load_instances()
    if not instances:
        raise PrerequisiteError(
            "sandbox proxmox: no server is configured; set PROXMOX_HOST, PROXMOX_USER, "
            "PROXMOX_PASSWORD and PROXMOX_NODE, or PROXMOX_CONFIG_FILE"
        )
    return instances


def access_to(instances: tuple[ProxmoxInstanceConfig, ...]) -> dict[str, Any]:
    """Servers as the daemon takes them: with their secrets."""
    return {"instances": [_instance_to_json(instance) for instance in instances]}


def instance_of_environment(host: str | None = None) -> ProxmoxInstanceConfig:
    """The server of PROXMOX_HOST and its companions, or another host with the same settings."""
    token = os.environ.get("PROXMOX_TOKEN")
    max_sandboxes = os.environ.get("PROXMOX_MAX_SANDBOXES")
    return ProxmoxInstanceConfig(
        instance_id="default",
        pool_id="default",
        host=host or os.environ.get("PROXMOX_HOST", "localhost"),
        port=int(os.environ.get("PROXMOX_PORT", DEFAULT_PORT)),
        user=os.environ.get("PROXMOX_USER", "root"),
        user_realm=os.environ.get("PROXMOX_REALM", "pam"),
        password=None if token else SecretStr(os.environ.get("PROXMOX_PASSWORD", "password")),
        token=SecretStr(token) if token else None,
        node=os.environ.get("PROXMOX_NODE", "proxmox"),
        verify_tls=os.environ.get("PROXMOX_VERIFY_TLS", "1") == "1",
        fingerprint=os.environ.get("PROXMOX_FINGERPRINT") or None,
        iso_storage=os.environ.get("PROXMOX_ISO_STORAGE") or None,
        import_storage=os.environ.get("PROXMOX_IMPORT_STORAGE") or None,
        max_sandboxes=int(max_sandboxes) if max_sandboxes else None,
    )


def _instance_of_config(config: ProxmoxSandboxEnvironmentConfig) -> ProxmoxInstanceConfig:
    """The server that an eval names itself; the rest of what it leaves out is the environment's.

    Raises:
        PrerequisiteError: it has no password. That of the environment is for another server:
            whoever can write a log could have it sent to a server of theirs.
    """
    assert config.host is not None
    if config.password is None:
        raise PrerequisiteError(
            f"sandbox proxmox: the configuration names the server {config.host} without a "
            "password, and that of the environment is not sent to a server that only a "
            f"configuration names; set PROXMOX_HOST={config.host} if it is meant"
        )
    given = {
        name: value
        for name in ("port", "user", "user_realm", "node", "verify_tls")
        if (value := getattr(config, name)) is not None
    }
    own = {"pool_id": config.instance_pool_id, "password": config.password, "token": None}
    return instance_of_environment(config.host).model_copy(update={**own, **given})


def _instance_to_json(instance: ProxmoxInstanceConfig) -> dict[str, Any]:
    entry = instance.model_dump(mode="json", exclude_none=True)
    for name in ("password", "token"):
        secret = getattr(instance, name)
        if secret is not None:
            entry[name] = secret.get_secret_value()
    entry["extra_headers"] = [
        {"name": header.name, "value": header.value.get_secret_value()}
        for header in instance.extra_headers
    ]
    return entry


def _vm_to_spec(name: str, vm: VmConfig) -> dict[str, Any]:
    spec = vm.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    if vm.native:
        spec["native"] = dict(vm.native)  # with its nulls, which mean something
    spec["name"] = name
    for field, setting in (("ram_mb", "memory"), ("vcpus", "cores")):
        if getattr(vm, field) is None:  # left out, so that the clone has what the template has
            spec["native"] = {setting: None, **spec.get("native", {})}
    spec["source"] = spec.pop("vm_source_config")
    if file := vm.vm_source_config.downloaded():
        spec["source"] = {"ova": str(file)}
    for nic in spec.get("nics", ()):
        nic["vnet"] = nic.pop("vnet_alias")
    if vm.healthcheck is not None:
        # that plugin takes any interval; moat does not try more often than ten times a second
        spec["healthcheck"]["interval"] = max(vm.healthcheck.interval, INTERVAL_MIN)
    return spec


def _as_served(sdn: SdnConfig) -> tuple[VnetConfig, ...]:
    """The networks, with ranges that leave out the gateway: no server gives its address away."""
    return tuple(
        vnet.model_copy(update={"subnets": tuple(map(_without_gateway, vnet.subnets))})
        for vnet in sdn.vnet_configs
    )


def _without_gateway(subnet: SubnetConfig) -> SubnetConfig:
    ranges: list[DhcpRange] = []
    for one in subnet.dhcp_ranges:
        if int(one.start) <= int(subnet.gateway) <= int(one.end):
            before = DhcpRange.model_construct(start=one.start, end=subnet.gateway - 1)
            after = DhcpRange.model_construct(start=subnet.gateway + 1, end=one.end)
            ranges += [part for part in (before, after) if int(part.start) <= int(part.end)]
        else:
            ranges.append(one)
    return subnet.model_copy(update={"dhcp_ranges": tuple(ranges)})


def _networks_to_spec(sdn: SdnConfig) -> dict[str, Any]:
    vnets = []
    for index, vnet in enumerate(_as_served(sdn)):
        spec = vnet.model_dump(mode="json")
        spec["alias"] = vnet.alias or f"net-{index + 1}"
        spec["dhcp"] = sdn.use_pve_ipam_dnsnmasq
        if sdn.isolated:
            for subnet in spec["subnets"]:
                subnet["snat"] = False
        # For that plugin, address translation meant that everything outside could be reached; for
        # the daemon, a vnet without an egress has none.
        if any(subnet["snat"] for subnet in spec["subnets"]):
            spec["egress"] = "open"
        vnets.append(spec)
    return {"vnets": vnets}


def _isolate(spec: dict[str, Any]) -> None:
    """Overrule what that plugin overruled, for the driver refuses what it cannot enforce."""
    spec["native"] = {"isolated": True}
    first = spec["networks"]["vnets"][:1]
    for vm in spec["vms"]:
        # That plugin gave a VM no NICs of its template, and only the rules that isolate it.
        vm.setdefault("nics", [{"vnet": vnet["alias"]} for vnet in first])
        vm.pop("firewall", None)
