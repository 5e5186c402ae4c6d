"""Wake: listens for hints, so that an idle worker starts a new visit within milliseconds.

A hint may be lost at any time; the poll finds what it spoke of. Behind a transaction pooler there
are none at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.db.connect import backoff
from mainspring.kernel.line import Line

log = logging.getLogger("mainspring")
CHANNEL = "mainspring"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Listener:
    """One connection that listens, opened again whenever it breaks."""

    def __init__(
        self,
        line: Line,
        *,
        offered: Callable[[str, datetime], None],
        shards_freed: Callable[[str], None],
        settings_changed: Callable[[], None],
        called_off: Callable[[frozenset[int]], None],
        connected: Callable[[], None],
    ) -> None:
        self._line = line
        self._offered = offered
        self._shards_freed = shards_freed
        self._settings_changed = settings_changed
        self._called_off = called_off
        self._connected = connected

    async def run(self) -> None:
        tries = 0
        while True:
            try:
                connection = await self._line.get()
                lost = asyncio.Event()
                connection.add_termination_listener(lambda _, lost=lost: lost.set())
                await connection.add_listener(CHANNEL, self._heard)
                self._connected()  # what was said while nobody listened is found by reading
                tries = 0
                await self._stay(connection, lost)
            except Exception as error:
                if tries % 20 == 0:
                    log.warning("listen.waiting", extra={"error": str(error)})
                await self._line.lost()
                await asyncio.sleep(backoff(tries, first=0.2))
                tries += 1

    async def _stay(self, connection: Any, lost: asyncio.Event) -> None:
        """Until the connection is lost; a question now and then finds one that died silently."""
        while not lost.is_set():
            try:
                async with asyncio.timeout(15):
                    await lost.wait()
            except TimeoutError:
                await connection.execute("select 1", timeout=10)
        raise ConnectionError("the listening connection was closed")

    def _heard(self, _connection: Any, _process: int, _channel: str, payload: object) -> None:
        word, _, rest = str(payload).partition(" ")
        if word == "shards":
            self._shards_freed(rest)
        elif word == "settings":
            self._settings_changed()
        elif word == "stop":
            self._called_off(frozenset(map(int, rest.split())))
        elif word.lstrip("-").isdigit():
            self._offered(rest, _EPOCH + timedelta(microseconds=int(word)))
