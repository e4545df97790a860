"""The sandbox specification as Python classes: what `sandbox=("moat", ...)` takes.

The classes say which members there are and of what type, so that an editor can complete them. What
is right and wrong is the daemon's to say, which is asked before the first sample: rules that were
written here as well would differ from those of `moat up` sooner or later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
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
from typing_extensions import Self, override

from ._relative_paths import Locate
from ._yaml import load_json, load_yaml

STANDBY_MAX = 64  # the daemon's own limit
DEFAULT_IMAGE = "debian12"

OsType = Literal[
    "l24", "l26", "other", "solaris",
    "w2k", "w2k3", "w2k8", "win7", "win8", "win10", "win11", "wvista", "wxp",
]  # fmt: skip
# Systems that a Proxmox server can be given, those of all versions of the Proxmox plugin included.
BuiltIn = Literal["ubuntu24.04", "debian12", "debian13", "kali", "kali2025.4", "kali2025.3"]


def _without_fraction(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _address_as_text(value: Any) -> Any:
    is_address = isinstance(value, (IPv4Address, IPv6Address, IPv4Network, IPv6Network))
    return str(value) if is_address else value


# The types of JSON, which are stricter than pydantic's own: "2048" is no number, 1 is not true.
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# 2048.0 is a whole number too. More than 64 bits would be no number for the daemon, but an error
# that ends the connection.
Whole = Annotated[
    int, Field(strict=True, ge=-(2**63), lt=2**63), BeforeValidator(_without_fraction)
]

if TYPE_CHECKING:
    IPv4Text = str | IPv4Address
    IPv4NetworkText = str | IPv4Network
else:  # kept as text, so that a configuration equals the one that is read back from a log
    IPv4Text = IPv4NetworkText = Annotated[str, BeforeValidator(_address_as_text)]


# Tags of a text and of all other values. They are told apart before they are validated, so that an
# error is about the form that was meant, not about all forms.
TEXT, OTHER = "<text>", "<other>"


def _text_or_other(value: Any) -> str:
    return TEXT if isinstance(value, str) else OTHER


class SandboxConfig(BaseModel):
    """The configuration that a provider takes."""

    reads_files: ClassVar[bool] = False  # whether there is from_file()

    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        """The specification for the daemon. Paths become absolute: it has another directory."""
        raise NotImplementedError

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read the configuration from a file."""
        raise NotImplementedError


class SpecModel(BaseModel):
    """A part of a specification: cannot be changed, can be hashed, refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    # the members where null does not mean the same as leaving out
    null_stands: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        fields = cls.model_fields
        optional = {name for name, field in fields.items() if not field.is_required()}
        absent = optional.difference(cls.null_stands)
        return {k: v for k, v in values.items() if v is not None or k not in absent}

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


class Dockerfile(SpecModel):
    """A container image that is built when it is missing or what it is made of has changed.

    Attributes:
        context: the directory that COPY and ADD see.
        file: the Dockerfile, below `context` or by its absolute path.
        target: the stage to build; the last if left out.
        args: values of the Dockerfile's ARGs.
    """

    context: Path
    file: str = "Dockerfile"
    target: str | None = None
    args: dict[str, str] = Field(default_factory=dict)


class VmSource(SpecModel):
    """Where a VM's disk comes from: exactly one of these.

    Attributes:
        image: the name of an image in moat's store (`moat image ls`); built if it is not there.
        built_in: a system that moat knows how to get.
        ova: the path of an OVA file on this machine.
        existing_vm_template_tag: a tag of a template on the server (Proxmox only).
        oci: a container image of a registry; got when it is missing (local VMs only).
        dockerfile: a container image that is built (local VMs only).
    """

    image: str | None = None
    built_in: BuiltIn | Literal["tiny"] | None = None
    ova: Path | None = None
    existing_vm_template_tag: str | None = None
    oci: str | None = None
    dockerfile: Dockerfile | None = None


class VmNic(SpecModel):
    """A NIC.

    Attributes:
        vnet: the alias of the network that it is plugged into.
        mac: its address; chosen for you if left out.
        ipv4: the address that DHCP always gives it. Needs `mac`.
        vlan_tag: the VLAN it is in, on a network that is `vlan_aware`.
    """

    vnet: str
    mac: str | None = None
    ipv4: IPv4Text | None = None
    vlan_tag: Whole | None = None


class HealthCheck(SpecModel):
    """A command in the VM that must succeed before the VM counts as ready. Times are seconds."""

    test: tuple[str, ...]
    interval: Number = 5
    timeout: Whole = 30
    retries: Whole = 60
    start_period: Number = 0


class CloudInit(SpecModel):
    """Documents for an image that runs cloud-init."""

    user_data: str | None = None
    meta_data: str | None = None
    network_config: str | None = None


class GuestFile(SpecModel):
    """A file that is put onto a VM's disk before it boots.

    Attributes:
        content, content_base64, host_file: its text, its bytes, or a file on the daemon's machine.
        mode: its permissions in octal digits.
        owner: the numbers of its user and group.
    """

    path: str
    content: str | None = Field(default=None, repr=False)
    content_base64: str | None = Field(default=None, repr=False)
    host_file: str | None = None
    mode: str = "0644"
    owner: str = "0:0"


class DependsOn(SpecModel):
    """A VM to wait for, by its name: until it is ready, has started, or its service has ended."""

    vm: str
    condition: Literal["healthy", "started", "completed"] = "healthy"


class Forward(SpecModel):
    """A TCP port of 127.0.0.1 that leads to `port` of the VM; `host_port` 0 is any free one."""

    port: Whole
    host_port: Whole = 0


class Tmpfs(SpecModel):
    """A file system in memory; half of the memory is its size if none is given."""

    path: str
    size_mb: Whole | None = None
    mode: str | None = None


class Bind(SpecModel):
    """A file or directory of the daemon's machine, of which the VM has a copy at `path`."""

    host: Path
    path: str
    read_only: Flag = False


def _as_tmpfs(values: Any) -> Any:
    if not isinstance(values, (list, tuple)):
        return values
    return [{"path": value} if isinstance(value, str) else value for value in values]


UserType = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[Whole, Tag(OTHER)], Discriminator(_text_or_other)
]


class Service(SpecModel):
    """How the service of a VM made of a container image runs; what is left out is the image's.

    Attributes:
        name: commands and DNS know the VM by it, too; the VM's name if left out.
        entrypoint: the program; if it is given, the image's command does not count.
        command: what comes after the entrypoint.
        environment: variables, over those of the image.
        extra_hosts: names for /etc/hosts, each with an IPv4 address or "gateway".
        binds: files and directories of the daemon's machine, of which the VM has a copy.
        volumes: directories that are made where the image has none.
    """

    name: str | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: dict[str, str] = Field(default_factory=dict, repr=False)
    working_dir: str | None = None
    user: UserType | None = None
    restart: Literal["no", "always", "on-failure", "unless-stopped"] = "no"
    restart_max: Whole = 0
    shm_size_mb: Whole = 64
    tmpfs: Annotated[tuple[Tmpfs, ...], BeforeValidator(_as_tmpfs)] = ()
    hostname: str | None = None
    extra_hosts: dict[str, str] = Field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    volumes: tuple[str, ...] = ()
    sysctls: dict[str, str] = Field(default_factory=dict)
    ulimits: dict[str, str] = Field(default_factory=dict)


DependsOnType = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[DependsOn, Tag(OTHER)], Discriminator(_text_or_other)
]
HealthCheckType = Annotated[
    Annotated[Literal["none"], Tag(TEXT)] | Annotated[HealthCheck, Tag(OTHER)],
    Discriminator(_text_or_other),
]


class VmConfig(SpecModel):
    """A virtual machine.

    Attributes:
        source: where its disk comes from; a plain string is the name of an image.
        name: its host name, and its name in `sandbox(NAME)`. The first VM with `is_sandbox` is
            "default" if it has none.
        disk_gb: grow the disk to this size; as large as the image if left out.
        cdrom: the path of an ISO image on this machine, as a CD (local VMs only).
        nics: its NICs. None: one, in the first network. Empty: none at all.
        is_sandbox: whether commands can be run in it. Needs the guest agent in the image.
        ram_mb: memory in MiB; 2048 if left out, and 512 for container images.
        depends_on: the names of VMs that must be ready before this one is started.
        healthcheck: what "ready" means, beyond being up; "none": not even what a container image
            says itself.
        ready_port: a TCP port; the VM is ready when it takes connections there.
        user: who runs commands if the caller names no user; the default of the image if left out.
        files: what is put onto its disk before it boots.
        service: how the service of a container image runs.
        forwards: ports of 127.0.0.1 that lead to ports of the VM.
        aliases: more names for it in DNS.
        native: settings for the driver alone, passed on as they are.
    """

    source: VmSource
    name: str | None = None
    ram_mb: Whole | None = None
    vcpus: Whole = 2
    disk_gb: Whole | None = None
    cdrom: Path | None = None
    nics: tuple[VmNic, ...] | None = None
    is_sandbox: Flag = True
    uefi_boot: Flag = False
    disk_controller: Literal["virtio", "scsi", "ide"] | None = None
    nic_controller: Literal["virtio", "e1000"] | None = None
    os_type: OsType = "l26"
    cpu: str | None = None
    vga: Literal["none", "std"] = "none"
    tablet: Flag | None = None
    firewall: Flag = False
    warm: Flag = True
    await_before_next_vm: Flag = False
    depends_on: tuple[DependsOnType, ...] = ()
    healthcheck: HealthCheckType | None = None
    ready_port: Whole | None = None
    user: UserType | None = None
    cloud_init: CloudInit | None = Field(default=None, repr=False)
    files: tuple[GuestFile, ...] = ()
    service: Service | None = None
    forwards: tuple[Forward, ...] = ()
    aliases: tuple[str, ...] = ()
    native: dict[str, Any] = Field(default_factory=dict)

    @field_validator("source", mode="before")
    @classmethod
    def _text_is_an_image(cls, source: Any) -> Any:
        return {"image": source} if isinstance(source, str) else source


class DhcpRange(SpecModel):
    """Addresses that DHCP may give away, both ends included."""

    start: IPv4Text
    end: IPv4Text


class Subnet(SpecModel):
    """An IP network.

    Attributes:
        cidr: its addresses.
        gateway: the address of the router. Without one the subnet has no way out.
        snat: translate addresses, so that the world outside can answer.
        dhcp_ranges: what DHCP gives away. Without any, only NICs with an `ipv4` get an address.
    """

    cidr: IPv4NetworkText
    gateway: IPv4Text | None = None
    snat: Flag = False
    dhcp_ranges: tuple[DhcpRange, ...] = ()


class EgressAllow(SpecModel):
    """What may be reached outside: names (`*.example.org` for all below it), networks, ports."""

    domains: tuple[str, ...] = ()
    cidrs: tuple[IPv4NetworkText, ...] = ()
    ports: tuple[Whole, ...] = ()


class Egress(SpecModel):
    """The egress of a network from which only some places can be reached."""

    allow: EgressAllow


EgressType = Annotated[
    Annotated[Literal["deny", "open"], Tag(TEXT)] | Annotated[Egress, Tag(OTHER)],
    Discriminator(_text_or_other),
]


class Vnet(SpecModel):
    """A virtual network: a switch that only this sandbox is plugged into.

    Attributes:
        alias: the name by which NICs refer to it.
        vlan_aware: let VLAN tags through.
        dhcp: serve DHCP and DNS; as `Networks.dhcp` says if left out.
        egress: "deny", "open", or what is allowed. If left out, "deny".
            Anything else needs a subnet with `snat`.
        capture: a new file for everything that goes over it, as pcap; `{id}` in its name
            becomes the sandbox's id.
        gateway_vm: the VM, a router, that DHCP names as the default route.
        subnets: its IP networks. Without any it is a bare switch.
    """

    alias: str
    vlan_aware: Flag = False
    dhcp: Flag | None = None
    capture: str | None = None
    gateway_vm: str | None = None
    egress: EgressType | None = None
    subnets: tuple[Subnet, ...] = ()


class Networks(SpecModel):
    """The networks of a sandbox; `dhcp` is what those have that do not say themselves."""

    vnets: tuple[Vnet, ...]
    dhcp: Flag = True


NetworksType = Annotated[
    Annotated[Literal["auto", "none"], Tag(TEXT)] | Annotated[Networks, Tag(OTHER)],
    Discriminator(_text_or_other),
]


def _default_vms() -> tuple[VmConfig, ...]:
    image = os.environ.get("MOAT_DEFAULT_IMAGE") or DEFAULT_IMAGE
    return (VmConfig(source=VmSource(image=image)),)


class MoatSandboxEnvironmentConfig(SpecModel, SandboxConfig):
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

    reads_files = True
    null_stands = ("vms", "networks")

    vms: tuple[VmConfig, ...] = Field(default_factory=_default_vms)
    networks: NetworksType | None = "auto"
    driver: Literal["qemu", "proxmox"] = "qemu"
    pool: str | None = None
    native: dict[str, Any] = Field(default_factory=dict)
    standby: int = Field(default=0, ge=0, le=STANDBY_MAX)

    # No member of the specification, and the daemon answers a request for it only at the end.
    @model_validator(mode="after")
    def _standby_is_local(self) -> MoatSandboxEnvironmentConfig:
        if self.standby and self.driver != "qemu":
            raise ValueError("standby: only sandboxes of the qemu driver can be kept ready")
        return self

    @model_serializer(mode="wrap")
    def _written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return with_none(self, "networks", serialize)

    @override
    def to_spec(self, locate: Locate = os.path.abspath) -> dict[str, Any]:
        spec = self.model_dump(mode="json", exclude_defaults=True, exclude={"standby"})
        spec["driver"] = self.driver
        spec["vms"] = [vm.model_dump(mode="json", exclude_defaults=True) for vm in self.vms]
        return with_absolute_paths(spec, locate)

    @classmethod
    @override
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a specification from a YAML or JSON file.

        Raises:
            ValueError: the text names the file and the place in it.
        """
        location = Path(path)
        with open(location, encoding="utf-8") as file:
            text = file.read()
        try:
            content = load_json(text) if location.suffix == ".json" else load_yaml(text)
        except (ValueError, yaml.YAMLError) as ex:
            raise ValueError(f"{location}: {ex}") from None
        if not isinstance(content, Mapping):
            raise ValueError(f"{location}: not a sandbox specification (an object with vms)")
        try:
            config = cls.model_validate(content)
        except ValidationError as ex:
            raise ValueError(f"{location}: {describe(ex)}") from None
        return config._with_paths_below(location.absolute().parent)

    def _with_paths_below(self, directory: Path) -> Self:
        below = {"vms": tuple(_vm_below(vm, directory) for vm in self.vms)}
        return self.model_copy(update=below)


def _vm_below(vm: VmConfig, directory: Path) -> VmConfig:
    changed: dict[str, Any] = {}
    if vm.source.ova:
        changed["source"] = vm.source.model_copy(update={"ova": directory / vm.source.ova})
    if dockerfile := vm.source.dockerfile:
        built = dockerfile.model_copy(update={"context": directory / dockerfile.context})
        changed["source"] = vm.source.model_copy(update={"dockerfile": built})
    if vm.cdrom:
        changed["cdrom"] = directory / vm.cdrom
    if vm.service:
        binds = tuple(
            bind.model_copy(update={"host": directory / bind.host}) for bind in vm.service.binds
        )
        changed["service"] = vm.service.model_copy(update={"binds": binds})
    return vm.model_copy(update=changed)


def describe(error: ValidationError) -> str:
    """The errors in one line each, places written as in the specification: `vms[0].nics[1]`."""
    lines = []
    for item in error.errors(include_url=False, include_input=False):
        place = ""
        for part in item["loc"]:
            if part in (TEXT, OTHER):
                continue
            place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else part
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            message = f"unknown member{_suggestion(str(item['loc'][-1]))}"
        lines.append(f"{place}: {message}" if place else message)
    return "; ".join(lines)


def _suggestion(name: str) -> str:
    """What may have been meant by a name that no part of a specification has."""
    known = {field for model in _models(SpecModel) for field in model.model_fields}
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    if not close and len(name) >= 3:
        close = sorted(field for field in known if field.startswith(name))
    return f'; did you mean "{close[0]}"?' if close else ""


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield base
    for model in base.__subclasses__():
        yield from _models(model)


def with_absolute_paths(spec: dict[str, Any], locate: Locate) -> dict[str, Any]:
    """The specification, with absolute paths for the files that VMs are made from."""
    for vm in spec["vms"]:
        if vm["source"].get("ova"):
            vm["source"]["ova"] = locate(vm["source"]["ova"])
        if dockerfile := vm["source"].get("dockerfile"):
            dockerfile["context"] = locate(dockerfile["context"])
        if vm.get("cdrom"):
            vm["cdrom"] = locate(vm["cdrom"])
        for bind in (vm.get("service") or {}).get("binds", ()):
            bind["host"] = locate(bind["host"])
    return spec
