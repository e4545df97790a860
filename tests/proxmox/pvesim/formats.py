"""Formats of single values, and of the comma lists that a VM's configuration is made of."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

MAC = re.compile(r"[0-9a-f][02468ace](?::[0-9a-f]{2}){5}", re.IGNORECASE)
TAG = re.compile(r"[a-z0-9_][a-z0-9_\-+.]*", re.IGNORECASE)
LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?"


def by_pattern(pattern: str, what: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"invalid format - value does not look like a valid {what}")
        return text

    return check


def address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError("invalid format - value does not look like a valid IP address") from None
    return text


def network(text: str) -> str:
    try:
        if "/" not in text:
            raise ValueError
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("invalid format - value does not look like a valid CIDR network") from None
    return text


def mac(text: str) -> str:
    if not MAC.fullmatch(text):
        raise ValueError("invalid format - value does not look like a valid unicast MAC address")
    return text


def subnet_id(text: str) -> str:
    """Given as a network, known as ZONE-NETWORK-BITS."""
    return text if re.fullmatch(r"[a-zA-Z0-9]+-[0-9a-f.:]+-\d+", text) else network(text)


def dhcp_range(text: str) -> str:
    parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if set(parts) != {"start-address", "end-address"} or text.count(",") != 1:
        raise ValueError("invalid format - format error\n")
    for value in parts.values():
        address(value)
    return text


def tags(text: str) -> str:
    for tag in re.split(r"[,; ]", text):
        if tag and not TAG.fullmatch(tag):
            raise ValueError(f"invalid format - invalid characters in tag\n: {tag}")
    return text


def normal_tags(text: str) -> str:
    """As the server stores them."""
    return ";".join(sorted({tag.lower() for tag in re.split(r"[,; ]", text) if tag}))


FORMATS: dict[str, Callable[[str], str]] = {
    "pve-node": by_pattern(LABEL, "node name"),
    "dns-name": by_pattern(rf"{LABEL}(?:\.{LABEL})*", "DNS name"),
    "pve-storage-id": by_pattern(r"[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]", "storage ID"),
    "pve-poolid": by_pattern(r"[A-Za-z0-9._\-]+(?:/[A-Za-z0-9._\-]+){0,2}", "pool ID"),
    "pve-configid": by_pattern(r"[a-zA-Z][a-zA-Z0-9_\-]+", "configuration ID"),
    "pve-userid": by_pattern(r"[^\s:/]+@[A-Za-z][A-Za-z0-9.\-_]+", "user name"),
    "pve-realm": by_pattern(r"[A-Za-z][A-Za-z0-9.\-_]+", "realm"),
    "pve-tag-list": tags,
    "mac-addr": mac,
    "ip": address,
    "CIDR": network,
    "pve-sdn-subnet-id": subnet_id,
    "pve-sdn-dhcp-range": dhcp_range,
}

DRIVE = {
    "file",
    "volume",
    "aio",
    "backup",
    "bps",
    "bps_max_length",
    "bps_rd",
    "bps_rd_max_length",
    "bps_wr",
    "bps_wr_max_length",
    "cache",
    "detect_zeroes",
    "discard",
    "format",
    "import-from",
    "iops",
    "iops_max",
    "iops_rd",
    "iops_wr",
    "iothread",
    "mbps",
    "mbps_max",
    "mbps_rd",
    "mbps_wr",
    "media",
    "model",
    "product",
    "queues",
    "replicate",
    "rerror",
    "ro",
    "scsiblock",
    "serial",
    "shared",
    "size",
    "snapshot",
    "ssd",
    "vendor",
    "werror",
    "wwn",
    "efitype",
    "ms-cert",
    "pre-enrolled-keys",
    "version",
}
MODELS = {
    "virtio",
    "e1000",
    "e1000e",
    "rtl8139",
    "vmxnet3",
    "ne2k_pci",
    "pcnet",
    "i82551",
    "i82557b",
    "i82559er",
}
NET = {
    "bridge",
    "firewall",
    "link_down",
    "macaddr",
    "model",
    "mtu",
    "queues",
    "rate",
    "tag",
    "trunks",
} | MODELS
AGENT = {"enabled", "type", "fstrim_cloned_disks", "freeze-fs-on-backup", "guest-fsfreeze"}
COMMA_LISTS: dict[str, tuple[set[str], str]] = {
    "net": (NET, "model"),
    "scsi": (DRIVE, "file"),
    "ide": (DRIVE, "file"),
    "sata": (DRIVE, "file"),
    "virtio": (DRIVE, "file"),
    "efidisk": (DRIVE, "file"),
    "tpmstate": (DRIVE, "file"),
    "agent": (AGENT, "enabled"),
}


def split_list(text: str, default: str) -> dict[str, str]:
    """Parts of a comma list; the part without a name is the default's."""
    parts: dict[str, str] = {}
    for part in text.split(","):
        name, found, value = part.partition("=")
        if not found:
            name, value = default, part
        if name in parts:
            raise ValueError(
                f"invalid format - duplicate key in comma-separated list property: {name}\n"
            )
        parts[name] = value
    return parts


def check_config_value(name: str, text: str) -> str:
    known = COMMA_LISTS.get(name.rstrip("0123456789"))
    if not known or not text:
        return text
    names, default = known
    for part, value in split_list(text, default).items():
        if part not in names:
            raise ValueError(
                f"invalid format - format error\n{name}.{part}: property is not defined "
                "in schema and the "
                "schema does not allow additional properties\n"
            )
        if part in MODELS | {"macaddr"} and names is NET and value:
            mac(value)
        if part == "model" and names is NET and value not in MODELS:
            raise ValueError(
                f"invalid format - format error\n{name}.model: value '{value}' is not in "
                "the enumeration\n"
            )
    return text
