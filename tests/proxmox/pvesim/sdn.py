"""Software defined networks: what is configured, what runs, and the addresses handed out."""

from __future__ import annotations

import copy
import hashlib
import ipaddress
from typing import Any

from .errors import TaskFailed, bad_parameters, fail
from .state import State, Vm
from .tasks import Task

Config = dict[str, dict[str, Any]]


class Sdn:
    """Configured objects become running ones by an apply; addresses follow the running ones."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.config: dict[str, Config] = {"zones": {}, "vnets": {}, "subnets": {}}
        self.running: dict[str, Config] = copy.deepcopy(self.config)
        # zone -> network -> address -> {mac, vmid, hostname, gateway}
        self.ipam: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
        # What is remembered of each card's address: see address_of_card.
        self.cards: dict[str, str | None] = {}
        # What each node's interfaces really are: zones whose reload went well.
        self.loaded: dict[str, set[str]] = {name: set() for name in state.nodes}
        # Zones for which a node has a directory of dnsmasq's, which the server never removes.
        self.dnsmasq: dict[str, set[str]] = {name: set() for name in state.nodes}
        self.token = ""
        self.applies = 0
        # Applies that still run: meanwhile nobody hands out addresses.
        self.reloading = 0
        # Each commit has a number; a node that has taken over another one is pending.
        self.version = 0
        self.version_of = dict.fromkeys(state.nodes, 0)

    def check_lock(self, token: str | None) -> None:
        if self.token and token != self.token:
            raise fail("global SDN config lock is held")

    # --- reading ---

    def listed(self, kind: str, pending: bool, running: bool) -> list[dict[str, Any]]:
        digest = self.digest(kind)
        if running or not pending:
            entries = (self.running if running else self.config)[kind]
            return [
                self.shown(kind, name, entry, digest) for name, entry in sorted(entries.items())
            ]
        rows = []
        for name in sorted({*self.config[kind], *self.running[kind]}):
            now, then = self.config[kind].get(name), self.running[kind].get(name)
            if now is None and then is not None:
                rows.append({**self.shown(kind, name, then, digest), "state": "deleted"})
            elif now is not None and then is None:
                row = self.shown(kind, name, now, digest)
                rows.append({**identity(kind, row), "pending": row, "state": "new"})
            elif now is not None and then is not None:
                row = self.shown(kind, name, then, digest)
                if now != then:
                    changed = {key: value for key, value in now.items() if then.get(key) != value}
                    row.update(state="changed", pending=changed)
                rows.append(row)
        return rows

    def digest(self, kind: str) -> str:
        return hashlib.sha1(repr(sorted(self.config[kind].items())).encode()).hexdigest()

    def shown(
        self, kind: str, name: str, entry: dict[str, Any], digest: str = ""
    ) -> dict[str, Any]:
        row = {**entry, kind[:-1]: name}
        row["digest"] = digest or self.digest(kind)
        if kind == "subnets":
            row["dhcp-range"] = [parse_range(text) for text in entry.get("dhcp-range", [])]
            row["id"] = name
            if not row["dhcp-range"]:
                del row["dhcp-range"]
        return row

    def one(self, kind: str, name: str) -> dict[str, Any]:
        entry = self.config[kind].get(name)
        if entry is None:
            raise fail(
                f"sdn {kind[:-1]} '{name}' does not exist"
                if kind != "zones"
                else f"sdn '{name}' does not exist"
            )
        return entry

    # --- changing ---

    def add_zone(self, params: dict[str, Any]) -> None:
        name = params.pop("zone")
        if name in self.config["zones"]:
            raise fail(
                f"create sdn zone object failed: sdn zone object ID '{name}' already defined"
            )
        if params["type"] == "vlan" and "bridge" not in params:
            raise bad_parameters({"bridge": "property is missing and it is not optional"})
        if params.get("dhcp") and params["type"] != "simple":
            raise fail("create sdn zone object failed: DHCP is only supported in simple zones")
        if params.get("ipam", "pve") != "pve":
            raise fail(f"create sdn zone object failed: sdn ipam '{params['ipam']}' does not exist")
        self.config["zones"][name] = params

    def delete_zone(self, name: str) -> None:
        self.one("zones", name)
        for vnet, entry in self.config["vnets"].items():
            if entry["zone"] == name:
                raise fail(
                    f"delete sdn zone object failed: zone {name} is used by vnet {vnet} "
                    "at Plugin.pm line 189."
                )
        del self.config["zones"][name]

    def add_vnet(self, params: dict[str, Any]) -> None:
        name = params.pop("vnet")
        params["type"] = "vnet"
        if name in self.config["vnets"]:
            raise fail(
                f"create sdn vnet object failed: sdn vnet object ID '{name}' already defined"
            )
        if params["zone"] not in self.config["zones"]:
            raise fail("create sdn vnet object failed: error parsing 'type': no such zone plugin")
        zone = self.config["zones"][params["zone"]]
        if zone["type"] in ("vlan", "vxlan", "qinq") and "tag" not in params:
            raise bad_parameters({"tag": "missing vlan tag"})
        if zone["type"] == "simple" and "tag" in params:
            raise bad_parameters({"tag": "vlan tag is not allowed on simple zone"})
        self.config["vnets"][name] = params

    def delete_vnet(self, name: str) -> None:
        self.one("vnets", name)
        if any(entry["vnet"] == name for entry in self.config["subnets"].values()):
            raise bad_parameters({"vnet": "Can't delete vnet if subnets exists"})
        del self.config["vnets"][name]

    def add_subnet(self, params: dict[str, Any]) -> None:
        vnet = self.config["vnets"].get(params["vnet"])
        if vnet is None:
            raise fail(
                f"create sdn subnet object failed: sdn vnet '{params['vnet']}' does not exist"
            )
        given = params.pop("subnet")
        if "/" not in given:
            given = "/".join(given.split("-")[1:])
        network = ipaddress.ip_network(given, strict=False)
        zone = vnet["zone"]
        name = f"{zone}-{network.network_address}-{network.prefixlen}"
        if name in self.config["subnets"]:
            raise fail(
                f"create sdn subnet object failed: sdn subnet object ID '{name}' already defined"
            )
        if vnet.get("vlanaware"):
            raise bad_parameters({"vnet": "you can't add a subnet on a vlanaware vnet"})
        gateway = params.get("gateway")
        if gateway and ipaddress.ip_address(gateway) not in network:
            raise bad_parameters({"gateway": f"{gateway} is not in subnet {network}"})
        check_ranges(params.get("dhcp-range", []), network)
        params.update(
            type="subnet",
            cidr=str(network),
            network=str(network.network_address),
            mask=str(network.prefixlen),
            zone=zone,
        )
        for key in ("snat",):
            if key in params:
                params[key] = int(params[key])
        if self.config["zones"][zone].get("ipam"):
            addresses = self.ipam.setdefault(zone, {}).setdefault(str(network), {})
            if gateway:
                if gateway in addresses and not addresses[gateway].get("gateway"):
                    raise fail(f"create sdn subnet object failed: IP '{gateway}' already exist")
                addresses[gateway] = {"gateway": 1}
        self.config["subnets"][name] = params

    def delete_subnet(self, vnet: str, name: str) -> None:
        entry = self.one("subnets", name)
        if entry["vnet"] != vnet:
            raise fail(
                f"delete sdn subnet object failed: sdn subnet '{name}' does not belong to "
                f"vnet '{vnet}'"
            )
        addresses = self.ipam.get(entry["zone"], {}).get(entry["cidr"])
        if addresses is not None:
            left = [entry for entry in addresses.values() if not entry.get("gateway")]
            if left:
                raise fail(
                    "delete sdn subnet object failed: cannot delete subnet "
                    f"'{entry['cidr']}', not empty"
                )
            del self.ipam[entry["zone"]][entry["cidr"]]
            if not self.ipam[entry["zone"]]:
                del self.ipam[entry["zone"]]
        del self.config["subnets"][name]

    def commit(self) -> None:
        """The configuration is the one that is to run, from now on."""
        self.running = copy.deepcopy(self.config)
        self.applies += 1
        self.version += 1

    def reload(self, version: int) -> list[str]:
        """All nodes take over what is to run, as of a commit; those that could not."""
        return [name for name in self.state.nodes if not self.reload_node(name, version)]

    def reload_node(self, name: str, version: int) -> bool:
        """One that fails goes on with what it had, and with the number of that."""
        node = self.state.nodes[name]
        if node.reload_fails > 0:
            node.reload_fails -= 1
            return False
        self.version_of[name] = version
        self.loaded[name] = set(self.running["zones"])
        self.dnsmasq[name] |= {
            zone for zone, entry in self.running["zones"].items() if entry.get("dhcp")
        }
        return True

    def status(self, node: str) -> list[dict[str, Any]]:
        """A node that has not taken over the last apply calls every zone pending."""
        behind = self.version_of[node] != self.version
        rows = []
        for zone in sorted(self.running["zones"]):
            good = "available" if zone in self.loaded[node] else "error"
            rows.append({"zone": zone, "status": "pending" if behind else good})
        for zone in sorted(set(self.config["zones"]) - set(self.running["zones"])):
            rows.append({"zone": zone, "status": "pending"})
        return rows

    def content(self, node: str, zone: str) -> list[dict[str, Any]]:
        if zone not in self.running["zones"]:
            raise fail(f"sdn '{zone}' does not exist")
        good = zone in self.loaded[node]
        return [
            {
                "vnet": vnet,
                "status": "available" if good else "error",
                "statusmsg": "" if good else "missing",
            }
            for vnet, entry in sorted(self.running["vnets"].items())
            if entry["zone"] == zone
        ]

    def bridge_exists(self, node: str, bridge: str) -> bool:
        if bridge.startswith("vmbr"):
            return True
        vnet = self.running["vnets"].get(bridge)
        return vnet is not None and vnet["zone"] in self.loaded[node]

    # --- addresses ---

    def addresses_of(self, vnet: str, address: str) -> dict[str, dict[str, Any]]:
        """Where an address of a running subnet is written down."""
        entry = self.config["vnets"].get(vnet)
        for subnet in self.running["subnets"].values():
            if subnet["vnet"] == vnet and ipaddress.ip_address(address) in ipaddress.ip_network(
                subnet["cidr"]
            ):
                if not entry or not self.config["zones"].get(entry["zone"], {}).get("ipam"):
                    return {}
                found = self.ipam.get(subnet["zone"], {}).get(subnet["cidr"])
                if found is None:
                    raise fail(f"subnet '{subnet['cidr']}' doesn't exist in IPAM DB")
                return found
        raise fail(f"can't find any subnet for ip {address} at Subnets.pm line 118.")

    def add_address(self, vnet: str, address: str, mac: str, vmid: int = 0) -> None:
        addresses = self.addresses_of(vnet, address)
        if address in addresses:
            raise fail(f"IP '{address}' already exist")
        addresses[address] = {"mac": mac, **({"vmid": vmid} if vmid else {})}

    def with_dhcp(self, vnet: str) -> str:
        """The zone of a vnet that hands out addresses, or nothing."""
        entry = self.config["vnets"].get(vnet)
        zone = self.config["zones"].get(entry["zone"], {}) if entry else {}
        return str(entry["zone"]) if entry and zone.get("ipam") and zone.get("dhcp") else ""

    def delete_address(self, vnet: str, address: str, mac: str) -> None:
        addresses = self.addresses_of(vnet, address)
        if address not in addresses:
            raise fail(f"IP '{address}' does not exist in IPAM DB")
        del addresses[address]
        self.cards.pop(mac, None)

    def address_of_card(self, vnet: str, mac: str) -> str | None:
        """The address of a network card, by a cache that remembers also that there was none.

        Only addresses that were given out enter it by themselves; others when they are looked for.
        Case counts: aa is not AA.
        """
        zone = self.with_dhcp(vnet)
        if not zone:
            return None
        if mac not in self.cards:
            self.cards[mac] = next(
                (
                    address
                    for addresses in self.ipam.get(zone, {}).values()
                    for address, entry in sorted(addresses.items())
                    if entry.get("mac") == mac
                ),
                None,
            )
        return self.cards[mac]

    def free_card(self, vnet: str, mac: str) -> str | None:
        """The card is gone from the vnet: so is the address that is known of it."""
        address = self.address_of_card(vnet, mac)
        if address:
            for addresses in self.ipam.get(self.with_dhcp(vnet), {}).values():
                addresses.pop(address, None)
            del self.cards[mac]
        return address

    def connect_card(self, vm: Vm, vnet: str, mac: str) -> None:
        """A new card gets the next address, whether it has one already or not."""
        zone = self.with_dhcp(vnet)
        if not zone:
            return
        tried = False
        for _, subnet in sorted(self.running["subnets"].items()):
            if subnet["vnet"] != vnet or not subnet.get("dhcp-range"):
                continue
            tried = True
            addresses = self.ipam.get(zone, {}).get(subnet["cidr"])
            if addresses is None:
                raise fail(f"subnet '{subnet['cidr']}' doesn't exist in IPAM DB")
            for text in subnet["dhcp-range"]:
                free = first_free(parse_range(text), addresses)
                if free:
                    addresses[free] = {"mac": mac, "vmid": vm.vmid, "hostname": vm.name()}
                    self.cards[mac] = free
                    return
        if tried:
            raise fail(f"can't find any free ip in zone {zone} for IPv4 at Vnets.pm line 141.")

    def start_card(self, vm: Vm, vnet: str, mac: str, task: Task) -> None:
        """The VM starts: its card must have an address now, which DHCP hands out.

        An apply ends the DHCP servers of all zones and starts them one by one; a card that cannot
        tell its zone's about itself meanwhile keeps QEMU from starting.
        """
        if self.reloading and self.with_dhcp(vnet):
            task.say(
                "kvm: -netdev type=tap,id=net0: network script "
                "/usr/libexec/qemu-server/pve-bridge failed with status 65280"
            )
            raise TaskFailed("start failed: QEMU exited with code 1")
        if not self.address_of_card(vnet, mac):
            self.connect_card(vm, vnet, mac)

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for zone, networks in sorted(self.ipam.items()):
            for network, addresses in sorted(networks.items()):
                name = f"{zone}-{network.replace('/', '-')}"
                subnet = self.config["subnets"].get(name) or self.running["subnets"].get(name)
                if subnet is None:
                    continue
                for address, entry in sorted(addresses.items()):
                    rows.append(
                        {
                            "zone": zone,
                            "subnet": network,
                            "ip": address,
                            "vnet": subnet["vnet"],
                            **entry,
                        }
                    )
        return rows


def identity(kind: str, row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in (kind[:-1], "type", "zone", "vnet") if key in row}


def parse_range(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(","))


def first_free(limits: dict[str, str], taken: dict[str, Any]) -> str:
    address = ipaddress.ip_address(limits["start-address"])
    end = ipaddress.ip_address(limits["end-address"])
    while int(address) <= int(end):
        if str(address) not in taken:
            return str(address)
        address += 1
    return ""


def check_ranges(ranges: list[str], network: Any) -> None:
    done: list[tuple[int, int]] = []
    for text in ranges:
        limits = parse_range(text)
        start, end = (ipaddress.ip_address(limits[key]) for key in ("start-address", "end-address"))
        if int(start) > int(end):
            raise bad_parameters(
                {"dhcp-range": f"start-address {start} must be smaller than end-address {end}"}
            )
        for word, address in (("start", start), ("end", end)):
            if address not in network:
                raise bad_parameters(
                    {"dhcp-range": f"{word}-address {address} is not in subnet {network}"}
                )
        if any(int(start) <= high and int(end) >= low for low, high in done):
            raise bad_parameters({"dhcp-range": "dhcp ranges must not overlap"})
        done.append((int(start), int(end)))
