"""The control socket: how a test looks at the server and breaks it. JSON lines, both ways."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .http import reset
from .state import Storage, Vm, Volume

if TYPE_CHECKING:
    from .app import App
    from .http import Front

Command = Callable[..., Any]


class Control:
    """Each public method is a command; its arguments are the object's other members."""

    def __init__(self, app: App, front: Front) -> None:
        self.app = app
        self.front = front

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self.answer(line), default=str).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, line: bytes) -> dict[str, Any]:
        try:
            given = json.loads(line)
            name = given.pop("do")
            command = getattr(self, f"do_{name}", None)
            if command is None:
                raise ValueError(f"no command {name}")
            result = command(**given)
            if asyncio.iscoroutine(result):
                result = await result
            return {"ok": True, "result": result}
        except Exception as why:  # whatever it was, the test that asked should see it
            return {"ok": False, "error": repr(why)}

    # --- faults ---

    def do_fault(self, **rule: Any) -> int:
        return self.app.faults.add(rule)

    def do_clear_faults(self) -> list[str]:
        """Removes all faults; returns those that never struck, so that they tested nothing."""
        missed = [str(rule) for rule in self.app.faults.rules if not rule.struck]
        missed += [f"task {rule['kind']}" for rule in self.app.tasks.failures if not rule["struck"]]
        self.app.faults.rules.clear()
        self.app.tasks.failures.clear()
        return missed

    def do_struck(self) -> dict[str, int]:
        """How often each rule has struck."""
        return {str(rule.number): rule.struck for rule in self.app.faults.rules}

    def do_fail_task(
        self,
        kind: str,
        status: str = "injected failure",
        times: int = 1,
        skip: int = 0,
        when: str = "before",
        id: str = "",
        log: list[str] | None = None,
        abandon: bool = False,
    ) -> None:
        """With `abandon` the task is killed: what it had begun stays, locked."""
        rule = {
            "abandon": abandon,
            "log": log or [],
            "kind": kind,
            "status": status,
            "times": times,
            "skip": skip,
            "when": when,
            "id": id,
        }
        self.app.tasks.failures.append({**rule, "struck": 0})

    def do_task_seconds(self, kind: str, seconds: float) -> None:
        if kind == "*":
            self.app.tasks.seconds = seconds
        else:
            self.app.tasks.seconds_of[kind] = seconds

    def do_agent(self, vmid: int, gone: bool = True) -> None:
        machine = self.app.state.vms[vmid].machine
        if machine is not None:
            machine.agent_gone = gone

    def do_boot_seconds(self, seconds: float) -> None:
        self.app.machines.boot_seconds = seconds

    def do_dhcp_seconds(self, seconds: float) -> None:
        """How long a guest needs to get addresses; negative: for ever."""
        self.app.machines.dhcp_seconds = seconds

    def do_reload_fails(self, node: str, times: int = 1) -> None:
        self.app.state.nodes[node].reload_fails = times

    def do_expire_tickets(self) -> None:
        self.app.auth.not_before = time.time() + 0.07

    def do_second_factor(self, asked: bool = True) -> None:
        self.app.auth.second_factor = asked

    def do_ticket_seconds(self, seconds: float) -> None:
        self.app.auth.ticket_seconds = seconds

    def do_lock(self, vmid: int, lock: str = "backup") -> None:
        self.app.state.vms[vmid].lock = lock

    def do_rollback_hold(self, seconds: float, vmid: int = 0) -> None:
        """How long a rollback holds the lock; of one VM, how long it is held from now."""
        if vmid:
            self.app.state.vms[vmid].busy_until = time.monotonic() + seconds
        else:
            self.app.rollback_hold = seconds

    def do_hold(self, vmid: int, held: bool = True) -> None:
        """Holds the lock of a configuration file, also of a VM that is not there, or lets go."""
        if held:
            self.app.state.held.add(vmid)
        else:
            self.app.state.held.discard(vmid)

    def do_cut(self) -> int:
        """Cuts every open connection."""
        cut = list(self.front.open)
        for writer in cut:
            reset(writer)
        return len(cut)

    def do_outage(self, seconds: float) -> None:
        """The server goes away now."""
        self.front.go_away(seconds)

    async def do_come_back(self) -> None:
        """The server is back before that."""
        self.front.returns.set()
        if self.front.back is not None:
            await self.front.back

    def do_clock(self, seconds: float) -> None:
        self.app.faults_clock = seconds

    def do_node(self, node: str, **values: Any) -> None:
        for name, value in values.items():
            if not hasattr(self.app.state.nodes[node], name):
                raise ValueError(f"a node has no {name}")
            setattr(self.app.state.nodes[node], name, value)

    def do_storage(self, node: str, storage: str, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.app.state.storages[node][storage], name, value)

    def do_add_storage(self, node: str, storage: str, kind: str, content: str) -> None:
        self.app.state.storages[node][storage] = Storage(storage, kind, content, 100 << 30)

    def do_remove_storage(self, node: str, storage: str) -> None:
        del self.app.state.storages[node][storage]

    def do_sdn_lock(self, token: str = "") -> None:
        self.app.sdn.token = token

    # --- users ---

    def do_user(self, user: str, password: str, grants: dict[str, list[str]]) -> None:
        self.app.auth.passwords[user] = password
        self.app.auth.grants[user] = [
            (path, set(privileges)) for path, privileges in grants.items()
        ]

    def do_token(
        self,
        user: str,
        name: str,
        secret: str,
        privsep: bool = False,
        grants: dict[str, list[str]] | None = None,
    ) -> None:
        full = f"{user}!{name}"
        self.app.auth.tokens[full] = {"secret": secret, "privsep": privsep}
        self.app.auth.grants[full] = [
            (path, set(privileges)) for path, privileges in (grants or {}).items()
        ]

    # --- looking ---

    def do_log(self, since: int = 0) -> list[dict[str, Any]]:
        return self.app.faults.log[since:]

    def do_clear_log(self) -> None:
        self.app.faults.log.clear()

    def do_counts(self) -> dict[str, int]:
        return self.app.faults.counts()

    def do_tasks(self) -> list[dict[str, Any]]:
        return [
            {**task.row(), "seconds": task.seconds, "log": task.log}
            for task in self.app.tasks.by_upid.values()
        ]

    def do_figures(self) -> dict[str, Any]:
        return {
            "connections": self.front.connections,
            "open": len(self.front.open),
            "outages": self.front.outages,
            "requests": len(self.app.faults.log),
            "logins": self.app.auth.logins,
            "applies": self.app.sdn.applies,
            "terminals": len(self.app.terminals),
        }

    def do_state(self) -> dict[str, Any]:
        """Everything that a client could have left behind."""
        state, sdn = self.app.state, self.app.sdn
        return {
            "vms": {
                str(vm.vmid): {
                    "config": vm.config,
                    "running": vm.running,
                    "template": vm.template,
                    "lock": vm.lock,
                    "snapshots": sorted(vm.snapshots),
                    "pending": vm.pending,
                }
                for vm in state.vms.values()
            },
            "zones": sdn.config["zones"],
            "vnets": sdn.config["vnets"],
            "subnets": sdn.config["subnets"],
            "running": {kind: sorted(entries) for kind, entries in sdn.running.items()},
            "ipam": sdn.ipam,
            "dnsmasq": {node: sorted(zones) for node, zones in sdn.dnsmasq.items()},
            "volumes": sorted(
                volid
                for node in state.storages.values()
                for storage in node.values()
                for volid in storage.volumes
            ),
            "pools": {name: sorted(pool["vms"]) for name, pool in state.pools.items()},
            "firewall": state.firewall,
            "tasks_running": len(self.app.tasks.running),
            "uploads": sorted(path.name for path in state.dir.glob("upload-*")),
        }

    async def do_settle(self, seconds: float = 60) -> bool:
        """Waits until no task runs."""
        deadline = time.monotonic() + seconds
        while self.app.tasks.running:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    # --- things that were there before ---

    def do_add_vm(
        self,
        vmid: int,
        config: dict[str, Any],
        template: bool = False,
        running: bool = False,
        node: str = "",
        snapshots: list[str] | None = None,
    ) -> None:
        where = node or next(iter(self.app.state.nodes))
        vm = Vm(vmid, where)
        vm.config = config
        vm.template = template
        vm.decoy = True
        self.app.state.vms[vmid] = vm
        for name in snapshots or []:
            vm.snapshots[name] = {
                "config": dict(config),
                "snaptime": 0,
                "vmstate": 0,
                "description": "",
                "parent": "",
                "state": None,
            }
        for key, value in list(config.items()):
            text = str(value)
            if key.startswith(("scsi", "ide", "virtio", "sata")) and "disk-" in text:
                volid = text.split(",")[0]
                storage = self.app.state.storages[where][volid.split(":")[0]]
                path = self.app.state.dir / where / volid.replace(":", "_").replace("/", "_")
                storage.volumes[volid] = Volume(volid, "images", "raw", 1 << 30, path, vmid)
        if running:
            from .machines import Machine

            vm.machine = Machine(vm)
            vm.running, vm.started = True, time.time()

    def do_remove_vm(self, vmid: int) -> None:
        """As `qm unlock` and `qm destroy` on the node."""
        vm = self.app.state.vms.pop(vmid)
        for storage in self.app.state.storages[vm.node].values():
            for volid in [key for key, one in storage.volumes.items() if one.vmid == vmid]:
                self.app.state.drop_volume(vm.node, volid)

    def do_add_volume(self, volid: str, content: str, size: int = 1 << 20, node: str = "") -> None:
        where = node or next(iter(self.app.state.nodes))
        storage = self.app.state.storages[where][volid.split(":")[0]]
        path = self.app.state.dir / where / volid.replace(":", "_").replace("/", "_")
        storage.volumes[volid] = Volume(volid, content, volid.rsplit(".", 1)[-1], size, path)

    def do_add_zone(self, zone: str, vnets: dict[str, dict[str, Any]], dhcp: bool = True) -> None:
        """A zone with vnets and their subnets, applied."""
        sdn = self.app.sdn
        more = {"ipam": "pve", "dhcp": "dnsmasq"} if dhcp else {}
        sdn.add_zone({"zone": zone, "type": "simple", **more})
        for name, given in vnets.items():
            subnet = given.pop("subnet", "")
            addresses = given.pop("addresses", {})
            sdn.add_vnet({"vnet": name, "zone": zone, **given})
            if subnet:
                base = subnet.rsplit(".", 1)[0]
                ranges = [f"start-address={base}.50,end-address={base}.99"] if dhcp else []
                sdn.add_subnet(
                    {
                        "vnet": name,
                        "subnet": subnet,
                        "type": "subnet",
                        "gateway": f"{base}.1",
                        "dhcp-range": ranges,
                    }
                )
            sdn.commit()
            sdn.reload(sdn.version)
            for address, mac in addresses.items():
                sdn.add_address(name, address, mac)
        sdn.commit()
        sdn.reload(sdn.version)
        sdn.applies = 0
