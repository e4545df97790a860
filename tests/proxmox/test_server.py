"""The test server answers as the genuine one does: errors, HTTP, logins, parameters."""

from __future__ import annotations

import gzip
import json
import re
import time
from typing import Any

import pytest
from client import API, Client, Connection, Reply
from conftest import SCALE
from server import PveServer

UNKNOWN = "property is not defined in schema and the schema does not allow additional properties"


def test_errors_have_a_body_a_reason_and_close_the_connection(client: Client) -> None:
    connection = Connection(client.server)
    reply = client.call("GET", "/nodes/pve/qemu/999/config", on=connection)
    message = "Configuration file 'nodes/pve/qemu-server/999.conf' does not exist"
    assert (reply.status, reply.reason) == (500, message)
    assert reply.json == {"data": None, "message": message + "\n"}
    assert reply.all("Connection") == ["close"]
    assert connection.closed()


def test_a_missing_vm_is_started_by_a_task_that_fails(client: Client) -> None:
    upid = client.call("POST", "/nodes/pve/qemu/999/status/start").data
    assert "qemu-server/999.conf' does not exist" in client.wait(upid)


def test_an_unknown_path_is_not_implemented(client: Client) -> None:
    assert client.call("GET", "/no/such/path").status == 501
    assert client.call("PUT", "/version").status == 501


def test_upids_look_like_upids(client: Client) -> None:
    upid = client.call("PUT", "/cluster/sdn").data
    pattern = r"UPID:pve:[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:reloadnetworkall::root@pam:"
    assert re.fullmatch(pattern, upid)
    assert client.wait(upid) == "OK"
    rows = client.get("/nodes/pve/tasks", limit=5)
    # The node's own part of it is the younger task.
    assert [row["type"] for row in rows[:2]] == ["srvreload", "reloadnetworkall"]
    assert rows[1]["upid"] == upid
    assert rows[1]["status"] == "OK"
    log = client.get(f"/nodes/pve/tasks/{upid}/log")
    assert log[-1]["t"] == "TASK OK"


# --- parameters ---


def refused(reply: Reply) -> dict[str, str]:
    assert (reply.status, reply.reason) == (400, "Parameter verification failed.")
    assert reply.json["message"] == "Parameter verification failed.\n"
    return reply.errors


@pytest.mark.parametrize("form", [False, True])
def test_parameters_are_checked_against_the_table(client: Client, form: bool) -> None:
    given: dict[str, Any] = {"zone": "muchtoolong", "type": "nonsense", "mtu": "big", "hello": 1}
    errors = refused(client.call("POST", "/cluster/sdn/zones", given, form=form))
    assert errors["zone"] == "value may only be 8 characters long"
    assert "does not have a value in the enumeration" in errors["type"]
    assert errors["mtu"] == "type check ('integer') failed - got 'big'"
    assert errors["hello"] == UNKNOWN


def test_missing_and_out_of_range_parameters(client: Client) -> None:
    errors = refused(client.call("POST", "/nodes/pve/qemu", {"memory": 512}))
    assert errors == {"vmid": "property is missing and it is not optional"}
    errors = refused(client.call("POST", "/nodes/pve/qemu", {"vmid": 99}))
    assert errors["vmid"] == "value must have a minimum value of 100"
    errors = refused(client.call("POST", "/nodes/pve/qemu", {"vmid": 500, "net32": "virtio"}))
    assert errors["net32"] == UNKNOWN
    errors = refused(
        client.call("POST", "/nodes/pve/qemu", {"vmid": 500, "net0": "virtio,brige=x"})
    )
    assert UNKNOWN in errors["net0"]
    errors = refused(client.call("POST", "/nodes/pve/qemu", {"vmid": 500, "tags": "a b!"}))
    assert "invalid characters in tag" in errors["tags"]


def test_older_servers_lack_parameters() -> None:
    with PveServer(pve_version="8.4", time_scale=SCALE, task_time=0.01) as server:
        client = Client(server)
        given = {"file": "/x", "count": 1}
        reply = client.call("GET", "/nodes/pve/qemu/100/agent/file-read", given)
        assert refused(reply) == {"count": UNKNOWN}
        assert client.get("/version")["release"] == "8.4"


def test_tags_are_normalised(client: Client) -> None:
    given = {"vmid": 190, "tags": "zebra,Inspect;apple zebra"}
    assert client.task("POST", "/nodes/pve/qemu", given) == "OK"
    assert client.get("/nodes/pve/qemu/190/config")["tags"] == "apple;inspect;zebra"
    assert client.task("DELETE", "/nodes/pve/qemu/190") == "OK"


# --- HTTP ---


def test_a_connection_is_kept_although_a_proxied_answer_says_close(client: Client) -> None:
    connection = Connection(client.server)
    for _ in range(3):
        reply = client.call("GET", "/nodes/pve/qemu", on=connection)
        assert reply.status == 200
        assert reply.all("Connection") == ["close", "Keep-Alive"]
    assert client.call("GET", "/version", on=connection).all("Connection") == ["Keep-Alive"]


def test_a_connection_ends_after_a_hundred_requests(client: Client) -> None:
    connection = Connection(client.server)
    for _ in range(99):
        assert client.call("GET", "/version", on=connection).all("Connection") == ["Keep-Alive"]
    assert client.call("GET", "/version", on=connection).all("Connection") == ["close"]
    assert connection.closed()


def test_idle_connections_are_closed() -> None:
    with PveServer(idle=2, task_time=0.01) as server:
        client = Client(server)
        connection = Connection(server)
        assert client.call("GET", "/version", on=connection).status == 200
        assert connection.closed()
        # Also one that waits for the rest of a body.
        connection = Connection(server)
        headers = "".join(f"{name}: {value}\r\n" for name, value in client.headers.items())
        start = f"PUT {API}/cluster/sdn HTTP/1.1\r\n{headers}Content-Length: 10\r\n\r\nabc"
        connection.send(start.encode())
        assert connection.closed()


def raw(client: Client, verb: str, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
    return Connection(client.server).request(verb, API + path, {**client.headers, **headers}, body)


def head_alone(client: Client, path: str, headers: dict[str, str]) -> Reply:
    connection = Connection(client.server)
    lines = [f"{name}: {value}" for name, value in {**client.headers, **headers}.items()]
    connection.send("\r\n".join([f"POST {API}{path} HTTP/1.1", *lines, "", ""]).encode())
    return connection.reply()


def test_bodies_that_are_refused(client: Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    path = "/nodes/pve/qemu/100/agent/exec"
    # Refused by its length: the body itself is not waited for, so none is sent.
    assert head_alone(client, path, {**form, "Content-Length": "524289"}).status == 501
    assert raw(client, "DELETE", "/nodes/pve/qemu/999", form, b"purge=1").status == 501
    text = {"Content-Type": "text/plain"}
    assert raw(client, "POST", path, text, b"command=x").status == 506
    assert head_alone(client, path, {"Transfer-Encoding": "chunked"}).status == 501


def test_a_body_of_exactly_the_limit_is_taken(client: Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"zone=abc&type=simple&x=" + b"y" * (524288 - 23)
    reply = raw(client, "POST", "/cluster/sdn/zones", form, body)
    assert reply.errors == {"x": UNKNOWN}


def test_large_answers_are_compressed_when_asked_for(client: Client) -> None:
    reply = raw(client, "GET", "/access/permissions", {"Accept-Encoding": "gzip"})
    assert reply.all("Content-Encoding") == ["gzip"]
    assert "/vms" in json.loads(gzip.decompress(reply.body))["data"]


# --- who may ---


def test_a_bad_login_is_refused_late(server: PveServer) -> None:
    before = time.monotonic()
    client = Client(server, token="x@pam!y=z")
    reply = client.call("POST", "/access/ticket", {"username": "root@pam", "password": "wrong"})
    assert (reply.status, reply.reason) == (401, "authentication failure")
    assert time.monotonic() - before >= 3 * SCALE


def test_csrf_token_and_ticket_are_checked(client: Client) -> None:
    ticket = {"Cookie": client.headers["Cookie"]}
    assert client.call("GET", "/version", headers=ticket).status == 200
    reply = client.call("PUT", "/cluster/sdn", headers=ticket)
    assert (reply.status, reply.body) == (401, b"")
    wrong = {**client.headers, "Cookie": "PVEAuthCookie=PVE:root@pam:00000000::none"}
    assert client.call("GET", "/version", headers=wrong).status == 401
    assert client.call("GET", "/version", headers={}).status == 401


def test_tickets_end_and_can_be_renewed(client: Client) -> None:
    ticket = client.call(
        "POST", "/access/ticket", {"username": "root@pam", "password": client.server.password}
    )
    renewed = {"username": "root@pam", "password": ticket.data["ticket"]}
    assert client.call("POST", "/access/ticket", renewed).status == 200
    client.server.control("expire_tickets")
    assert client.call("GET", "/version").status == 401
    time.sleep(0.2)
    assert Client(client.server).call("GET", "/version").status == 200


def test_a_token_needs_neither_ticket_nor_csrf_header(server: PveServer) -> None:
    client = Client(server, token="root@pam!probe=s3cret-of-a-token")
    assert client.task("PUT", "/cluster/sdn") == "OK"
    reply = Client(server, token="root@pam!probe=wrong").call("GET", "/version")
    assert (reply.status, reply.body) == (401, b"")


def test_privileges_are_checked(server: PveServer) -> None:
    server.control("add_vm", vmid=201, config={"name": "theirs", "tags": "inspect"})
    mine = ["VM.Audit", "VM.Allocate", "VM.Config.Options"]
    grants = {"/vms/300": mine, "/storage": ["Datastore.Audit"]}
    server.control("user", user="eve@pve", password="pw", grants=grants)
    eve = Client(server, "eve@pve", "pw")
    reply = eve.call("GET", "/nodes/pve/qemu/201/config")
    assert (reply.status, reply.reason) == (403, "Permission check failed (/vms/201, VM.Audit)")
    assert eve.get("/nodes/pve/qemu") == []
    assert eve.call("POST", "/cluster/sdn/zones", {"zone": "ab", "type": "simple"}).status == 403
    assert eve.task("POST", "/nodes/pve/qemu", {"vmid": 300, "name": "mine"}) == "OK"
    assert [row["vmid"] for row in eve.get("/nodes/pve/qemu")] == [300]
    assert "VM.Audit" in eve.get("/access/permissions")["/vms/300"]
    root = Client(server)
    for vmid in (201, 300):
        assert root.task("DELETE", f"/nodes/pve/qemu/{vmid}") == "OK"


def test_no_secret_is_in_the_log(client: Client) -> None:
    text = json.dumps(client.server.log())
    assert client.server.password not in text
    assert "***" in text


def test_costs_are_those_of_the_genuine_server() -> None:
    """As the server itself counts, so that a busy machine cannot fail this."""
    with PveServer(genuine_costs=True) as server:
        client = Client(server)
        base = f"/nodes/{server.node}/qemu"
        assert client.task("POST", base, {"vmid": 100, "agent": "1"}) == "OK"
        assert client.task("POST", f"{base}/100/status/start") == "OK"
        assert client.task("PUT", "/cluster/sdn") == "OK"
        took = {task["type"]: task["seconds"] for task in server.control("tasks")}
        assert took["qmstart"] >= 1.4
        assert took["reloadnetworkall"] >= 1.9
        content = {"file": "/x", "content": "x" * 61440}
        assert client.call("POST", f"{base}/100/agent/file-write", content).status == 200
        client.get(f"{base}/100/agent/file-read", file="/x")
        seconds = {entry["path"].split("/")[-1]: entry["seconds"] for entry in server.log()}
        assert seconds["file-write"] >= 0.11
        assert seconds["file-read"] >= 0.11 + 0.4 * 61440 / (1 << 20)
