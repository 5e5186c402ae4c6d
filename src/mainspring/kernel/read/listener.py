"""Wake: listens for hints, so that an idle worker starts a new visit within milliseconds.

A hint may be lost at any time; the poll finds what it spoke of. Behind a transaction pooler there
are none at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mainspring.db.database import Connection
from mainspring.db.reconnecting import Line, Reconnecting
from mainspring.kernel.tuning import DEFAULT

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
        self._next_at: dict[str, float] = {}  # when a word may be followed again
        self._later: set[str] = set()  # words that will be

    async def run(self) -> None:
        reconnecting = Reconnecting("listen.waiting", first=DEFAULT.listen_again)
        while True:
            try:
                connection = await self._line.get()
                lost = asyncio.Event()
                connection.add_termination_listener(lambda _, lost=lost: lost.set())
                await connection.add_listener(CHANNEL, self._heard)
                self._connected()  # what was said while nobody listened is found by reading
                reconnecting.worked()
                await self._stay(connection, lost)
            except Exception as error:
                await self._line.lost()
                await reconnecting.wait(error)

    async def _stay(self, connection: Connection, lost: asyncio.Event) -> None:
        """Until the connection is lost; a question now and then finds one that died silently."""
        while not lost.is_set():
            try:
                async with asyncio.timeout(DEFAULT.silent):
                    await lost.wait()
            except TimeoutError:
                await connection.execute("select 1", timeout=DEFAULT.silent_answer)
        raise ConnectionError("the listening connection was closed")

    def _heard(self, _connection: object, _process: int, _channel: str, payload: object) -> None:
        """Anybody who is connected can say anything: what makes no sense is passed over."""
        try:
            self._understand(str(payload))
        except (ValueError, OverflowError):
            log.debug("listen.not_understood", extra={"payload": str(payload)[:100]})

    def _seldom(self, word: str, action: Callable[..., None], *values: str) -> None:
        """Now, or when it was done lately a moment later, once for all that is said until then."""
        loop = asyncio.get_running_loop()
        at = self._next_at.get(word, 0.0)
        if at <= loop.time():
            self._next_at = {w: t for w, t in self._next_at.items() if t > loop.time()}
            self._next_at[word] = loop.time() + DEFAULT.word_every
            action(*values)
        elif word not in self._later and len(self._later) < DEFAULT.most_words:
            self._later.add(word)
            loop.call_at(at, self._do_later, word, action, *values)

    def _do_later(self, word: str, action: Callable[..., None], *values: str) -> None:
        self._later.discard(word)
        self._seldom(word, action, *values)

    def _understand(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        if word == "shards":
            self._seldom(payload, self._shards_freed, rest)
        elif word == "settings":
            self._seldom(word, self._settings_changed)
        elif word == "stop":
            self._called_off(frozenset(map(int, rest.split())))
        else:
            self._offered(rest, _EPOCH + timedelta(microseconds=int(word)))
