"""A real HTTP receiver behind a network that cuts, stalls and half-closes; one that answers without end."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from mainspring import Saved, Update
from mainspring.errors import EndpointAway, InvalidSetting
from mainspring.sinks import Webhook
from mainspring.sinks import webhook as webhook_sink
from mainspring.testing import wait_until
from sinks.test_record import event
from sinks.test_webhook import SECRET, Receiver
from stages import Stages
from tcp_proxy import TcpProxy, tcp_proxy

IDS = (1, 2, 3)
ROUNDS = 3


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


@pytest.fixture
def proxy(receiver: Receiver) -> Iterator[TcpProxy]:
    with tcp_proxy("127.0.0.1", receiver.port) as found:
        yield found


class Other:
    """Another consumer of the same events."""

    def __init__(self) -> None:
        self.got: list[int] = []

    async def send(self, event: Saved) -> None:
        self.got.append(event.number)


def _came_again(receiver: Receiver) -> bool:
    ids = [headers["webhook-id"] for headers, _ in receiver.got]
    return len(ids) > len(set(ids))


@pytest.mark.parametrize("harm", ["cut request", "cut response", "stall", "half-close"])
async def test_a_network_that_breaks_leaves_no_event_out_and_turns_none_around(
    stages: Stages,
    receiver: Receiver,
    proxy: TcpProxy,
    harm: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S7: what nobody answered comes again under its id; first arrivals of an entity are in order."""
    monkeypatch.setattr(webhook_sink, "SECONDS", 0.5)
    kind, other = stages.kind(), Other()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("hook", Webhook(f"http://{proxy.address}/events", secrets=SECRET))
    kind.sink("other", other)
    await stages.install()
    stages.add(*IDS)
    cuts = iter([harm.startswith("cut")])
    direction = "to_server" if harm == "cut request" else "to_client"
    async with stages.app.worker():
        for price in range(1, ROUNDS + 1):
            if price == 2 and harm.startswith("cut"):
                proxy.cut_when(lambda where, _: where == direction and next(cuts, False))
            elif price == 2:
                proxy.stall("to_client") if harm == "stall" else proxy.half_close("to_client")
            stages.query("update listing set price = %s", price)
            await wait_until(lambda n=price: all(stages.listing(i)["rank"] == n for i in IDS), 30)
        # The other consumer is not held up.
        await wait_until(lambda: len(other.got) == len(IDS) * ROUNDS, 30)
        if harm == "stall":  # what was heard and not answered has come again
            await wait_until(lambda: _came_again(receiver), 60)
        proxy.resume()
        await wait_until(lambda: not stages.query("select number from mainspring.delivery"), 60)
    first: dict[str, dict[str, Any]] = {}
    for headers, body in receiver.got:
        first.setdefault(headers["webhook-id"], json.loads(body))
    for id in IDS:
        own = [found for found in first.values() if found["subject"] == str(id)]
        assert [found["data"]["entity"]["rank"] for found in own] == list(range(1, ROUNDS + 1))
    if harm in ("cut response", "stall"):
        assert len(receiver.got) > len(first)  # what was heard and not answered came again
    # "again": of several events that waited, some were taken before it broke.
    outcomes = {h["outcome"] for h in stages.query("select outcome from mainspring.history")}
    assert outcomes <= {"done", "again"}


async def test_an_answer_without_end_is_read_for_a_while_and_no_longer() -> None:
    """S7: 64 kB of it, in the time that a receiver has; 200 was said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer_without_end, args=(server,))
        thread.start()
        target = Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/x", secrets=SECRET)
        await target.send(event())
        await target.close()
        thread.join(20)
        assert not thread.is_alive()  # its connection was ended


def _answer_without_end(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            return


async def test_of_several_addresses_the_next_is_used_when_one_does_not_answer(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = socket.getaddrinfo

    def two(host: str, *rest: Any, **named: Any) -> Any:  # as a name server would tell them
        if host != "hooks.example":
            return found(host, *rest, **named)
        kinds = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kinds, ("127.0.0.9", 0)), (*kinds, ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    url = f"http://hooks.example:{receiver.port}/x"
    target = Webhook(url, secrets=SECRET, insecure=True, private=True)
    with pytest.raises(EndpointAway, match="All connection attempts failed"):
        await target.send(event())
    await target.send(event())
    await target.send(event())
    await target.close()
    assert [headers["host"] for headers, _ in receiver.got] == [
        f"hooks.example:{receiver.port}"
    ] * 2


async def test_a_certificate_must_be_the_host_s_and_of_a_trusted_authority(tmp_path: Path) -> None:
    """S7: though the connection goes to an address, the name is what must be proved."""
    ours = trustme.CA()
    ours.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.issue_cert("localhost").configure_cert(context)
    receiver = Receiver(context)
    at = receiver.url.replace("http://127.0.0.1", "https://localhost")
    try:
        for url, ca in ((at, None), (at.replace("localhost", "127.0.0.1"), tmp_path / "ca.pem")):
            target = Webhook(url, secrets=SECRET, ca=None if ca is None else str(ca))
            with pytest.raises(EndpointAway, match="certificate verify failed"):
                await target.send(event())
            await target.close()
        target = Webhook(at, secrets=SECRET, ca=str(tmp_path / "ca.pem"))
        await target.send(event())
        await target.close()
        assert len(receiver.got) == 1
    finally:
        receiver.close()
    with pytest.raises(InvalidSetting, match=r"is no file of certificates in PEM"):
        Webhook(at, secrets=SECRET, ca=str(tmp_path / "none.pem"))
