"""Events to a URL: CloudEvents in structured mode, signed as Standard Webhooks, by httpx.

Structured mode puts every attribute into the body, and the signature covers the body. `webhook-id` is the
event's idempotency key: the same whenever the event comes again. Redirects are not followed.
The host's addresses are looked up and checked here, and the connection goes to the checked one: a name that
points into a private network, now or at the next lookup, reaches nobody there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ssl
import time
from collections.abc import Collection, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import msgspec

from mainspring.entities.declare.event import Saved
from mainspring.errors import (
    EndpointAway,
    EventRefused,
    InvalidSetting,
    MissingExtra,
    ReceiverGone,
)
from mainspring.sinks.address import AddressBook, is_loopback
from mainspring.sinks.record import record_of, record_shape

try:
    import httpx
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("sending events to a URL", error.name, "webhook") from error

SECONDS = 10.0
_TIMEOUT = httpx.Timeout(SECONDS).as_dict()
# So much of a response is read: it is only shown.
RESPONSE_BYTES = 64_000
# These concern this event alone; every other refusal is the receiver's state.
_THIS_EVENT = {400, 409, 415, 422}
_TOO_LARGE = 413
_GONE = 410
_encode = msgspec.json.Encoder().encode


class Webhook:
    """A URL that gets the events of a kind by POST.

    `secrets` are those of Standard Webhooks ("whsec_..."); with two, both sign, so a receiver can change
    from one to the other. The URL is https, or http on this machine; `insecure=True` allows any http.
    A host in a private network is refused unless `private=True`. `ca` is a file in PEM with the authority
    of the receiver's certificate, where that is one of your own.
    """

    decodes = False  # it sends JSON as the database has it

    def __init__(
        self,
        url: str,
        *,
        secrets: str | Sequence[str],
        source: str = "mainspring",
        prefix: str = "",
        state: bool = True,
        fields: Collection[str] | None = None,
        headers: dict[str, str] | None = None,
        insecure: bool = False,
        private: bool = False,
        ca: str | None = None,
    ) -> None:
        _check_url(url, insecure)
        self.url = url
        self._trust = None if ca is None else _trusting(ca)
        self._keys = [_key(s) for s in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._keys:
            raise InvalidSetting("a webhook needs a secret to sign with: secrets='whsec_...'")
        self._shape = record_shape(source, prefix, state, fields)
        self._headers = headers or {}
        host = urlsplit(url).hostname or ""
        self._addresses = AddressBook(host, private=private or is_loopback(host))
        self._transport: httpx.AsyncHTTPTransport | None = None

    @property
    def address(self) -> str:
        """Where it sends to, as people are told: without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"webhook {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"

    async def send(self, event: Saved) -> None:
        """Send an event; returns when the receiver has said that it has it (2xx)."""
        record = record_of(event, self._shape)
        body = _encode({**record.attributes, "data": msgspec.Raw(record.data)})
        headers = signed(self._keys, event.idempotency_key, int(time.time()), body)
        headers["content-type"] = "application/cloudevents+json; charset=utf-8"
        headers["user-agent"] = "mainspring"
        address = ""
        try:
            async with asyncio.timeout(SECONDS):
                address = await self._addresses.checked()
                request = self._request(address, body, {**self._headers, **headers})
                response = await self._opened().handle_async_request(request)
                try:
                    said = await _start_of(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            self._addresses.failed(address)
            text = str(error) or type(error).__name__
            raise EndpointAway(f"{self.address}: {text}") from error
        status = response.status_code
        if 200 <= status < 300:
            return
        text = f"{self.address} said {status}: {said[:200]}"
        if status == _TOO_LARGE:
            raise EventRefused(text)
        if status in _THIS_EVENT:
            raise ValueError(text)
        if status == _GONE:
            raise ReceiverGone(text)
        raise EndpointAway(text, retry_after=_retry_after(response))

    def _request(self, address: str, body: bytes, headers: dict[str, str]) -> httpx.Request:
        """To the checked address; the host's name is what is asked for and what the certificate is of."""
        url = httpx.URL(self.url)
        return httpx.Request(
            "POST",
            url.copy_with(host=address),
            content=body,
            headers={"host": url.netloc.decode("ascii").rpartition("@")[2], **headers},
            extensions={"sni_hostname": url.host, "timeout": _TIMEOUT},
        )

    def _opened(self) -> httpx.AsyncHTTPTransport:
        """Not a client of httpx: that would log each URL, secrets in it included, and keep cookies."""
        if self._transport is None:
            # Of the environment nothing counts: a proxy would look the name up by itself.
            verify = True if self._trust is None else self._trust
            self._transport = httpx.AsyncHTTPTransport(trust_env=False, verify=verify)
        return self._transport

    async def probe(self) -> None:
        """A receiver of webhooks promises nothing but to take events: the next one is the trial."""

    async def close(self) -> None:
        """Close its connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()


def signed(keys: Sequence[bytes], id: str, now: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks for a body."""
    content = f"{id}.{now}.".encode() + body
    signatures = [
        "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys
    ]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(signatures),
    }


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < 16:
        raise InvalidSetting(
            "a webhook's secret must be 'whsec_' and at least 16 bytes in base64 (its value is not shown)"
        )
    return key


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidSetting(f"ca={ca!r} is no file of certificates in PEM: {error}") from error


def _check_url(url: str, insecure: bool) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidSetting(
            f"a webhook's URL must begin with https:// and name a host, got {url!r}"
        )
    if parts.scheme == "http" and not (insecure or is_loopback(host)):
        raise InvalidSetting(
            f"a webhook to {host!r} must use https: events would travel unencrypted; "
            "insecure=True allows it"
        )


async def _start_of(response: httpx.Response) -> str:
    found = b""
    async for chunk in response.aiter_raw():  # unpacked it could be of any size
        found += chunk
        if len(found) >= RESPONSE_BYTES:
            break
    return found[:RESPONSE_BYTES].decode(errors="replace")


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds, as the header says: a number, or a date."""
    text = response.headers.get("retry-after", "")
    if text.isdigit():
        return float(min(int(text), 3600))
    try:
        return max(0.0, min(3600.0, parsedate_to_datetime(text).timestamp() - time.time()))
    except ValueError:
        return None
