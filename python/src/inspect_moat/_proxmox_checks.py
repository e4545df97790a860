"""What the classes of the Proxmox plugin refuse when they are made, in the words of that plugin.

Evals and test suites written for it expect a ValidationError there and then, where no daemon can be
asked. The daemon refuses all of this as well; whatever else is wrong it alone says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
DNS_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_NAME_MAX = 63
_NETWORKS_MAX = 10

_MAC_FORMS = (
    re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}"),
    re.compile(r"[0-9a-f]{2}(?:-[0-9a-f]{2}){5}"),
    re.compile(r"[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}"),
)


class Vm(Protocol):
    """A VM of a configuration, as far as it is checked here."""

    @property
    def is_sandbox(self) -> bool: ...
    @property
    def depends_on(self) -> Sequence[str]: ...


def normal_mac(value: str) -> str:
    """The address as six pairs of lower-case digits with colons.

    Raises:
        ValueError: it is no MAC address.
    """
    lower = value.strip().lower()
    if not any(form.fullmatch(lower) for form in _MAC_FORMS):
        raise ValueError(f"{value!r} is not a MAC address such as 52:54:00:12:34:56")
    digits = re.sub(r"[^0-9a-f]", "", lower)
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))


def check_one_source(source: BaseModel, fields: Sequence[str]) -> None:
    """Refuse a source of which not exactly one of these fields is set."""
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


def check_vms(names: Sequence[str], vms: Sequence[Vm]) -> None:
    """Refuse VMs whose names or dependencies do not fit together.

    Raises:
        ValueError: the text names the VM.
    """
    _check_names(names, vms)
    _check_dependencies(names, vms)


def _check_names(names: Sequence[str], vms: Sequence[Vm]) -> None:
    first_sandbox = next((i for i, vm in enumerate(vms) if vm.is_sandbox), None)
    if first_sandbox is None:
        raise ValueError("No default sandbox found: no VM has is_sandbox=True")
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        key = name.lower()  # host names that differ only in case are the same
        if key == "default" and index != first_sandbox:
            raise ValueError(
                f"vms_config[{index}] is named 'default' (the default of a VM that was given no "
                "name), which is reserved for the first is_sandbox VM: give this one another name"
            )
        if key in seen:
            raise ValueError(
                f"vms_config[{index}].name: Duplicate VM name {name!r} at "
                f"vms_config[{seen[key]}] and vms_config[{index}]: "
                "sandbox() finds a VM by its name, so give one of them another"
            )
        seen[key] = index


def check_networks(has_dhcp: bool, ranges: Sequence[int]) -> None:
    """Refuse networks whose settings for DHCP contradict each other.

    Args:
        has_dhcp: whether the server is to give addresses away.
        ranges: how many ranges of addresses each network has for that.

    Raises:
        ValueError: the text says what to write instead.
    """
    if len(ranges) > _NETWORKS_MAX:
        raise ValueError(f"sdn_config: {len(ranges)} vnets, there may be {_NETWORKS_MAX}")
    if has_dhcp and not any(ranges):
        raise ValueError(
            "sdn_config: no subnet has dhcp_ranges, which use_pve_ipam_dnsnmasq=True needs; "
            "give one some, or set use_pve_ipam_dnsnmasq=False"
        )
    if not has_dhcp and any(ranges):
        raise ValueError(
            "sdn_config: there are dhcp_ranges, which use_pve_ipam_dnsnmasq=False has no use for; "
            "leave them out, or set use_pve_ipam_dnsnmasq=True"
        )


def check_os_type(index: int, os_type: str | None) -> None:
    """Refuse a kind of system for a VM whose source has its own.

    Raises:
        ValueError: it is not the one of all built-in systems.
    """
    if os_type != "l26":
        raise ValueError(
            f"vms_config[{index}].os_type: {os_type!r} is not what built_in systems are; "
            "leave it out, or take an ova or existing_vm_template_tag"
        )


def _check_dependencies(names: Sequence[str], vms: Sequence[Vm]) -> None:
    indices = {name.lower(): index for index, name in enumerate(names)}
    waiting: dict[int, list[int]] = {}
    for index, (name, vm) in enumerate(zip(names, vms, strict=True)):
        waiting[index] = []
        for place, needed in enumerate(vm.depends_on):
            where = f"vms_config[{index}].depends_on[{place}]"
            other = indices.get(needed.lower())
            if other is None:
                raise ValueError(
                    f"{where}: {name!r} depends on unknown VM {needed!r}. "
                    f"Known names: {sorted(names)}"
                )
            if other == index:
                raise ValueError(f"{where}: {name!r} depends on itself")
            if other in waiting[index]:
                raise ValueError(f"{where}: {name!r} lists a duplicate dependency, {needed!r}")
            waiting[index].append(other)
    while waiting:
        ready = [index for index, needs in waiting.items() if waiting.keys().isdisjoint(needs)]
        if not ready:
            cycle = " -> ".join(repr(names[index]) for index in _a_cycle(waiting))
            raise ValueError(f"VM dependency cycle: {cycle}")
        for index in ready:
            del waiting[index]


def _a_cycle(waiting: Mapping[int, Sequence[int]]) -> list[int]:
    """A cycle among VMs each of which waits for another; its first VM is its last as well."""
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:
        path.append(next(needed for needed in waiting[path[-1]] if needed in waiting))
    return path[path.index(path[-1]) :]
