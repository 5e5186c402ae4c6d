"""`mainspring serve` from outside: where it listens, by which proof, in how many processes, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from served_process import Served

import warm
from mainspring.client import AsyncClient, Client, RemoteError
from mainspring.errors import InvalidSetting
from mainspring.v1 import task_service_pb2 as tasks

SAN = "loader.example.org"
UNKNOWN = pytest.raises(RemoteError, check=lambda error: error.status == "UNAUTHENTICATED")


def health(address: str, service: str) -> str:
    with grpc.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def mainspring(served: Served, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [sys.executable, "-m", "mainspring.cli.main", *arguments],
        cwd=served.folder,
        env=served.environment,
    )


def test_a_token_is_made_by_the_command_line_and_revoked_within_five_seconds(
    served: Served,
) -> None:
    made = mainspring(served, "tokens", "create", "web", "--scope", "enqueue:mail.*")
    token = made.stdout.strip()
    assert token.startswith("msp_"), made.stderr
    served.start()
    client = served.client(token=token)
    assert client.tasks.enqueue("mail.note", {"text": "x"}).is_new
    with pytest.raises(RemoteError) as denied:
        client.tasks.enqueue("bill.pay", {"amount": 1})
    assert (denied.value.code, denied.value.status) == ("forbidden", "PERMISSION_DENIED")
    id = token.split("_")[1]
    listed = mainspring(served, "tokens", "list").stdout
    assert id in listed
    assert "enqueue:mail.*" in listed
    assert token.split("_")[2] not in listed

    revoked = mainspring(served, "tokens", "revoke", id)

    assert revoked.stdout == f"the token {id} of web is revoked\n"
    deadline = time.monotonic() + 5
    with UNKNOWN:
        while time.monotonic() < deadline:
            client.tasks.enqueue("mail.note", {"text": "x"})
    assert "revoked" in mainspring(served, "tokens", "list").stdout


@pytest.mark.parametrize("days", ["0", "-3", "1e9", "nan", "inf"])
def test_a_token_lives_for_some_days(served: Served, days: str) -> None:
    told = mainspring(served, "tokens", "create", "web", "--scope", "admin", "--days", days)
    assert told.returncode == 2, told.stderr
    assert told.stderr.startswith("mainspring: --days must be above 0 and at most 3650, got ")


def test_on_this_machine_a_token_is_asked_for_too(served: Served) -> None:
    served.start()
    with UNKNOWN:
        served.client(token="msp_000000000000_" + "x" * 43).tasks.enqueue(
            "mail.note", {"text": "x"}
        )
    with Client(served.address) as nobody, UNKNOWN:
        nobody.tasks.enqueue("mail.note", {"text": "x"})
    mode = (served.folder / ".mainspring" / "token").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    first = served.token
    served.kill()
    served.start()
    assert served.token == first


def test_without_authentication_it_listens_on_this_machine_only(served: Served) -> None:
    served.start("--no-auth")
    with Client(served.address) as nobody:
        assert nobody.tasks.enqueue("mail.note", {"text": "x"}).is_new
    refused = mainspring(served, "serve", "--grpc", "0.0.0.0:0", "--no-auth")
    assert (refused.returncode, "can be reached from other machines" in refused.stderr) == (2, True)


def test_an_address_that_is_taken_is_told(served: Served) -> None:
    served.start("--no-auth")
    for more in ((), ("--processes", "2")):
        told = mainspring(served, "serve", "--grpc", served.address, "--no-auth", *more)
        assert told.returncode == 2, told.stderr
        assert "cannot be listened on: another program listens there" in told.stderr
        assert told.stderr.count("\n") == 1, told.stderr


def test_a_unix_socket_that_cannot_be_made_is_told(served: Served) -> None:
    for option in ("--grpc", "--http"):
        told = mainspring(served, "serve", option, f"unix:{served.folder}/none/door")
        assert told.returncode == 2, told.stderr
        assert "cannot be listened on: its directory is not there" in told.stderr
        assert told.stderr.count("\n") == 1, told.stderr


def test_a_unix_socket_is_its_owners(served: Served) -> None:
    path = served.folder / "door"
    served.start("--grpc", f"unix:{path}")
    for option in ("--grpc", "--http"):  # and not the next one's who asks for it
        taken = mainspring(served, "serve", option, f"unix:{path}")
        assert taken.returncode == 2, taken.stderr
        assert "another program listens there" in taken.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert served.client().tasks.enqueue("mail.note", {"text": "x"}).is_new


def test_health_is_told_to_everybody(served: Served) -> None:
    """Alive is not ready: the database is looked at for the services only."""
    served.start()
    assert health(served.address, "") == "SERVING"
    assert health(served.address, "mainspring.v1.TaskService") == "SERVING"
    with pytest.raises(grpc.RpcError) as absent:
        health(served.address, "mainspring.v1.StageService")
    assert absent.value.code() is grpc.StatusCode.NOT_FOUND


def written(folder: Path, name: str, blob: trustme.Blob) -> str:
    path = folder / name
    blob.write_to_path(str(path))
    return str(path)


def test_tls_and_client_certificates(served: Served) -> None:
    """A certificate's name has scopes like a token; one without them is nobody."""
    ca, folder = trustme.CA(), served.folder
    own = ca.issue_cert("localhost", "127.0.0.1")
    ours, theirs = ca.issue_cert(SAN), ca.issue_cert("stranger.example.org")
    roots = written(folder, "ca.pem", ca.cert_pem)
    made = mainspring(
        served, "tokens", "create", "loader", "--certificate", SAN, "--scope", "enqueue:mail.*"
    )
    assert made.returncode == 0, made.stderr
    served.start(
        *("--grpc", "0.0.0.0:0", "--client-ca", roots),
        *("--tls-cert", written(folder, "cert.pem", own.cert_chain_pems[0])),
        *("--tls-key", written(folder, "key.pem", own.private_key_pem)),
    )
    address = f"localhost:{served.address.rpartition(':')[2]}"
    assert not (
        folder / ".mainspring" / "token"
    ).exists()  # other machines come with tokens of their own

    def client(name: str, cert: trustme.LeafCert, **more: Any) -> Client:
        return Client(
            address,
            ca=roots,
            cert=written(folder, f"{name}.pem", cert.cert_chain_pems[0]),
            key=written(folder, f"{name}.key", cert.private_key_pem),
            **more,
        )

    with client("ours", ours) as loader:
        assert loader.tasks.enqueue("mail.note", {"text": "x"}).is_new
        with pytest.raises(RemoteError, match="has no scope"):
            loader.tasks.enqueue("bill.pay", {"amount": 1})
    with client("theirs", theirs) as stranger, UNKNOWN:
        stranger.tasks.enqueue("mail.note", {"text": "x"})
    with Client(address, ca=roots, timeout=1.0) as bare, pytest.raises(RemoteError):
        bare.tasks.enqueue("mail.note", {"text": "x"})


def test_a_renewed_certificate_is_served_without_a_restart(served: Served) -> None:
    """Over both transports; half of a new pair, while it is written, is passed over."""
    ca, folder = trustme.CA(), served.folder
    old, new = ca.issue_cert("localhost"), ca.issue_cert("localhost")
    roots = written(folder, "ca.pem", ca.cert_pem)
    served.start(
        *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        *("--tls-cert", written(folder, "cert.pem", old.cert_chain_pems[0])),
        *("--tls-key", written(folder, "key.pem", old.private_key_pem)),
    )

    def shown(address: str) -> str:
        context = ssl.create_default_context(cafile=roots)
        context.set_alpn_protocols(["h2", "http/1.1"])
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        with (
            socket.create_connection(place, 20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as found,
        ):
            return ssl.DER_cert_to_PEM_cert(found.getpeercert(binary_form=True) or b"")

    def pem(cert: trustme.LeafCert) -> str:
        return ssl.DER_cert_to_PEM_cert(
            ssl.PEM_cert_to_DER_cert(cert.cert_chain_pems[0].bytes().decode())
        )

    places = (served.address, served.http_address)
    assert [shown(place) for place in places] == [pem(old)] * 2
    written(folder, "key.pem", new.private_key_pem)
    assert [shown(place) for place in places * 2] == [pem(old)] * 4
    written(folder, "cert.pem", new.cert_chain_pems[0])
    deadline = time.monotonic() + 60
    for place in places:
        while shown(place) != pem(new):
            assert time.monotonic() < deadline
    assert "serve.certificate_renewed" in served.log


def test_a_token_does_not_travel_in_the_clear() -> None:
    with pytest.raises(InvalidSetting, match="without TLS"):
        Client("example.org:7411", token="msp_x", tls=False)


def test_several_processes_share_an_address_and_are_replaced(served: Served) -> None:
    """Children are started by exec; one that is killed is followed by another."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    served.start("--processes", "2", port=str(port))
    assert served.process is not None
    parent = psutil.Process(served.process.pid)

    def enqueue() -> bool:
        with served.client(timeout=60) as client:
            return client.tasks.enqueue("mail.note", {"text": "x"}).is_new

    while len(parent.children()) < 2:
        pass
    while not (served.folder / ".mainspring" / "token").exists():
        pass
    assert enqueue()
    before = {child.pid for child in parent.children()}
    os.kill(min(before), signal.SIGKILL)
    while len({child.pid for child in parent.children()} - before) < 1:
        assert enqueue()
    assert all(enqueue() for _ in range(5))
    assert served.kill(signal.SIGTERM) == 0


def test_the_async_client_is_the_same(served: Served) -> None:
    served.start()

    async def use() -> None:
        async with AsyncClient(served.address, token=served.token) as client:
            calls = await client.tasks.enqueue_many(
                "mail.note", [{"text": str(n)} for n in range(3)]
            )
            results = await asyncio.gather(
                *(client.tasks.result(call, timeout=30) for call in calls)
            )
            assert results == ["0", "1", "2"]
            assert (
                await client.tasks.enqueue("mail.note", {"text": "0"}, id=calls[0].id)
            ).is_new is False
            started = await client.processes.start("publish", {"page": 1}, key="1")
            assert await client.processes.signal(started, "approved", True)
            assert await client.processes.result(started, timeout=30) == "page 1 is out"
            await client.params.advance({"dwh.orders.rows": 1})
            async for found in client.params.watch(["dwh.orders.rows"]):
                assert [param.value for param in found] == [1]
                break
            with pytest.raises(RemoteError) as absent:
                await client.states.get("listing", "prize", ["1"])
            assert absent.value.code == "unknown_stage"

    with served.worker():
        asyncio.run(use())


def test_a_caller_has_so_many_waiting_calls(served: Served, new_token: Callable[..., str]) -> None:
    """The 257th long poll of a caller is told to come again; the others wait on."""
    served.start()
    token = new_token("admin", name="flood")
    call = served.client(token=token).tasks.enqueue("mail.note", {"text": "x"})
    request = tasks.GetTaskRequest(task=call.task, id=call.id)
    request.wait.seconds = 3
    metadata = (("authorization", f"Bearer {token}"),)
    with grpc.insecure_channel(served.address) as channel:
        method = channel.unary_unary("/mainspring.v1.TaskService/GetTask")
        body = request.SerializeToString()
        waiting = [method.future(body, metadata=metadata, timeout=60) for _ in range(300)]
        statuses = Counter(one.code().name for one in waiting)
    assert statuses == {"OK": 256, "RESOURCE_EXHAUSTED": 44}
