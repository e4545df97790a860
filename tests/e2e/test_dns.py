"""What of a guest's DNS questions gets to the host's resolver, and what of answers comes back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import frames as raw
import pytest
from attempts import ask_by_tcp, question, tcp
from ranges import GET, SMALL, Range, card_of, frames, helpers, holders, send_frames, subnet
from walls import Taken, capabilities, probe, user_of
from world import BANNER, EVIL, HOST, HOST_TOO, LAST, MANY, METADATA, PRIVATE, World

from tools import namespace, until

pytestmark = pytest.mark.needs_root("it makes networks")

GATEWAY = "192.168.20.1"
SPEC = {
    "networks": {
        "vnets": [
            {
                "alias": "lan",
                "egress": {"allow": {"domains": ["mirror.example", "*.forge.example"]}},
                "subnets": [subnet("192.168.20", gateway=GATEWAY, snat=True)],
            }
        ]
    },
    "vms": [{**SMALL, "name": "asker", "nics": [{"vnet": "lan"}]}],
}
A, AAAA, OPT, AXFR, ANY = 1, 28, 41, 252, 255
ORDINARY = {"NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "SRV": 33, "SVCB": 64}
ORDINARY |= {"HTTPS": 65, "CAA": 257}
IN, CH = 1, 3
OPTIONS = b"\0" + struct.pack(">HHIHHH", OPT, 4096, 0x8000, 10, 65001, 6) + b"secret"
RECORD = b"\6secret\0" + struct.pack(">HHIH", A, IN, 60, 4) + b"abcd"


@pytest.fixture(scope="module")
def range_(images: None) -> Iterator[Range]:
    world = World()
    home = Range(world, 0, Path())
    try:
        spec = json.loads(json.dumps(SPEC))
        spec["networks"]["vnets"][0]["capture"] = str(home.dir / "lan.pcap")
        home.sandbox = home.ok("up", home.spec(spec), timeout=900)
        yield home
    finally:
        home.close()
        world.close()


class Query(NamedTuple):
    data: bytes
    question: bytes
    leaves: bool  # whether the question may go to the host's resolver

    def as_sent_upstream(self) -> bytes:
        """All of our own query but its id."""
        name, rest = self.question[:-4], self.question[-4:]
        return struct.pack(">HHHHH", 0x100, 1, 0, 0, 0) + name.lower() + rest


def queries(first_id: int, word: str) -> dict[str, Query]:
    """By what is special about them. Their names carry the word."""
    made: dict[str, Query] = {}

    def name(*labels: str) -> bytes:
        # Upper case only where bytes.lower() changes no length.
        return b"".join(bytes([len(one)]) + one.encode() for one in labels) + b"\0"

    def add(
        what: str,
        *,
        leaves: bool,
        kind: int = A,
        klass: int = IN,
        flags: int = 0x100,
        counts: tuple[int, int, int, int] = (1, 0, 0, 0),
        asked: bytes | None = None,
        more: bytes = b"",
    ) -> None:
        number = len(made)
        asked = name(f"{word}-{number}", "FoRGe", "eXample") if asked is None else asked
        question = asked + struct.pack(">HH", kind, klass)
        head = struct.pack(">HH", first_id + number, flags) + struct.pack(">HHHH", *counts)
        made[what] = Query(head + question + more, question, leaves)

    add("letter case", leaves=True)
    add("all bits of the header that a query may have", leaves=True, flags=0x7FF)
    add("no bit of the header", leaves=True, flags=0)
    add("EDNS options", leaves=True, counts=(1, 0, 0, 1), more=OPTIONS)
    add("another additional record", leaves=True, counts=(1, 0, 0, 1), more=RECORD)
    add("bytes behind it", leaves=True, more=b"secret")
    add("options, and bytes behind them", leaves=True, counts=(1, 0, 0, 1), more=OPTIONS + RECORD)
    add("an answer", leaves=True, asked=name("WwW", "FoRGe", "eXample"), more=b"secret")
    for word_of_type, kind in ORDINARY.items():
        add(f"type {word_of_type}", leaves=True, kind=kind)
    for kind in (0, AAAA, OPT, 43, 249, 250, AXFR, ANY, 256, 0x7FFF, 0xFFFF):
        add(f"type {kind}", leaves=False, kind=kind)
    for klass in (0, CH, 254, 255, 0xFFFF):
        add(f"class {klass}", leaves=False, klass=klass)
    add("an answer of the guest's", leaves=False, flags=0x8180)
    add("an update", leaves=False, flags=0x2900)
    add("no question", leaves=False, counts=(0, 0, 0, 0))
    add("two questions", leaves=False, counts=(2, 0, 0, 0), more=name("forge") + b"\0\1\0\1")
    add("an answer record", leaves=False, counts=(1, 1, 0, 0), more=RECORD)
    add("an authority record", leaves=False, counts=(1, 0, 1, 0), more=RECORD)
    add("two additional records", leaves=False, counts=(1, 0, 0, 2), more=OPTIONS + RECORD)
    add("a pointer", leaves=False, asked=b"\xc0\x0c")
    add("a pointer behind a label", leaves=False, asked=b"\5forge\xc0\x0c")
    add("a byte of no host name", leaves=False, asked=name(f"{word}\0\n", "forge", "example"))
    add("a dot in a label", leaves=False, asked=name(f"{word}.dot", "forge", "example"))
    add("a name too long", leaves=False, asked=name(*["a" * 63] * 3, "a" * 48, "forge", "example"))
    add("control", leaves=True)
    return made


def check_asked(range_: Range, sent: dict[str, Query], before: int) -> None:
    """The resolver got what may leave, in messages of moat's own, and nothing else."""
    control = sent["control"].question.lower()
    until(lambda: any(control in one.lower() for one in range_.world.asked()[before:]), "control")
    asked = {one[2:] for one in range_.world.asked()[before:]}
    allowed = {query.as_sent_upstream(): what for what, query in sent.items() if query.leaves}
    assert [one for one in asked if one not in allowed] == []
    assert [what for one, what in allowed.items() if one not in asked] == []


def check_answer(query: Query, answer: bytes) -> None:
    """The guest gets its own question back, and nothing that the resolver added to the answer."""
    end = 12 + len(query.question)
    bits, questions, answers, authority, additional = struct.unpack(">HHHHH", answer[2:12])
    assert answer[:2] == query.data[:2]
    assert answer[12:end] == query.question
    assert bits & 0xFFF0 == 0x8080 | (query.data[2] & 1) << 8
    assert (questions, authority, additional) == (1, 0, 0)
    assert len(answer) == end + 16 * answers


def test_questions_by_udp(range_: Range) -> None:
    sent = queries(0x5000, "udp")
    card = card_of(range_, "asker", GATEWAY)
    before = len(range_.world.asked())

    def frame(payload: bytes) -> bytes:
        packet = raw.ipv4(card.address, GATEWAY, raw.udp(53, payload))
        return raw.ether(card.gateway_mac, card.mac, 0x800, packet)

    def answers() -> dict[bytes, bytes]:
        """What came from port 53 to the sender's port, by id."""
        found = {}
        for one in frames((range_.dir / "lan.pcap").read_bytes()):
            if one[12:14] == b"\x08\0" and one[23] == raw.UDP and one[34:38] == b"\0\x35\x14\xe9":
                found[one[42:44]] = one[42 : 34 + struct.unpack(">H", one[38:40])[0]]
        return found

    send_frames(range_, "asker", [frame(query.data) for query in sent.values()])
    check_asked(range_, sent, before)
    leaving = {what: query for what, query in sent.items() if query.leaves}
    until(lambda: all(q.data[:2] in answers() for q in leaving.values()), "the guest is answered")
    for query in leaving.values():
        check_answer(query, answers()[query.data[:2]])
    # For a type that is not asked for, an empty answer.
    for kind in (0, AAAA, 0xFFFF):
        query = sent[f"type {kind}"]
        assert answers()[query.data[:2]][2:12] == struct.pack(">HHHHH", 0x8180, 1, 0, 0, 0)
        check_answer(query, answers()[query.data[:2]])


def test_questions_by_tcp(range_: Range) -> None:
    sent = queries(0x6000, "tcp")
    leaving = [query for query in sent.values() if query.leaves]
    staying = [query for query in sent.values() if not query.leaves]
    before = len(range_.world.asked())
    # Whatever is no query ends its connection: each of these has one of its own.
    alone = " & ".join(ask_by_tcp(GATEWAY, query.data) for query in staying)
    range_.sh(range_.sandbox, "asker", f"{alone} & wait")
    said = bytes.fromhex(
        range_.sh(range_.sandbox, "asker", ask_by_tcp(GATEWAY, *(query.data for query in leaving)))
    )
    for query in leaving:
        length = struct.unpack(">H", said[:2])[0]
        check_answer(query, said[2 : 2 + length])
        said = said[2 + length :]
    assert said == b""
    check_asked(range_, sent, before)
    refused = json.loads(range_.ok("logs", "--net", "--json", range_.sandbox))["names"]
    reasons = {one["why"] for one in refused if one["name"].startswith("tcp")}
    assert reasons == {"type not allowed", "name not allowed"}


def test_honest_programs(range_: Range) -> None:
    for name in ("mirror.example", "www.forge.example"):
        assert BANNER in range_.sh(range_.sandbox, "asker", GET % name)


def test_addresses_are_opened_without_a_program(range_: Range) -> None:
    """A guest can have new addresses opened all the time: no program may start for each."""
    many = question("many.forge.example")
    assert BANNER not in range_.sh(range_.sandbox, "asker", f"{tcp(LAST)} 2>&1; true")
    # Where the holder looks for programs, `nft` fails from now on.
    holder = max(holders(range_, range_.sandbox))
    assert namespace(holder, "mnt") != namespace(os.getpid(), "mnt")
    nft = shutil.which("nft") or ""
    enter = ["nsenter", "-t", str(holder), "--mount", "--pid"]
    subprocess.run([*enter, "mount", "--bind", "/bin/false", nft], check=True)
    try:
        check_opening(range_, many)
    finally:
        subprocess.run([*enter, "umount", nft], check=True)


def check_opening(range_: Range, many: bytes) -> None:
    # More addresses than moat remembers: the second time, they are opened though they are open.
    for _ in range(2):
        answer = bytes.fromhex(range_.sh(range_.sandbox, "asker", ask_by_tcp(GATEWAY, many)))
        assert struct.unpack(">HHH", answer[4:10]) == (0x8180, 1, len(MANY))
    assert BANNER in range_.sh(range_.sandbox, "asker", GET % LAST)
    # An answer may have an address twice.
    twice = ask_by_tcp(GATEWAY, question("twice.forge.example"))
    answer = bytes.fromhex(range_.sh(range_.sandbox, "asker", twice))
    assert struct.unpack(">HHH", answer[4:10]) == (0x8180, 1, 2)
    (network,) = helpers(range_, range_.sandbox, "dnsmasq")
    inside = ["nsenter", "-t", str(network), "--net", "nft", "-j", "list", "set", "inet", "moat"]
    listed = subprocess.run([*inside, "dns0"], check=True, capture_output=True, text=True).stdout
    elements = [one["elem"] for one in json.loads(listed)["nftables"][1]["set"]["elem"]]
    assert {(one["val"], one["timeout"]) for one in elements} >= {(a, 600) for a in MANY}


# Of what the DNS server was given (net/dns/server/server.h).
TO_HOLDER, TO_OUTSIDE, FIRST_LISTENER = 5, 6, 7
DONE, FORBIDDEN, FAILED = 1, 2, 3
HOUR = 3600


def server_of(range_: Range) -> int:
    (found,) = helpers(range_, range_.sandbox, "moat-helper net-dns")
    return found


def number(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address), "big")


def ask_to_open(taken: Taken, *addresses: str, zone: int = 0, seconds: int = HOUR) -> int | None:
    """What the holder says to a message as only a server can send it; None: nothing."""
    taken.asked = getattr(taken, "asked", 0x77000000) + 1  # type: ignore[attr-defined]
    count = len(addresses)
    ask = struct.pack("<5I", taken.asked, zone, seconds, count, count)  # type: ignore[attr-defined]
    ask += b"".join(struct.pack("<I", number(one)) for one in addresses)
    assert taken.call("sendto", TO_HOLDER, taken.put(ask), len(ask), 0, 0, 0) == len(ask)
    wait = taken.put(struct.pack("<ihh", TO_HOLDER, 1, 0))
    if taken.call("poll", wait, 1, 300 if zone or seconds > 86400 else 20000) != 1:
        return None
    assert taken.call("recvfrom", TO_HOLDER, taken.put(bytes(8)), 8, 0, 0, 0) == 8
    said, verdict = struct.unpack("<II", taken.read(taken.room, 8))
    assert said == taken.asked  # type: ignore[attr-defined]
    return int(verdict)


def take_socket(taken: Taken) -> int:
    """A socket to the host's resolver, as the server gets one for each question."""
    ask = struct.pack("<3I", 1, 0, 0)
    assert taken.call("sendto", TO_OUTSIDE, taken.put(ask), len(ask), 0, 0, 0) == len(ask)
    assert taken.call("poll", taken.put(struct.pack("<ihh", TO_OUTSIDE, 1, 0)), 1, 20000) == 1
    base = taken.put(bytes(256))
    # struct iovec at 64, control data at 128, struct msghdr at 0.
    taken.put(struct.pack("<QQ", base + 192, 8), 64)
    taken.put(struct.pack("<QI4xQQQQi4x", 0, 0, base + 64, 1, base + 128, 24, 0))
    assert taken.call("recvmsg", TO_OUTSIDE, base, 0) == 4
    length, level, kind, fd = struct.unpack("<Qiii", taken.read(base + 128, 20))
    assert (length, level, kind) == (20, socket.SOL_SOCKET, socket.SCM_RIGHTS)
    return int(fd)


REFUSED = -1  # EPERM


def check_it_gets_nowhere(taken: Taken) -> None:
    """No file, no process, no network but its sockets, no code of its own."""
    path, room = taken.put(b"/etc/passwd\0"), taken.put(bytes(64), 512)
    inet, unix, netlink = socket.AF_INET, socket.AF_UNIX, socket.AF_NETLINK
    for family, kind in ((inet, 1), (inet, 2), (inet, 3), (unix, 1), (netlink, 3), (17, 3)):
        assert taken.call("socket", family, kind, 0) == REFUSED
    assert taken.call("openat", -100, path, 0) == REFUSED
    assert taken.call("execve", path, 0, 0) == REFUSED
    assert taken.call("clone", 17, 0, 0, 0, 0) == REFUSED
    assert taken.call("ptrace", 0x4206, 1, 0, 0) == REFUSED
    assert taken.call("process_vm_readv", 1, room, 1, room, 1, 0) == REFUSED
    assert taken.call("kill", 1, 0) == REFUSED
    for name in ("mount", "unshare", "setns", "memfd_create", "ioctl", "sendmsg", "dup2"):
        assert taken.call(name, FIRST_LISTENER, path, room, 0, 0) == REFUSED, name
    assert taken.call("mprotect", taken.room, 4096, 7) == REFUSED
    assert taken.call("close", FIRST_LISTENER) == REFUSED
    assert taken.call("bind", FIRST_LISTENER, room, 16) == REFUSED
    # The host's network, by the only sockets that are in there.
    fd = take_socket(taken)
    evil = struct.pack("<H", inet) + struct.pack(">H", 53) + socket.inet_aton(EVIL) + bytes(8)
    to = taken.put(evil, 512)
    assert taken.call("sendto", fd, path, 5, 0, to, 16) == REFUSED
    assert taken.call("connect", fd, to, 16) == REFUSED
    assert taken.call("sendto", fd, path, 5, 0, 0, 0) == 5, "the resolver may be asked"
    assert taken.call("close", fd) == 0
    assert taken.call("getrandom", room, 8, 0) == 8, "the calls are made"


def test_what_a_server_can_do_that_was_taken_over(range_: Range) -> None:
    server = server_of(range_)
    assert capabilities(server) == set()
    assert os.listdir(f"/proc/{server}/root") == []
    # Who has taken over dnsmasq, which is of the same user, gets no further by that.
    (dhcp,) = helpers(range_, range_.sandbox, "dnsmasq")
    assert user_of(dhcp) == user_of(server)
    for other in (server, *holders(range_, range_.sandbox)):
        reached = probe(user_of(dhcp), [other])["done"]
        assert not {"write its memory", "trace it"} & {*reached}
    assert BANNER not in range_.sh(range_.sandbox, "asker", f"{tcp(EVIL)} 2>&1; true")
    with Taken(server) as taken:
        check_it_gets_nowhere(taken)
        for address in (*METADATA, PRIVATE, HOST, HOST_TOO, "127.0.0.1", "0.0.0.0", "224.0.0.1"):
            assert ask_to_open(taken, address) == FORBIDDEN, address
            assert ask_to_open(taken, EVIL, address) == FORBIDDEN, address
        assert ask_to_open(taken, EVIL, zone=1) is None
        assert ask_to_open(taken, EVIL, seconds=86401) is None
    assert BANNER not in range_.sh(range_.sandbox, "asker", f"{tcp(EVIL)} 2>&1; true")
    # The server goes on, and what it may do is what the holder lets it.
    assert BANNER in range_.sh(range_.sandbox, "asker", GET % "mirror.example")
    with Taken(server) as taken:
        assert ask_to_open(taken, EVIL) == DONE
    assert BANNER in range_.sh(range_.sandbox, "asker", GET % EVIL)


def test_the_server_ends_or_is_stopped(range_: Range) -> None:
    def resolves() -> bool:
        return BANNER in range_.sh(range_.sandbox, "asker", GET % "www.forge.example")

    def refused() -> set[str]:
        said = json.loads(range_.ok("logs", "--net", "--json", range_.sandbox))
        return {one["name"] for one in said["names"]}

    range_.sh(range_.sandbox, "asker", f"nslookup before.example {GATEWAY}; true")
    server = server_of(range_)
    os.kill(server, signal.SIGSTOP)
    assert "before.example" in refused(), "its record is there without it"
    os.kill(server, signal.SIGCONT)
    assert resolves()
    assert server_of(range_) == server
    os.kill(server, signal.SIGKILL)
    until(resolves, "another one serves")
    assert server_of(range_) != server
    range_.sh(range_.sandbox, "asker", f"nslookup after.example {GATEWAY}; true")
    assert {"before.example", "after.example"} <= refused()
    # Where it waits for the holder's parent, which is stopped, nobody else waits for it.
    outside = min(holders(range_, range_.sandbox))
    os.kill(outside, signal.SIGSTOP)
    try:
        said = range_.sh(range_.sandbox, "asker", f"nslookup www.forge.example {GATEWAY}; true")
        assert "Address: 203" not in said
        assert "before.example" in refused()
    finally:
        os.kill(outside, signal.SIGCONT)
    until(resolves, "names are resolved again")


def test_a_network_has_room_for_so_many_opened_addresses(range_: Range) -> None:
    """The last test here: an hour long, nothing more can be opened."""
    at_once, room = 1024, 16384
    first = number("203.1.0.0")
    with Taken(server_of(range_)) as taken:
        said = [
            ask_to_open(
                taken,
                *(
                    socket.inet_ntoa(struct.pack(">I", first + k * at_once + n))
                    for n in range(at_once)
                ),
            )
            for k in range(room // at_once + 1)
        ]
    assert said[: room // at_once - 1] == [DONE] * (room // at_once - 1)
    assert said[-1] == FAILED
