"""One request as ASGI brings it: its path, headers and query read, its body within limits."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from mainspring.server.http.problems import HttpRefused
from mainspring.server.reception import RECEIVED_BYTES

Event = MutableMapping[str, Any]  # as ASGI has them: what is in them depends on their type
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Asgi = Callable[[Event, Receive, Send], Awaitable[None]]

BODY_SECONDS = 20.0
MOST_FIELDS = 600
HEADER_BYTES = 8 * 1024
TARGET_BYTES = 16 * 1024
HEAD_BYTES = HEADER_BYTES + TARGET_BYTES


class CallerGone(Exception):
    """Whoever asked has hung up; there is nobody to answer."""


class HttpRequest:
    """One request of a caller."""

    def __init__(self, scope: Event, receive: Receive) -> None:
        self._receive = receive
        self._ended = False
        self.verb = str(scope["method"])
        self.client_names: tuple[str, ...] = scope.get("state", {}).get("client_names", ())
        self.headers: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in scope["headers"]:
            self.headers[name.decode("latin-1").lower()].append(value.decode("latin-1").strip())
        self.raw_path = _path(scope)
        self._query = scope.get("query_string", b"")

    def check_head(self) -> None:
        """Refuse a head that is too large, and a body that could be read as two: its length told twice."""
        sizes = (len(name) + sum(map(len, them)) for name, them in self.headers.items())
        if sum(sizes) > HEADER_BYTES:
            raise HttpRefused(431, "too_large", f"headers have at most {HEADER_BYTES} bytes")
        if len(self.raw_path) + len(self._query) > TARGET_BYTES:
            raise HttpRefused(
                414, "too_large", f"a path and query have at most {TARGET_BYTES} bytes"
            )
        if "transfer-encoding" in self.headers and "content-length" in self.headers:
            raise HttpRefused(400, "no_http", "content-length and transfer-encoding are both given")

    def header(self, name: str) -> str | None:
        """A header that may be given once."""
        found = self.headers.get(name)
        if found is None:
            return None
        if len(found) > 1:
            raise HttpRefused(400, "header_twice", f"the header {name} is given more than once")
        return found[0]

    @property
    def segments(self) -> list[str]:
        """The path's parts. A slash within a part is written %2F."""
        try:
            return [unquote_to_bytes(part).decode() for part in self.raw_path[1:].split("/")]
        except UnicodeDecodeError:
            raise HttpRefused(400, "bad_path", "the path is no UTF-8") from None

    @property
    def query(self) -> dict[str, list[str]]:
        """The query's fields, each with all its values."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        try:
            pairs = parse_qsl(
                self._query.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=MOST_FIELDS,
            )
        except ValueError:  # UnicodeError is one
            raise HttpRefused(
                400, "bad_query", f"the query is no UTF-8, or has more than {MOST_FIELDS} fields"
            ) from None
        for name, value in pairs:
            found[name].append(value)
        return found

    async def body(self) -> bytes:
        """The body; one that is too large is refused before it is read."""
        length = self.header("content-length") or "0"
        if not (length.isascii() and length.isdigit()):
            raise HttpRefused(400, "bad_length", "content-length is no number")
        if len(length) > 12 or int(length) > RECEIVED_BYTES:
            raise _too_large()
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while not self._ended:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise CallerGone
                    part = message.get("body", b"")
                    parts.append(part)
                    if (size := size + len(part)) > RECEIVED_BYTES:
                        raise _too_large()
                    self._ended = not message.get("more_body", False)
        except TimeoutError:
            raise HttpRefused(
                408, "slow_body", f"the body was not here within {BODY_SECONDS:g} s"
            ) from None
        return b"".join(parts)

    async def gone(self) -> None:
        """Wait until the caller has hung up; the body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _path(scope: Event) -> str:
    """The path below where we are mounted, as it was sent."""
    raw = scope.get("raw_path")
    path = scope["path"] if raw is None else raw.decode("latin-1").partition("?")[0]
    root = scope.get("root_path", "")
    for prefix in (root, quote(root)):
        if root and path.startswith(f"{prefix}/"):
            return str(path[len(prefix) :])
    return str(path)


def _too_large() -> HttpRefused:
    return HttpRefused(413, "too_large", f"a body has at most {RECEIVED_BYTES} bytes")
