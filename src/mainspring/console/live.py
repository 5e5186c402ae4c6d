"""The figures of the overview, sent while somebody watches: one stream a tab, closed while it is hidden.

They come from the shared snapshot, so a stream costs the database nothing of its own. A page that is drawn
from the snapshot alone draws itself anew when they change. While the database is away they are said to be
stale, and the stream goes on: it recovers by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mainspring.console.snapshot import Glance, Snapshot
from mainspring.console.words import number, span

EVERY_SECONDS = 1.0
MOST_STREAMS = 200
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Streams:
    """Who watches. One loop looks for all of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._watching: set[asyncio.Queue[bytes]] = set()
        self._loop: asyncio.Task[None] | None = None

    def answer(self, request: Request) -> Response:
        """A stream, or a word that there are too many."""
        if len(self._watching) >= MOST_STREAMS:
            return Response("too many pages watch; this one is drawn anew by hand", 503)
        return StreamingResponse(
            self._events(request), media_type="text/event-stream", headers=HEADERS
        )

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(2)
        self._watching.add(queue)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._look(), name="mainspring.console")
        try:
            yield b"retry: 3000\n\n"
            while not await request.is_disconnected():
                try:
                    yield await asyncio.wait_for(queue.get(), 15)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._watching.discard(queue)
            if not self._watching and self._loop is not None:
                self._loop.cancel()

    async def _look(self) -> None:
        """While somebody watches: what changed is sent to all, the same bytes."""
        last = b""
        while self._watching:
            try:
                said = _event("glance", glance(await self._snapshot.look()))
            except Exception:
                said = _event("stale", {})
            if said != last:
                last = said
                for queue in self._watching:
                    if queue.full():  # a slow reader has the newest, not all
                        queue.get_nowait()
                    queue.put_nowait(said)
            await asyncio.sleep(EVERY_SECONDS)
            with suppress(Exception):
                await self._snapshot.examine()


def _event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def glance(sight: Glance) -> dict[str, str]:
    """The figures of the overview by the names of their places in the page."""
    status = sight.status
    return {
        "rate": number(round(status.per_second, 1)),
        "lag": span(status.lag_seconds),
        "parked": number(sight.parked_count),
        "workers": number(len(status.workers)),
        "slots": number(sum(w.slots for w in status.workers)),
        "free": number(sum(w.free for w in status.workers)),
        "waiting": number(sum(q.waiting for q in status.queues)),
        "running": number(sum(q.running for q in status.queues)),
        "at": sight.at.isoformat(timespec="seconds"),
    }
