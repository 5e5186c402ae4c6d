"""Whether the database has answered of late. To be ready is not to be alive.

They are apart: a database that is away must not let every server be restarted at once.
"""

from __future__ import annotations

import asyncio

from mainspring.server.handlers.store import Store
from mainspring.server.statements import SQL

READY_SECONDS = 10.0
LOOK_SECONDS = 2.0


class Readiness:
    """Looks at the database now and then, for all transports of a process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.is_ready = False
        self.is_leaving = False

    async def start(self) -> None:
        """Look once, and from now on."""
        self.is_ready = await self._answers()
        self._loop = asyncio.create_task(self._looking(), name="mainspring.readiness")

    async def leave(self) -> None:
        """Nothing new is wanted here."""
        self.is_leaving = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        self._tell(False)

    async def changed(self) -> None:
        """Wait until it is otherwise."""
        await self._changed.wait()

    async def _looking(self) -> None:
        now = asyncio.get_running_loop().time
        answered_at = now()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await self._answers():
                answered_at = now()
            self._tell(now() - answered_at < READY_SECONDS)

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._store.rows(SQL["answer"], int)
        except Exception:  # whatever it is, it has not answered
            return False
        return True

    def _tell(self, ready: bool) -> None:
        if ready != self.is_ready:
            self.is_ready = ready
            self._changed.set()
            self._changed = asyncio.Event()
