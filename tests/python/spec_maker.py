"""Specifications made from `moat schema`: right ones, and ones that are broken in one place.

The schema says what there is to be written. What one member must be to fit another, which no schema
can say, is mended afterwards.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

OPTIONAL = 0.4  # how likely a member is given that may be left out
ITEMS_MAX = 3

# Texts that follow the pattern of a member, or of the items of a list.
TEXTS = {
    "alias": ["lan", "my lan"],
    "aliases": ["vm_1", "www.example.org"],
    "built_in": [],  # the schema lists them
    "capture": ["/tmp/{id}.pcap"],
    "cdrom": ["/bin/sh"],  # any file that can be read
    "command": ["-c", "exit 0\n", ""],
    "context": ["/srv/evals"],
    "cidr": ["10.0.0.0/24"],
    "cidrs": ["192.0.2.0/24", "192.0.2.1/32"],
    "content": ["flag\n", ""],
    "content_base64": ["", "Zmxh", "Zg=="],
    "cpu": ["host", "qemu64,+aes"],
    "depends_on": ["vm1"],
    "domains": ["example.org", "*.example.org"],
    "end": ["10.0.0.9"],
    "entrypoint": ["/bin/sh"],
    "existing_vm_template_tag": ["inspect"],
    "file": ["Dockerfile"],
    "gateway": ["10.0.0.1"],
    "gateway_vm": ["vm1"],
    "host": ["/srv/evals"],
    "host_file": ["/bin/sh"],
    "hostname": ["vm1", "vm1.example.org"],
    "image": ["mine"],
    "ipv4": ["10.0.0.5"],
    "mac": ["52:54:00:00:00:01"],
    "meta_data": ["", "instance-id: one\n"],
    "mode": ["0644", "600"],
    "name": ["vm1"],
    "network_config": ["version: 2\n"],
    "oci": ["debian:12", "registry.example.org:5000/team/tool@sha256:0123"],
    "owner": ["0:0", "1000:1000"],
    "ova": ["/bin/sh"],  # any file that can be read
    "path": ["/flag", "/etc/a b"],
    "pool": ["default"],
    "source": ["mine"],
    "start": ["10.0.0.5"],
    "target": ["run"],
    "test": ["true", "sh -c 'exit 0'"],
    "tmpfs": ["/run"],
    "user": ["root", "user@example.org"],
    "user_data": ["#cloud-config\n"],
    "vm": ["vm1"],
    "vnet": ["lan"],
    "volumes": ["/data"],
    "working_dir": ["/", "/srv"],
}

# Objects of texts.
MAPS = {
    "args": {"BASE": "debian:12"},
    "environment": {"A": "b\nc", "a.b": ""},
    "extra_hosts": {"files_server": "10.0.0.7", "up": "gateway"},
    "sysctls": {"net.ipv4.ip_forward": "1"},
    "ulimits": {"nofile": "1024:4096", "core": "-1"},
}

# Exactly one of these says what is in a file.
FILE_KINDS = ("content", "content_base64", "host_file")

# What stands in the place of something else.
WRONG_TEXTS = [
    "", "nonsense", "a b", "x\ty", "Ä" * 70, "x" * 300, "5", "auto", "none", "deny", "open",
    "default", "10.0.0.300", "10.0.0.07", "10.0.0.1", "10.0.0.255", "2001:db8::1", "10.0.0.0/33",
    "10.0.0.1/24", "52:54:00:00:00", "01:00:5e:00:00:01", "5254.0012.3456", "52-54-00-12-34-AB",
]  # fmt: skip
WRONG: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 4.0, 70000, 10**15, 10**18, *WRONG_TEXTS[:6],
    [], [None], ["vm1"], [["vm1"]], {}, {"a": 1},
]  # fmt: skip

Spec = dict[str, Any]


class SpecMaker:
    """Makes the same specifications for the same seed."""

    def __init__(self, schema: dict[str, Any], seed: int) -> None:
        self.schema = schema
        self.random = random.Random(seed)
        self.bounds = dict(_bounds(schema))

    def right(self) -> Spec:
        """A specification that is right."""
        spec: Spec = self._value(self.schema, "")
        self._mend(spec)
        return spec

    def broken(self) -> Spec:
        """A specification that was right before one thing was changed. It may still be."""
        while True:
            spec = copy.deepcopy(self.right())
            self._change(spec)
            if comparable(spec):
                return spec

    # from the schema

    def _value(self, node: dict[str, Any], name: str) -> Any:
        if "$ref" in node:
            return self._value(self.schema["$defs"][node["$ref"].rpartition("/")[2]], name)
        if "anyOf" in node:
            return self._value(self.random.choice(node["anyOf"]), name)
        if "enum" in node:
            return self.random.choice(node["enum"])
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        kind = self.random.choice(kinds) if self.random.random() < OPTIONAL else kinds[0]
        return getattr(self, f"_{kind}")(node, name)

    def _null(self, node: dict[str, Any], name: str) -> None:
        return None

    def _boolean(self, node: dict[str, Any], name: str) -> bool:
        return self.random.random() < 0.5

    def _integer(self, node: dict[str, Any], name: str) -> int | float:
        low, high = node["minimum"], node["maximum"]
        choices: list[int | float] = [low, high, self.random.randint(low, high), float(low)]
        return self.random.choice(choices)

    def _number(self, node: dict[str, Any], name: str) -> float:
        return self.random.uniform(node["minimum"], node["maximum"])

    def _string(self, node: dict[str, Any], name: str) -> str:
        return self.random.choice(TEXTS[name])

    def _array(self, node: dict[str, Any], name: str) -> list[Any]:
        count = self.random.randint(node["minItems"], ITEMS_MAX)
        return [self._value(node["items"], name) for _ in range(max(count, node["minItems"]))]

    def _object(self, node: dict[str, Any], name: str) -> Spec:
        if "properties" not in node:  # texts by their names, or settings for the driver
            return dict(MAPS.get(name, {}))
        given = [
            member
            for member in node["properties"]
            if member in node["required"] or self.random.random() < OPTIONAL
        ]
        if "oneOf" in node:
            kind = self.random.choice(node["oneOf"])["required"][0]
            if kind == "dockerfile":
                return {kind: {"context": TEXTS["context"][0]}}
            return {kind: TEXTS[kind][0] if TEXTS[kind] else "tiny"}
        return {member: self._value(node["properties"][member], member) for member in given}

    # what fits together

    def _mend(self, spec: Spec) -> None:
        spec["driver"] = driver = self.random.choice(["qemu", "proxmox"])
        if driver == "qemu":
            spec.pop("pool", None)
        networks = spec.get("networks", "auto")
        vnets = networks["vnets"] if isinstance(networks, dict) else []
        for index, vnet in enumerate(vnets):
            self._mend_vnet(vnet, index, driver)
        for index, vm in enumerate(spec["vms"]):
            self._mend_vm(vm, index, driver)
            if networks != "auto" or vm.get("nics") == []:
                vm.pop("ready_port", None)  # nobody may give the VM an address
            if networks == "none" or (networks is None and driver == "qemu"):
                vm["nics"] = []
            for place, nic in enumerate(vm.get("nics") or ()):
                self._mend_nic(nic, 8 * index + place, networks, vnets)
        for vnet in vnets:
            self._mend_gateway_vm(vnet, spec["vms"], driver)

    def _mend_vnet(self, vnet: Spec, index: int, driver: str) -> None:
        vnet["alias"] += str(index)
        for place, subnet in enumerate(vnet.get("subnets") or ()):
            base = f"10.{index}.{place}"
            subnet["cidr"] = f"{base}.0/24"
            if subnet.get("snat") or subnet.get("gateway") or driver == "proxmox":
                subnet["gateway"] = f"{base}.1"
            for number, span in enumerate(subnet.get("dhcp_ranges") or ()):
                span["start"], span["end"] = (
                    f"{base}.{10 * number + 10}",
                    f"{base}.{10 * number + 15}",
                )
        way_out = any(subnet.get("snat") for subnet in vnet.get("subnets") or ())
        egress = vnet.get("egress")
        if not way_out or (driver == "proxmox" and egress != "open"):
            vnet.pop("egress", None)
        elif isinstance(egress, dict):
            egress["allow"] = {**egress["allow"], "domains": ["example.org"]}
        if driver == "proxmox":
            vnet.pop("capture", None)

    def _mend_vm(self, vm: Spec, index: int, driver: str) -> None:
        vm["name"] = f"vm{index}"
        if index == 0:
            vm["is_sandbox"] = True
        earlier = [self.random.choice([f"vm{i}", f"VM{i}"]) for i in range(index)]
        vm["depends_on"] = [
            {"vm": name} if self.random.random() < OPTIONAL else name
            for name in earlier
            if self.random.random() < OPTIONAL
        ]
        source = vm.get("source")
        if source is None or "oci" in source or "dockerfile" in source:
            vm["source"] = "mine"
        for member in ("service", "forwards", "aliases"):
            vm.pop(member, None)  # of container images, of which there is none
        vm.pop("ready_port", None)  # which NICs get an address is too long a story
        if driver == "proxmox":
            vm.pop("files", None)
            vm.pop("cdrom", None)
            return
        if str(vm.get("os_type")).startswith("w"):
            vm.pop("files", None)
        for place, file in enumerate(vm.get("files") or ()):
            file["path"] += str(place)
            kinds = [kind for kind in FILE_KINDS if file.pop(kind, None) is not None]
            kind = self.random.choice(kinds or ["content"])
            file[kind] = TEXTS[kind][0]
        vm.pop("firewall", None)
        vm.pop("disk_gb", None)  # the image has no disk
        for member, fits in (("ram_mb", 512), ("vcpus", 255)):  # on any host
            if (vm.get(member) or 0) > fits:
                vm[member] = fits
        if not isinstance(vm["source"], str):
            if "ova" in vm["source"]:
                vm.pop("files", None)  # disks get them from an image that is not there
            else:
                vm["source"] = {"image": "mine"}

    def _mend_nic(self, nic: Spec, number: int, networks: Any, vnets: list[Spec]) -> None:
        if nic.get("mac") or nic.get("ipv4"):
            nic["mac"] = f"52:54:00:00:00:{number:02x}"
        if not vnets:
            nic.pop("ipv4", None)
            if networks == "auto":
                nic["vnet"] = "default"
                nic.pop("vlan_tag", None)
            return
        vnet = self.random.choice(vnets)
        nic["vnet"] = vnet["alias"]
        if not vnet.get("vlan_aware"):
            nic.pop("vlan_tag", None)
        subnets = vnet.get("subnets") or ()
        if not subnets:
            nic.pop("ipv4", None)
        elif nic.get("ipv4"):
            nic["ipv4"] = subnets[0]["cidr"].replace(".0/24", f".{100 + number}")

    def _mend_gateway_vm(self, vnet: Spec, vms: list[Spec], driver: str) -> None:
        there = [
            vm["name"]
            for vm in vms
            if any(nic["vnet"] == vnet["alias"] for nic in vm.get("nics") or ())
        ]
        if not vnet.get("gateway_vm"):
            return
        if driver == "proxmox" or not there or not vnet.get("subnets"):
            vnet.pop("gateway_vm")
            return
        vnet["gateway_vm"] = self.random.choice(there)
        vnet["dhcp"] = True
        vnet.pop("egress", None)
        for subnet in vnet["subnets"]:
            subnet.pop("gateway", None)
            subnet.pop("snat", None)

    # and what does not

    def _change(self, spec: Spec) -> None:
        places = list(_places(spec))
        name = self.random.choice(sorted({str(key) for _, key in places}))  # rare ones as often
        inside, key = self.random.choice([place for place in places if str(place[1]) == name])
        value = inside[key]
        how = self.random.choice(["wrong", "drop", "add", "twice", "copy", "edge", "text", "text"])
        if how == "drop" and isinstance(inside, dict):
            del inside[key]
        elif how == "add" and isinstance(value, dict):
            value[self.random.choice(["nonsense", "ram", "Name", "nic"])] = self.random.choice(
                WRONG
            )
        elif how == "twice" and isinstance(value, list) and value:
            value.append(copy.deepcopy(self.random.choice(value)))
        elif how == "copy":  # another one's alias, address or name
            same = [other[key] for other, name in places if name == key]
            inside[key] = copy.deepcopy(self.random.choice(same))
        elif how == "edge" and key in self.bounds and not isinstance(value, (str, list)):
            low, high = self.bounds[key]
            inside[key] = self.random.choice([low - 1, high + 1, low, high])
        elif how == "text" and isinstance(value, str):
            inside[key] = self.random.choice(
                [*WRONG_TEXTS, value.upper(), f"{value}.1", f"{value} "]
            )
        elif how in ("wrong", "text"):
            alike = [other for other in WRONG if isinstance(other, type(value))]
            inside[key] = self.random.choice(
                alike if alike and self.random.random() < 0.5 else WRONG
            )
        else:
            inside[key] = self.random.choice(WRONG)


def comparable(spec: Spec) -> bool:
    """Whether it means the same in Python, where a few members do more than in a file."""
    given = spec.get("vms")
    vms = [vm for vm in given if isinstance(vm, dict)] if isinstance(given, list) else []
    sources = [vm.get("source") for vm in vms]
    paths = [source.get("ova") for source in sources if isinstance(source, dict)]
    paths += [vm.get("cdrom") for vm in vms]
    return (
        "vms" in spec  # Python has a default
        and spec.get("driver") != "vagrant"  # Python has a provider of its own
        and not any(isinstance(path, str) and path[:1] != "/" for path in paths)  # made absolute
    )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All members and items, each with what it is in."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


def _bounds(node: Any, name: str = "") -> Iterator[tuple[str, tuple[float, float]]]:
    """The limits of all members that are numbers."""
    if isinstance(node, dict):
        if "minimum" in node:
            yield name, (node["minimum"], node["maximum"])
        for key, inner in node.items():
            yield from _bounds(inner, name if key in ("anyOf", "items") else key)
    elif isinstance(node, list):
        for inner in node:
            yield from _bounds(inner, name)
