"""Methods that reach into a guest through its agent, with the genuine server's oddities."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from typing import Any

from .agent import Agent, AgentError, AgentSilent, NoProgram
from .app import Call, route
from .errors import ApiError, broken_pipe, fail

ARGUMENT_MAX = 131072
READ_MAX = 16 << 20
PIECE = 1 << 20
# An answer of more than this does not come through within the agent call's time.
OUTPUT_MAX = 3 << 20
SILENCE = 3.0
CALL_TIME = 5.0
UNRESTRICTED = ("VM.GuestAgent.Unrestricted",)
BASE = "/nodes/{node}/qemu/{vmid}/agent"


async def agent_of(call: Call, *privileges: str) -> Agent:
    """The VM's agent, once it has been seen to be there."""
    vm = call.state.vm(call["node"], call["vmid"])
    if call.app.version.startswith("8"):
        call.require(f"/vms/{vm.vmid}", "VM.Monitor")
    else:
        call.require(f"/vms/{vm.vmid}", *privileges, *UNRESTRICTED, any_of=True)
    if not vm.agent_enabled():
        raise fail("No QEMU guest agent configured")
    if not vm.running or vm.machine is None:
        raise fail(f"VM {vm.vmid} is not running")
    machine = vm.machine
    if vm.paused or machine.agent_gone or time.monotonic() < machine.agent_from:
        await call.app.pause(SILENCE)
        raise fail("QEMU guest agent is not running")
    async with Guarded(call):
        # Each call of the genuine server asks first whether the agent is there.
        await machine.agent.ping()
    return machine.agent


async def spend_on(call: Call, size: int) -> None:
    """What comes out of a guest costs the server's processor, by its size."""
    if call.app.read_cost:
        await asyncio.sleep(call.app.read_cost * size / PIECE)


class Guarded:
    """Turns what an agent raises into what the server answers."""

    def __init__(self, call: Call) -> None:
        self.call = call

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: Any, why: BaseException | None, trace: Any) -> bool:
        if isinstance(why, AgentSilent):
            if not why.waited:
                await self.call.app.pause(SILENCE)
            raise fail("QEMU guest agent is not running") from None
        if isinstance(why, NoProgram):
            raise broken_pipe(CALL_TIME * self.call.app.scale) from None
        if isinstance(why, AgentError):
            raise fail(f"Agent error: {why}") from None
        return False


def one_byte_each(text: str, line: int) -> bytes:
    """Characters go to the guest as single bytes, or not at all."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise fail(
            "Wide character in subroutine entry at "
            f"/usr/share/perl5/PVE/API2/Qemu/Agent.pm line {line}."
        ) from None


@route(f"POST {BASE}/ping")
async def ping(call: Call) -> Any:
    agent = await agent_of(call, "VM.GuestAgent.Audit")
    async with Guarded(call):
        await agent.ping()
    return {"result": {}}


@route(f"POST {BASE}/exec")
async def execute(call: Call) -> Any:
    agent = await agent_of(call)
    argv = [one_byte_each(word, 464) for word in call["command"]]
    data = call.get("input-data")
    given = one_byte_each(data, 466) if data is not None else None
    if not argv or any(len(word) >= ARGUMENT_MAX for word in argv):
        raise broken_pipe(CALL_TIME * call.app.scale)
    async with Guarded(call):
        return {"pid": await agent.exec(argv, given)}
    return None


@route(f"GET {BASE}/exec-status")
async def exec_status(call: Call) -> Any:
    agent = await agent_of(call)
    async with Guarded(call):
        status = await agent.status(call["pid"])
    if not status["exited"]:
        return {"exited": 0}
    out, err = status.get("out", b""), status.get("err", b"")
    if len(out) + len(err) > OUTPUT_MAX:
        # By then the agent has forgotten the command: its output is lost.
        await call.app.pause(CALL_TIME)
        raise fail(f"VM {call['vmid']} qga command 'guest-exec-status' failed - got timeout")
    await spend_on(call, len(out) + len(err))
    result: dict[str, Any] = {"exited": 1}
    for name in ("exitcode", "signal"):
        if name in status:
            result[name] = status[name]
    for name, data, cut in (("out", out, "out_cut"), ("err", err, "err_cut")):
        if data:
            result[f"{name}-data"] = data.decode("latin-1")
        if status.get(cut):
            result[f"{name}-truncated"] = 1
    return result


@route(f"POST {BASE}/file-write")
async def file_write(call: Call) -> Any:
    agent = await agent_of(call, "VM.GuestAgent.FileWrite")
    content = call["content"]
    if call.get("encode", True):
        data = one_byte_each(content, 491)
    else:
        try:
            data = base64.b64decode(content.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise fail("Agent error: Invalid base64 data") from None
    async with Guarded(call):
        await agent.write(one_byte_each(call["file"], 480), data)


@route(f"GET {BASE}/file-read")
async def file_read(call: Call) -> Any:
    agent = await agent_of(call, "VM.GuestAgent.FileRead")
    left = call.get("count", READ_MAX)
    offset = call.get("offset", 0)
    path = one_byte_each(call["file"], 420)
    pieces: list[bytes] = []
    ended = False
    async with Guarded(call):
        while left > 0 and not ended:
            piece, ended = await agent.read(path, offset, min(left, PIECE))
            pieces.append(piece)
            offset += len(piece)
            left -= len(piece)
    await spend_on(call, sum(map(len, pieces)))
    if call.get("decode", True):
        content = b"".join(pieces).decode("latin-1")
    else:
        content = "".join(base64.b64encode(piece).decode() for piece in pieces)
    result = {"content": content, "bytes-read": sum(map(len, pieces))}
    # The end is only known once a read came short, so a file of exactly `count` bytes looks cut.
    return result if ended else {**result, "truncated": 1}


def plain(name: str, verb: str) -> None:
    @route(f"{verb} {BASE}/{name}")
    async def command(call: Call) -> Any:
        agent = await agent_of(call, "VM.GuestAgent.Audit")
        async with Guarded(call):
            told = await agent.command(f"guest-{name}")
            if name == "network-get-interfaces":
                told = with_cards(call, told)
            return {"result": told}
        return None


def with_cards(call: Call, told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The guest's interfaces, with addresses as DHCP has given them: our bridges carry nothing."""
    vm = call.state.vm(call["node"], call["vmid"])
    cards = {next(iter(parts.values())): parts for parts in vm.nets().values()}
    known = {mac.upper() for mac in cards}
    rows = [row for row in told if row.get("hardware-address", "").upper() not in known]
    for number, (mac, parts) in enumerate(cards.items()):
        row: dict[str, Any] = {"name": f"eth{number}", "hardware-address": mac.lower()}
        if address := call.app.machines.lease(vm, parts.get("bridge", ""), mac):
            row["ip-addresses"] = [{"ip-address": address, "ip-address-type": "ipv4", "prefix": 24}]
        rows.append(row)
    return rows


for _name in (
    "get-host-name",
    "get-osinfo",
    "get-time",
    "get-timezone",
    "get-users",
    "get-vcpus",
    "get-fsinfo",
    "info",
    "network-get-interfaces",
):
    plain(_name, "GET")


@route(f"GET {BASE}", "/vms/{vmid}", "VM.Audit")
async def index(call: Call) -> Any:
    call.state.vm(call["node"], call["vmid"])
    return [{"name": name} for name in ("exec", "exec-status", "file-read", "file-write", "ping")]


@route(f"POST {BASE}")
async def by_name(call: Call) -> Any:
    if call["command"] == "ping":
        return await ping(call)
    agent = await agent_of(call)
    async with Guarded(call):
        return {"result": await agent.command(f"guest-{call['command']}")}
    raise ApiError(500, "agent command failed")
