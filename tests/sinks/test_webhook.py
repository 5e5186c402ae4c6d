"""Events to a URL: a real HTTP receiver, the signature read by the reference library."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import pytest
import standardwebhooks

from brokers import free_port
from mainspring import Update
from mainspring.errors import EndpointAway, EventRefused, InvalidSetting, ReceiverGone
from mainspring.sinks import Webhook
from mainspring.sinks.address import AddressBook, is_private
from mainspring.testing import wait_until
from sinks.test_record import event
from stages import Stages

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OTHER = "whsec_" + base64.b64encode(b"76543210fedcba9876543210").decode()


class Receiver:
    """Takes events; says what the test wants it to say."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.status, self.headers = 204, dict[str, str]()
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if receiver.status < 300:
                    receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/events"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


async def test_an_event_comes_signed_as_a_standard_webhook(receiver: Receiver) -> None:
    """During a change of secrets both sign: a receiver with either can check."""
    target = Webhook(receiver.url, secrets=[OTHER, SECRET], source="shop")
    await target.send(event())
    await target.close()
    [(headers, body)] = receiver.got
    for secret in (SECRET, OTHER):
        found = standardwebhooks.Webhook(secret).verify(body, headers)
    assert found["id"] == "42"
    assert found["source"] == "shop/listing"
    assert found["data"]["entity"]["price"] == 7
    assert headers["webhook-id"] == "kafka:42"
    assert headers["content-type"].startswith("application/cloudevents+json")


@pytest.mark.parametrize("status", [302, 401, 403, 404, 429, 500, 503])
async def test_a_receiver_that_takes_nothing_is_away(receiver: Receiver, status: int) -> None:
    receiver.status = status
    receiver.headers = {"retry-after": "7", "location": "http://127.0.0.1:1/"}
    target = Webhook(receiver.url, secrets=SECRET)
    with pytest.raises(EndpointAway, match=f"said {status}") as raised:
        await target.send(event())
    assert raised.value.retry_after == 7.0
    await target.close()


async def test_an_event_that_is_refused_is_that_event_s_failure(receiver: Receiver) -> None:
    target = Webhook(receiver.url, secrets=SECRET)
    receiver.status = 422
    with pytest.raises(ValueError, match="said 422"):
        await target.send(event())
    receiver.status = 413
    with pytest.raises(EventRefused, match="said 413"):
        await target.send(event())
    await target.close()


async def test_nobody_there_is_away_and_the_url_s_secrets_are_not_told() -> None:
    port = free_port()
    target = Webhook(f"http://user:pass@127.0.0.1:{port}/path?token=x", secrets=SECRET)
    with pytest.raises(EndpointAway) as raised:
        await target.send(event())
    assert f"webhook http://127.0.0.1:{port}:" in str(raised.value)
    assert not {"pass", "token"} & set(
        str(raised.value).replace("?", " ").replace("/", " ").split()
    )
    await target.close()


async def test_events_wait_for_a_receiver_that_is_away(stages: Stages, receiver: Receiver) -> None:
    """S7: nothing is counted against the entity; in order when it is back."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("hook", Webhook(receiver.url, secrets=SECRET))
    await stages.install()
    receiver.status = 503
    stages.add(1, price=1)
    async with stages.app.worker():
        await wait_until(lambda: stages.listing()["rank"] == 1, 20)
        stages.change(price=2)
        await wait_until(lambda: stages.listing()["rank"] == 2, 20)
        await wait_until(
            lambda: "said 503" in str((stages.visit("listing!hook") or {}).get("error")), 20
        )
        assert stages.visit("listing!hook")["attempt"] == 0  # type: ignore[index]
        receiver.status = 200
        await wait_until(lambda: len(receiver.got) == 2, 60)
    assert [json.loads(body)["data"]["entity"]["rank"] for _, body in receiver.got] == [1, 2]


@pytest.mark.parametrize(
    ("url", "settings", "text"),
    [
        ("http://example.com/x", {}, "must use https"),
        ("ftp://example.com", {}, "must begin with https"),
        ("https://", {}, "name a host"),
        ("https://example.com", {"secrets": "whsec_x"}, "at least 16 bytes"),
        ("https://example.com", {"secrets": []}, "needs a secret"),
    ],
)
def test_bad_settings_are_refused(url: str, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSetting, match=text):
        Webhook(url, **{"secrets": SECRET, **settings})


async def test_a_receiver_that_is_gone_pauses_what_is_sent_to_it(
    stages: Stages, receiver: Receiver
) -> None:
    """S7: 410 is an answer for ever: nothing more is sent until an operator says so; nothing is lost."""
    kind = stages.kind()
    kind.stage(lambda entity: Update(rank=entity["price"]), name="Price", interest=["price"])
    kind.sink("hook", Webhook(receiver.url, secrets=SECRET))
    await stages.install()
    receiver.status = 410
    stages.add(1, price=1)
    paused = "select 1 from mainspring.queue where name = 'listing!hook' and paused_at is not null"
    async with stages.app.worker():
        await wait_until(lambda: stages.query(paused), 20)
        await wait_until(
            lambda: "said 410" in str((stages.visit("listing!hook") or {}).get("error")), 20
        )
        row = stages.visit("listing!hook")
        assert row is not None
        assert (row["attempt"], row["parked_at"]) == (0, None)
        receiver.status = 200
        await stages.app.operator.resume("listing!hook")
        await wait_until(lambda: len(receiver.got) == 1, 60)


async def test_410_is_said_as_such(receiver: Receiver) -> None:
    receiver.status = 410
    target = Webhook(receiver.url, secrets=SECRET)
    with pytest.raises(ReceiverGone, match="said 410"):
        await target.send(event())
    await target.close()


async def test_a_name_that_points_into_a_private_network_is_refused(receiver: Receiver) -> None:
    """S7: what is checked is the address, not the name; the connection goes to the checked one."""
    url = receiver.url.replace("127.0.0.1", "localhost")
    named = AddressBook("localhost", private=False)
    with pytest.raises(
        EndpointAway, match="host 'localhost' is in a private network; private=True"
    ):
        await named.checked()
    assert await AddressBook("localhost", private=True).checked() in ("127.0.0.1", "::1")
    target = Webhook("https://10.1.2.3/x", secrets=SECRET)
    with pytest.raises(EndpointAway, match="in a private network"):
        await target.send(event())
    await target.close()
    target = Webhook(url, secrets=SECRET)  # this machine, named as such, is meant
    await target.send(event())
    await target.close()
    [(headers, _)] = receiver.got
    assert headers["host"].startswith("localhost:")


async def test_a_secret_in_the_url_is_in_no_log(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """T12: many receivers know their senders by the URL alone; httpx's client would log it."""
    caplog.set_level("INFO")
    target = Webhook(f"{receiver.url}/T0/s3cret?key=s3cret", secrets=SECRET)

    await target.send(event())
    receiver.headers = {"set-cookie": "seen=1"}
    await target.send(event())
    await target.send(event())
    await target.close()

    assert len(receiver.got) == 3
    assert "cookie" not in receiver.got[-1][0]  # nothing of one answer is sent with the next event
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("127.0.0.1", True),
        ("10.0.0.1", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("::1", True),
        ("fe80::1", True),
        ("fd00::1", True),
        ("::ffff:10.0.0.1", True),
        ("::ffff:8.8.8.8", False),
        ("2002:0a00:0001::1", True),
    ],
)
def test_which_addresses_are_private(address: str, private: bool) -> None:
    assert is_private(ip_address(address)) is private
