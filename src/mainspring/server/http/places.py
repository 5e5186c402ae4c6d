"""What a server is asked besides its calls: whether it is alive, ready, its numbers, its description."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files

from mainspring.errors import DatabaseUnavailable
from mainspring.server.counts import CallCounts
from mainspring.server.handlers.store import Store
from mainspring.server.http.answer import JSON, HttpAnswer
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.routes.route import not_allowed
from mainspring.server.readiness import Readiness
from mainspring.server.reception import Reception

TEXT = "text/plain; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
METRICS_SECONDS = 8.0  # a collector waits for ten
END = "# EOF"


@dataclass(frozen=True, slots=True)
class Place:
    """A path that is no call."""

    name: str
    answer: Callable[[], Awaitable[HttpAnswer]]
    scope: str | None = None  # None: everybody may ask


class Places:
    """Those of one server process."""

    def __init__(
        self, store: Store, reception: Reception, readiness: Readiness, counts: CallCounts
    ) -> None:
        self._store = store
        self._reception = reception
        self._readiness = readiness
        self._counts = counts
        self._document: bytes | None = None
        places = (
            Place("livez", self._live),
            Place("readyz", self._ready),
            Place("openapi.json", self._description),
            Place("metrics", self._metrics, "metrics"),
        )
        self._places = {place.name: place for place in places}

    def find(self, verb: str, segments: Sequence[str]) -> Place | None:
        """The place of a path."""
        place = self._places.get(segments[0]) if len(segments) == 1 else None
        if place is not None and verb not in ("GET", "HEAD"):
            raise not_allowed(verb, ["GET"])
        return place

    async def _live(self) -> HttpAnswer:
        return HttpAnswer(200, b"alive\n", {"content-type": TEXT})

    async def _ready(self) -> HttpAnswer:
        if self._readiness.is_ready:
            return HttpAnswer(200, b"ready\n", {"content-type": TEXT})
        why = "the server stops" if self._readiness.is_leaving else "the database does not answer"
        raise HttpRefused(503, "not_ready", why, headers={"retry-after": "1"})

    async def _description(self) -> HttpAnswer:
        if self._document is None:
            place = files("mainspring.server.http") / "openapi.json"
            self._document = place.read_bytes()
        return HttpAnswer(200, self._document, {"content-type": JSON})

    async def _metrics(self) -> HttpAnswer:
        """The engine's numbers and this process's own. Its own are told while the database is away."""
        engine: list[str] = []
        with suppress(DatabaseUnavailable, TimeoutError):
            async with asyncio.timeout(METRICS_SECONDS), self._store.turn():
                engine = (await self._store.app.metrics()).splitlines()
        lines = [
            *(line for line in engine if line != END),
            "# TYPE mainspring_server_ready gauge",
            "# HELP mainspring_server_ready Whether the database has answered this process of late.",
            f"mainspring_server_ready {int(self._readiness.is_ready)}",
            "# TYPE mainspring_server_calls_here gauge",
            "# HELP mainspring_server_calls_here Calls that are at work or wait just now.",
            *(
                f'mainspring_server_calls_here{{kind="{kind}"}} {self._reception.here(kind)}'
                for kind in ("work", "wait")
            ),
            *self._counts.lines(),
            END,
        ]
        return HttpAnswer(200, ("\n".join(lines) + "\n").encode(), {"content-type": OPENMETRICS})
