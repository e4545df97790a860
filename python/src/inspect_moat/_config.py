"""The sandbox specification as Python classes: what `sandbox=("moat", ...)` takes.

The daemon has the last word on a specification; these models exist so that an editor can complete
the names and a mistake shows where it was made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)
from typing_extensions import Self

from ._checks import (
    NicView,
    VmView,
    check_one_source,
    check_sandbox,
    check_vm_name,
    normal_mac,
    vnet_views,
)
from ._places import Locate
from ._yaml import load_yaml

STANDBY_MAX = 64  # the daemon's own limit
DEFAULT_IMAGE = "debian12"
RAM_MB_MIN = 64
RAM_MB_MAX = 4 * 1024 * 1024
VCPUS_MAX = 512
DISK_GB_MAX = 65536
INTERVAL_MIN = 0.1

MacAddress = Annotated[str, AfterValidator(normal_mac)]
VmName = Annotated[str, AfterValidator(check_vm_name)]
OsType = Literal[
    "l24", "l26", "other", "solaris",
    "w2k", "w2k3", "w2k8", "win7", "win8", "win10", "win11", "wvista", "wxp",
]  # fmt: skip


# A word or an object: told apart by hand, so that an error is about the one that was meant.
WORD, OBJECT = "<word>", "<object>"


def _word_or_object(value: Any) -> str:
    return WORD if isinstance(value, str) else OBJECT


class SpecModel(BaseModel):
    """A part of a specification: cannot be changed, can be hashed, refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __hash__(self) -> int:
        # pydantic's own hash fails on fields that hold a dict
        return hash((type(self), self.model_dump_json()))


def with_none(
    model: BaseModel, field: str, serialize: SerializerFunctionWrapHandler
) -> dict[str, Any]:
    """The model as it is written down, with a field whose None is not its default.

    Inspect's logs leave out what is None. What is read from one would have the default instead.
    """
    written: dict[str, Any] = serialize(model)
    return {**written, field: None} if getattr(model, field) is None else written


class OneOf(BaseModel):
    """For models of which exactly one field must be set."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        check_one_source(self)
        return self


class Address(BaseModel):
    """What network cards have in all specifications."""

    mac: MacAddress | None = None
    ipv4: IPv4Address | IPv6Address | None = None
    vlan_tag: int | None = Field(default=None, ge=1, le=4094, strict=True)

    @model_validator(mode="after")
    def _static_address_needs_mac(self) -> Self:
        if self.ipv4 is not None and self.mac is None:
            raise ValueError("ipv4: an ipv4 address requires a mac address")
        return self


# Those that a Proxmox server can be given. All that the Proxmox plugin has ever had are among them.
BuiltIn = Literal["ubuntu24.04", "debian12", "debian13", "kali", "kali2025.4", "kali2025.3"]


class VmSource(SpecModel, OneOf):
    """Where a VM's disk comes from: exactly one of these.

    Attributes:
        image: the name of an image in moat's store (`moat image ls`); built if it is not there.
        built_in: a system that moat knows how to get.
        ova: the path of an OVA file on this machine.
        existing_vm_template_tag: a tag of a template on the server (Proxmox only).
    """

    image: str | None = None
    built_in: BuiltIn | Literal["tiny"] | None = None
    ova: Path | None = None
    existing_vm_template_tag: str | None = None


class VmNic(SpecModel, Address):
    """A network card.

    Attributes:
        vnet: the alias of the network that it is plugged into.
        mac: its address; chosen for you if left out.
        ipv4: the address that DHCP always gives it. Needs `mac`.
        vlan_tag: the VLAN it is in, on a network that is `vlan_aware`.
    """

    vnet: str
    ipv4: IPv4Address | None = None


class HealthCheck(SpecModel):
    """A command in the VM that must succeed before the VM counts as ready. Times are seconds."""

    test: tuple[str, ...] = Field(min_length=1)
    interval: float = Field(default=5, gt=0, allow_inf_nan=False)
    timeout: int = Field(default=30, gt=0)
    retries: int = Field(default=60, gt=0)
    start_period: float = Field(default=0, ge=0, allow_inf_nan=False)

    def to_spec(self) -> dict[str, Any]:
        """For the daemon, which does not try more often than ten times a second."""
        return {**self.model_dump(mode="json"), "interval": max(self.interval, INTERVAL_MIN)}

    @field_validator("test")
    @classmethod
    def _is_a_command(cls, test: tuple[str, ...]) -> tuple[str, ...]:
        if not test[0]:
            raise ValueError("test needs an executable as its first element")
        if any("\0" in argument for argument in test):
            raise ValueError("an argument must not contain NUL")
        return test


class CloudInit(SpecModel):
    """Documents for an image that runs cloud-init."""

    user_data: str | None = None
    meta_data: str | None = None
    network_config: str | None = None


class VmConfig(SpecModel):
    """A virtual machine.

    Attributes:
        source: where its disk comes from; a plain string is the name of an image.
        name: its host name, and its name in `sandbox(NAME)`.
        disk_gb: grow the disk to this size; as large as the image if left out.
        nics: its network cards. None: one, in the first network. Empty: none at all.
        is_sandbox: whether commands can be run in it. Needs the guest agent in the image.
        depends_on: the names of VMs that must be ready before this one is started.
        healthcheck: what "ready" means, beyond being up.
        user: who runs commands when none is named; the image says so if left out.
        native: settings for the driver alone, passed on as they are.
    """

    source: VmSource
    name: VmName = "default"
    ram_mb: int = Field(default=2048, ge=RAM_MB_MIN, le=RAM_MB_MAX)
    vcpus: int = Field(default=2, ge=1, le=VCPUS_MAX)
    disk_gb: int | None = Field(default=None, ge=1, le=DISK_GB_MAX)
    nics: tuple[VmNic, ...] | None = None
    is_sandbox: bool = True
    uefi_boot: bool = False
    disk_controller: Literal["virtio", "scsi", "ide"] | None = None
    nic_controller: Literal["virtio", "e1000"] | None = None
    os_type: OsType = "l26"
    cpu: str | None = None
    vga: Literal["none", "std"] = "none"
    tablet: bool = False
    firewall: bool = False
    warm: bool = True
    await_before_next_vm: bool = False
    depends_on: tuple[str, ...] = ()
    healthcheck: HealthCheck | None = None
    user: str | int | None = None
    cloud_init: CloudInit | None = Field(default=None, repr=False)
    native: dict[str, Any] = Field(default_factory=dict)

    @field_validator("source", mode="before")
    @classmethod
    def _text_is_an_image(cls, source: Any) -> Any:
        return {"image": source} if isinstance(source, str) else source


class DhcpRange(SpecModel):
    """Addresses that DHCP may give away, both ends included."""

    start: IPv4Address
    end: IPv4Address


class Subnet(SpecModel):
    """An IP network.

    Attributes:
        cidr: its addresses.
        gateway: the address of the router. Without one the subnet has no way out.
        snat: translate addresses, so that the world outside can answer.
        dhcp_ranges: what DHCP gives away. Without any, only cards with an `ipv4` get an address.
    """

    cidr: IPv4Network
    gateway: IPv4Address | None = None
    snat: bool = False
    dhcp_ranges: tuple[DhcpRange, ...] = ()


class EgressAllow(SpecModel):
    """What may be reached outside: names (`*.example.org` for all below it), networks, ports."""

    domains: tuple[str, ...] = ()
    cidrs: tuple[IPv4Network, ...] = ()
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = ()

    @model_validator(mode="after")
    def _allows_something(self) -> EgressAllow:
        if not self.domains and not self.cidrs:
            raise ValueError("at least one of domains and cidrs is needed")
        return self


class Egress(SpecModel):
    """A network with a way out to a few places only."""

    allow: EgressAllow


EgressType = Annotated[
    Annotated[Literal["deny", "open"], Tag(WORD)] | Annotated[Egress, Tag(OBJECT)],
    Discriminator(_word_or_object),
]


class Vnet(SpecModel):
    """A virtual network: a switch that only this sandbox is plugged into.

    Attributes:
        alias: the name by which network cards refer to it.
        vlan_aware: let VLAN tags through.
        dhcp: serve DHCP and DNS; as `Networks.dhcp` says if left out.
        egress: "deny", "open", or what is allowed. If left out, "deny".
            Anything else needs a subnet with `snat`.
        capture: a new file for everything that goes over it, as pcap; `{id}` in its name
            becomes the sandbox's id.
        subnets: its IP networks. Without any it is a bare switch.
    """

    alias: str = Field(min_length=1, max_length=256)
    vlan_aware: bool = False
    dhcp: bool | None = None
    capture: str | None = None
    egress: EgressType | None = None
    subnets: tuple[Subnet, ...] = ()


class Networks(SpecModel):
    """The networks of a sandbox; `dhcp` is what those have that do not say themselves."""

    vnets: tuple[Vnet, ...] = Field(min_length=1)
    dhcp: bool = True


NetworksType = Annotated[
    Annotated[Literal["auto", "none"], Tag(WORD)] | Annotated[Networks, Tag(OBJECT)],
    Discriminator(_word_or_object),
]


def _default_vms() -> tuple[VmConfig, ...]:
    image = os.environ.get("MOAT_DEFAULT_IMAGE") or DEFAULT_IMAGE
    return (VmConfig(source=VmSource(image=image)),)


class MoatSandboxEnvironmentConfig(SpecModel):
    """A sandbox: VMs, and the networks between them.

    Attributes:
        vms: the machines. The first one with `is_sandbox` is Inspect's default sandbox.
        networks: "auto" is one network with DHCP that all VMs share and that leads nowhere else;
            "none" is no network at all.
        driver: who runs the VMs.
        pool: which servers to use, for a driver that has several.
        native: settings for the driver alone, passed on as they are.
        standby: how many started sandboxes to keep ready for the next samples (local VMs only).
    """

    vms: tuple[VmConfig, ...] = Field(default_factory=_default_vms, min_length=1)
    networks: NetworksType | None = "auto"
    driver: Literal["qemu", "proxmox"] = "qemu"
    pool: str | None = None
    native: dict[str, Any] = Field(default_factory=dict)
    standby: int = Field(default=0, ge=0, le=STANDBY_MAX)

    @model_validator(mode="after")
    def _fits_together(self) -> MoatSandboxEnvironmentConfig:
        if self.standby and self.driver != "qemu":
            raise ValueError("standby: only sandboxes of the qemu driver can be kept ready")
        vnets = None
        if isinstance(self.networks, Networks):
            vnets = vnet_views("networks.vnets", self.networks.vnets)
        check_sandbox([_vm_view(i, vm) for i, vm in enumerate(self.vms)], vnets)
        return self

    @model_serializer(mode="wrap")
    def _written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return with_none(self, "networks", serialize)

    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        """The specification for the daemon. Paths become absolute: it has another directory."""
        spec = self.model_dump(mode="json", exclude_defaults=True, exclude={"standby"})
        spec["driver"] = self.driver
        spec["vms"] = [_vm_to_spec(vm, locate) for vm in self.vms]
        return spec

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> MoatSandboxEnvironmentConfig:
        """Read a specification from a YAML or JSON file.

        Raises:
            ValueError: the text names the file and the place in it.
        """
        location = Path(path)
        with open(location, encoding="utf-8") as file:
            text = file.read()
        try:
            content = json.loads(text) if location.suffix == ".json" else load_yaml(text)
        except (ValueError, yaml.YAMLError) as ex:
            raise ValueError(f"{location}: {ex}") from None
        if not isinstance(content, Mapping):
            raise ValueError(f"{location}: not a sandbox specification (an object with vms)")
        try:
            config = cls.model_validate(content)
        except ValidationError as ex:
            raise ValueError(f"{location}: {describe(ex)}") from None
        return config._with_paths_below(location.absolute().parent)

    def _with_paths_below(self, directory: Path) -> MoatSandboxEnvironmentConfig:
        vms = tuple(
            vm
            if vm.source.ova is None
            else vm.model_copy(update={"source": VmSource(ova=directory / vm.source.ova)})
            for vm in self.vms
        )
        return self.model_copy(update={"vms": vms})


def describe(error: ValidationError) -> str:
    """The errors in one line each, places written as in the specification: `vms[0].nics[1]`."""
    lines = []
    for item in error.errors(include_url=False, include_input=False):
        place = ""
        for part in item["loc"]:
            if part in (WORD, OBJECT):
                continue
            place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
        message = item["msg"].removeprefix("Value error, ")
        lines.append(f"{place}: {message}" if place else message)
    return "; ".join(lines)


def _vm_to_spec(vm: VmConfig, locate: Locate) -> dict[str, Any]:
    spec = vm.model_dump(mode="json", exclude_defaults=True)
    spec["name"] = vm.name
    if vm.source.ova is not None:
        spec["source"] = {"ova": locate(vm.source.ova)}
    if vm.healthcheck is not None:
        spec["healthcheck"] = vm.healthcheck.to_spec()
    return spec


def _vm_view(index: int, vm: VmConfig) -> VmView:
    place = f"vms[{index}]"
    nics = [
        NicView(f"{place}.nics[{i}]", nic.vnet, nic.mac, nic.ipv4, nic.vlan_tag)
        for i, nic in enumerate(vm.nics or ())
    ]
    return VmView(place, vm.name, vm.is_sandbox, vm.depends_on, nics)
