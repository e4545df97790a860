"""What a sandbox configuration must fulfil as a whole, whatever its fields are called.

The models of this package and the drop-in models of other packages describe the same things under
different names. Each translates itself into the views below, which carry the place that an error
has to name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Protocol

from pydantic import BaseModel

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
DNS_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_NAME_MAX = 63

_MAC_FORMS = (
    re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}"),
    re.compile(r"[0-9a-f]{2}(?:-[0-9a-f]{2}){5}"),
    re.compile(r"[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}"),
)


@dataclass(frozen=True)
class NicView:
    place: str
    vnet: str
    mac: str | None
    ipv4: Address | None
    vlan_tag: int | None
    vnet_field: str = "vnet"


@dataclass(frozen=True)
class VmView:
    place: str
    name: str
    is_sandbox: bool
    depends_on: Sequence[str]
    nics: Sequence[NicView]


@dataclass(frozen=True)
class SubnetView:
    place: str
    cidr: Network
    gateway: Address | None
    ranges: Sequence[tuple[Address, Address]]


@dataclass(frozen=True)
class VnetView:
    place: str
    alias: str | None
    vlan_aware: bool
    subnets: Sequence[SubnetView]


class _Range(Protocol):
    @property
    def start(self) -> Address: ...
    @property
    def end(self) -> Address: ...


class _Subnet(Protocol):
    @property
    def cidr(self) -> Network: ...
    @property
    def gateway(self) -> Address | None: ...
    @property
    def dhcp_ranges(self) -> Sequence[_Range]: ...


class _Vnet(Protocol):
    """Networks are the same in all models but for their place."""

    @property
    def alias(self) -> str | None: ...
    @property
    def vlan_aware(self) -> bool: ...
    @property
    def subnets(self) -> Sequence[_Subnet]: ...


def vnet_views(place: str, vnets: Sequence[_Vnet]) -> list[VnetView]:
    """Networks as the checks want them; place is that of the list."""

    def subnet_view(place: str, subnet: _Subnet) -> SubnetView:
        ranges = [(entry.start, entry.end) for entry in subnet.dhcp_ranges]
        return SubnetView(place, subnet.cidr, subnet.gateway, ranges)

    def view(place: str, vnet: _Vnet) -> VnetView:
        subnets = [subnet_view(f"{place}.subnets[{i}]", s) for i, s in enumerate(vnet.subnets)]
        return VnetView(place, vnet.alias, vnet.vlan_aware, subnets)

    return [view(f"{place}[{i}]", vnet) for i, vnet in enumerate(vnets)]


def normal_mac(value: str) -> str:
    """The address as six pairs of lower-case digits with colons.

    Raises:
        ValueError: it is not a MAC address, or one that no single machine can have.
    """
    lower = value.strip().lower()
    if not any(form.fullmatch(lower) for form in _MAC_FORMS):
        raise ValueError(f"{value!r} is not a MAC address such as 52:54:00:12:34:56")
    digits = re.sub(r"[^0-9a-f]", "", lower)
    if int(digits[:2], 16) & 1:
        raise ValueError(f"{value!r} is a multicast address, not that of a network card")
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def check_one_source(source: BaseModel) -> None:
    """Refuse a source of which not exactly one field is set."""
    fields = type(source).model_fields
    given = [name for name in fields if getattr(source, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise ValueError(f"Exactly one source must be set, of {', '.join(fields)}; not {found}")


def check_vm_name(name: str) -> str:
    """Refuse what is no DNS name: it becomes the host name and the name in Inspect."""
    if len(name) > _NAME_MAX or not DNS_NAME.match(name):
        raise ValueError(
            f"{name!r} is not a valid DNS name (letters, digits and hyphens, at most {_NAME_MAX})"
        )
    return name


def check_sandbox(vms: Sequence[VmView], vnets: Sequence[VnetView] | None) -> None:
    """Check VMs and networks against each other.

    Args:
        vms: the machines.
        vnets: the networks, or None when somebody else defines them.

    Raises:
        ValueError: the text names the place.
    """
    _check_names(vms)
    _check_dependencies(vms)
    _check_unique_nics(vms)
    if vnets is not None:
        _check_networks(vnets)
        _check_nics(vms, vnets)


def _check_names(vms: Sequence[VmView]) -> None:
    first_sandbox = next((vm for vm in vms if vm.is_sandbox), None)
    if first_sandbox is None:
        raise ValueError("No default sandbox found: no VM has is_sandbox=True")
    seen: dict[str, str] = {}
    for vm in vms:
        if vm.name.lower() == "default" and vm is not first_sandbox:
            raise ValueError(
                f"{vm.place} is named 'default' (the default of a VM that was given no name), "
                "which is reserved for the first is_sandbox VM: give this one another name"
            )
        key = vm.name.lower()  # host names that differ only in case are the same
        if key in seen:
            raise ValueError(
                f"{vm.place}.name: Duplicate VM name {vm.name!r} at {seen[key]} and {vm.place}"
            )
        seen[key] = vm.place


def _check_dependencies(vms: Sequence[VmView]) -> None:
    names = {vm.name for vm in vms}
    for vm in vms:
        for index, needed in enumerate(vm.depends_on):
            place = f"{vm.place}.depends_on[{index}]"
            if needed == vm.name:
                raise ValueError(f"{place}: {vm.name!r} depends on itself")
            if needed not in names:
                raise ValueError(
                    f"{place}: {vm.name!r} depends on unknown VM {needed!r}. "
                    f"Known names: {sorted(names)}"
                )
            if needed in list(vm.depends_on)[:index]:
                raise ValueError(f"{place}: {vm.name!r} lists a duplicate dependency, {needed!r}")
    waiting = {vm.name: list(vm.depends_on) for vm in vms}
    while waiting:
        ready = [name for name, needs in waiting.items() if waiting.keys().isdisjoint(needs)]
        if not ready:
            raise ValueError(f"VM dependency cycle: {_a_cycle(waiting)}")
        for name in ready:
            del waiting[name]


def _a_cycle(waiting: Mapping[str, Sequence[str]]) -> str:
    """One of those among VMs each of which waits for another: as 'a' -> 'b' -> 'a'."""
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:
        path.append(next(needed for needed in waiting[path[-1]] if needed in waiting))
    return " -> ".join(repr(name) for name in path[path.index(path[-1]) :])


def _check_unique_nics(vms: Sequence[VmView]) -> None:
    macs: dict[str, str] = {}
    for vm in vms:
        for nic in vm.nics:
            if nic.ipv4 is not None and nic.mac is None:
                raise ValueError(f"{nic.place}.ipv4: an ipv4 address requires a mac address")
            if nic.mac is not None:
                if nic.mac in macs:
                    raise ValueError(
                        f"{nic.place}.mac: {nic.mac} is already that of {macs[nic.mac]}"
                    )
                macs[nic.mac] = nic.place


def _check_networks(vnets: Sequence[VnetView]) -> None:
    aliases: dict[str, str] = {}
    for vnet in vnets:
        if vnet.alias is not None:
            if vnet.alias in aliases:
                raise ValueError(
                    f'{vnet.place}.alias: "{vnet.alias}" is already that of {aliases[vnet.alias]}'
                )
            aliases[vnet.alias] = vnet.place
    subnets = [subnet for vnet in vnets for subnet in vnet.subnets]
    for index, subnet in enumerate(subnets):
        _check_subnet(subnet)
        for other in subnets[:index]:
            if subnet.cidr.version == other.cidr.version and subnet.cidr.overlaps(other.cidr):
                raise ValueError(
                    f"{subnet.place}.cidr: {subnet.cidr} overlaps {other.cidr} of {other.place}"
                )


def _check_subnet(subnet: SubnetView) -> None:
    if subnet.gateway is not None and subnet.gateway not in subnet.cidr:
        raise ValueError(f"{subnet.place}.gateway: {subnet.gateway} is not in {subnet.cidr}")
    for index, (start, end) in enumerate(subnet.ranges):
        place = f"{subnet.place}.dhcp_ranges[{index}]"
        for name, address in (("start", start), ("end", end)):
            if address not in subnet.cidr:
                raise ValueError(f"{place}.{name}: {address} is not in {subnet.cidr}")
        if int(start) > int(end):
            raise ValueError(f"{place}: the range ends before it starts")
        if subnet.gateway is not None and int(start) <= int(subnet.gateway) <= int(end):
            raise ValueError(f"{place}: the gateway {subnet.gateway} is inside the range")


def _check_nics(vms: Sequence[VmView], vnets: Sequence[VnetView]) -> None:
    by_alias = {vnet.alias: vnet for vnet in vnets if vnet.alias is not None}
    taken: dict[tuple[str, Address], str] = {}
    for nic in (nic for vm in vms for nic in vm.nics):
        vnet = by_alias.get(nic.vnet)
        if vnet is None:
            known = f" (there are {_names(by_alias)})" if by_alias else ""
            raise ValueError(
                f'{nic.place}.{nic.vnet_field}: no network has the alias "{nic.vnet}"{known}'
            )
        if nic.vlan_tag is not None and not vnet.vlan_aware:
            raise ValueError(f'{nic.place}.vlan_tag: the network "{nic.vnet}" is not vlan_aware')
        if nic.ipv4 is not None:
            if not any(nic.ipv4 in subnet.cidr for subnet in vnet.subnets):
                raise ValueError(f'{nic.place}.ipv4: {nic.ipv4} is in no subnet of "{nic.vnet}"')
            if any(nic.ipv4 == subnet.gateway for subnet in vnet.subnets):
                raise ValueError(f"{nic.place}.ipv4: {nic.ipv4} is the address of the gateway")
            key = (nic.vnet, nic.ipv4)
            if key in taken:
                raise ValueError(f"{nic.place}.ipv4: {nic.ipv4} is already that of {taken[key]}")
            taken[key] = nic.place


def _names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
