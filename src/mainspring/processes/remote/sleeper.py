"""Somebody who waits for due visits though it is no worker: whoever offers one tells it like a sleeping
worker.

A hint may be lost, and behind a pooler there are none: whoever waits looks now and then all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from uuid import UUID, uuid4

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.db.sql import Steps, rows, run
from mainspring.kernel import KERNEL_SQL, Listener

# Offers stop telling one after this that has not said so again.
SLEEP_SECONDS = 10.0


class Sleeper:
    """One who waits, in one event loop. `offered` is told of a queue and when its visit is due; `heard`
    that what was said before now may have been missed."""

    def __init__(
        self,
        database: Database,
        offered: Callable[[str, datetime], None],
        heard: Callable[[], None],
    ) -> None:
        self._database = database
        self._offered = offered
        self._heard = heard
        self._id: UUID = uuid4()
        self._line = Line(database, "wait")
        self._until: dict[str, float] = {}  # by queue, a moment of the loop's clock
        self._task: asyncio.Task[None] | None = None
        self.is_told = False  # a connection listens

    def start(self) -> None:
        """Listen, unless there is a pooler between."""
        if self._database.pooled:
            return
        listener = Listener(
            self._line,
            offered=self._offered,
            shards_freed=lambda _: None,
            settings_changed=self._heard,
            called_off=lambda _: None,
            connected=self._connected,
        )
        self._task = asyncio.get_running_loop().create_task(
            listener.run(), name="mainspring.sleeper"
        )

    def _connected(self) -> None:
        self.is_told = True
        self._heard()

    def tiring(self, queues: Collection[str]) -> list[str]:
        """Those of these queues for which it must say (again) that it sleeps."""
        soon = asyncio.get_running_loop().time() + SLEEP_SECONDS / 2
        return sorted(queue for queue in queues if self._until.get(queue, 0.0) < soon)

    def sleep(self, queues: Collection[str]) -> Steps[list[str]]:
        """Say that it sleeps, in a transaction of its own. Those of these queues that must be looked at
        once more: what was offered before this was committed told nobody."""
        until = asyncio.get_running_loop().time() + SLEEP_SECONDS
        fresh = yield from rows(
            KERNEL_SQL["sleep_for"], str, queues=sorted(queues), id=self._id, seconds=SLEEP_SECONDS
        )
        self._until.update(dict.fromkeys(queues, until))
        return fresh

    def leave(self) -> Steps[None]:
        """Offers need not tell it any more."""
        queues, self._until = sorted(self._until), {}
        if queues:
            yield from run(KERNEL_SQL["sleep_no_more"], queues=queues, id=self._id)

    async def close(self) -> None:
        """Listen no more."""
        task, self._task, self.is_told = self._task, None, False
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._line.close()
