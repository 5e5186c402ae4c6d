"""The HTTP server as a process: TLS, certificates, tokens, sockets, several processes, both transports."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import trustme
from http_caller import Got, HttpCaller, caller_of, got
from served_process import Served
from test_serving import SAN, mainspring, written

NOTE = "/v1/tasks/mail.note/calls"
BODY = {"args": {"text": "x"}}


def test_tls_and_client_certificates_over_http(served: Served) -> None:
    """A certificate's name has scopes like a token; one without them is nobody; none does not come in."""
    ca, folder = trustme.CA(), served.folder
    own = ca.issue_cert("localhost", "127.0.0.1")
    roots = written(folder, "ca.pem", ca.cert_pem)
    made = mainspring(
        served, "tokens", "create", "loader", "--certificate", SAN, "--scope", "enqueue:mail.*"
    )
    assert made.returncode == 0, made.stderr
    served.start_http(
        *("--http", "0.0.0.0:0", "--client-ca", roots),
        *("--tls-cert", written(folder, "cert.pem", own.cert_chain_pems[0])),
        *("--tls-key", written(folder, "key.pem", own.private_key_pem)),
    )
    port = int(served.http_address.rpartition(":")[2])

    def ask(cert: trustme.LeafCert | None, task: str = "mail.note") -> Got:
        context = ssl.create_default_context(cafile=roots)
        if cert is not None:
            cert.private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
            context.load_cert_chain(folder / "client.pem")
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        try:
            path, kind = f"/v1/tasks/{task}/calls", {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(BODY), kind)
            return got(connection.getresponse())
        finally:
            connection.close()

    loader = ca.issue_cert(SAN)
    assert ask(loader).status == 201
    assert ask(loader, "bill.pay").status == 403
    assert ask(ca.issue_cert("stranger.example.org")).status == 401
    with pytest.raises(OSError, match=r"(?i)certificate|reset|closed|eof|pipe"):
        ask(None)
    with pytest.raises(OSError, match=r"(?i)unknown|reset|closed|eof|pipe|ca"):
        ask(trustme.CA().issue_cert(SAN))


def test_http_without_tls_or_proof_listens_on_this_machine_only(served: Served) -> None:
    refused = mainspring(served, "serve", "--http", "0.0.0.0:0")
    assert (refused.returncode, "can be reached from other machines" in refused.stderr) == (2, True)
    refused = mainspring(served, "serve", "--http", "0.0.0.0:0", "--no-auth")
    assert refused.returncode == 2
    missing = mainspring(
        served, "serve", "--http", "0.0.0.0:0", "--tls-cert", "none.pem", "--tls-key", "none.key"
    )
    assert (missing.returncode, "cannot be used" in missing.stderr) == (2, True)
    served.start_http("--no-auth", "--allow-host", "door.example.org")
    nobody = HttpCaller(served.http_address, None)
    assert nobody("POST", NOTE, BODY).status == 201
    assert nobody("POST", NOTE, BODY, Host="door.example.org").status == 201
    assert nobody("POST", NOTE, BODY, Host="wall.example.org").status == 403
    taken = mainspring(served, "serve", "--http", served.http_address, "--no-auth")
    assert (taken.returncode, "cannot be listened on" in taken.stderr) == (2, True)


def test_a_token_is_revoked_over_http_within_five_seconds(served: Served) -> None:
    token = mainspring(served, "tokens", "create", "web", "--scope", "enqueue").stdout.strip()
    served.start_http()
    call = HttpCaller(served.http_address, token)
    assert call("POST", NOTE, BODY).status == 201
    assert mainspring(served, "tokens", "revoke", token.split("_")[1]).returncode == 0
    until = time.monotonic() + 5
    while (status := call("POST", NOTE, BODY).status) == 201:
        assert time.monotonic() < until
    assert status == 401


class UnixConnection(http.client.HTTPConnection):
    """To a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def test_a_unix_socket_of_http_is_its_owners(served: Served) -> None:
    path = served.folder / "http"
    for _ in range(2):  # what a killed server has left is no hindrance
        served.start_http("--http", f"unix:{path}")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connection = UnixConnection(path)
        connection.request("GET", "/readyz")
        assert got(connection.getresponse()).status == 200
        connection.close()
        served.kill()


def test_both_transports_serve_one_database_and_count_a_caller_once(served: Served) -> None:
    """What one carries the other knows; the limit of long polls is over both."""
    served.start("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    key = str(uuid4())
    assert caller_of(served)("POST", NOTE, BODY, Idempotency_Key=key).status == 201
    again = served.client().tasks.enqueue("mail.note", {"text": "x"}, id=key)
    assert (again.id, again.is_new) == (key, False)
    metrics = caller_of(served)("GET", "/metrics").text.decode()
    assert 'transport="grpc",call="/mainspring.v1.TaskService/EnqueueTasks",status="OK"' in metrics


def test_several_processes_share_an_address_of_http_and_are_replaced(served: Served) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    served.start_http("--http", f"127.0.0.1:{port}", "--processes", "2")
    assert served.process is not None
    parent = psutil.Process(served.process.pid)

    def enqueued() -> bool:
        """A connection to a process that has just died is refused or reset: it is asked again."""
        while True:
            try:
                return caller_of(served)("POST", NOTE, BODY).status == 201
            except (OSError, http.client.HTTPException):
                continue

    while len(parent.children()) < 2:
        pass
    while not (served.folder / ".mainspring" / "token").exists():
        pass
    assert enqueued()
    before = {child.pid for child in parent.children()}
    os.kill(min(before), signal.SIGKILL)
    while not {child.pid for child in parent.children()} - before:
        assert enqueued()
    assert all(enqueued() for _ in range(5))
    assert served.kill(signal.SIGTERM) == 0


def test_a_caller_has_so_many_waiting_requests(
    served: Served, new_token: Callable[..., str]
) -> None:
    """The 257th long poll of a caller is told to come again; those whose callers hang up are let go."""
    served.start_http()
    watcher, flood = caller_of(served), HttpCaller(served.http_address, new_token("task.read"))
    url = watcher("POST", NOTE, BODY).json["url"]
    host, _, port = served.http_address.rpartition(":")
    head = f"Host: {served.http_address}\r\nAuthorization: Bearer {flood.token}\r\n"
    waiting: list[socket.socket] = []

    def here() -> bytes:
        return watcher("GET", "/metrics").text

    for batch in range(1, 9):  # at once they would not all find room in the line for the database
        for _ in range(32):
            waiting.append(socket.create_connection((host, int(port)), timeout=60))
            waiting[-1].sendall(f"GET {url}?wait=60 HTTP/1.1\r\n{head}\r\n".encode())
        while f'calls_here{{kind="wait"}} {32 * batch}\n'.encode() not in here():
            pass
    answer = flood("GET", f"{url}?wait=60")
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "overloaded", "1")
    for one in waiting:
        one.close()
    while b'calls_here{kind="wait"} 0\n' not in here():
        pass
    assert flood("GET", f"{url}?wait=0.01").status == 200


def test_who_reads_slowly_holds_up_nobody(served: Served) -> None:
    """Answers that are not read stand in their own connections; others are answered."""
    served.start_http()
    call = caller_of(served)
    large = {"calls": [{"task": "mail.note", "args": {"text": "x"}}] * 1000}
    host, _, port = served.http_address.rpartition(":")
    body = json.dumps(large).encode()
    head = (
        f"POST /v1/calls HTTP/1.1\r\nHost: {served.http_address}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {call.token}\r\n\r\n"
    )
    slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(3)]
    for one in slow:
        one.sendall(head.encode() + body)
    counts = Counter(call("POST", NOTE, BODY).status for _ in range(10))
    assert counts == {201: 10}
    for one in slow:
        one.close()
