"""How far runs are: what they say is kept in memory, and written for all of them a few times a second.

So a function that says it a thousand times a second is no slower, and costs the database two writes. What
is said is a hint: it may be lost with its worker, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from mainspring.db.database import Connection, Database
from mainspring.errors import InvalidSetting
from mainspring.failure_text import clean_text
from mainspring.kernel import Run, WorkerPort
from mainspring.tasks.statements import SQL

log = logging.getLogger("mainspring")
EVERY = 0.5  # seconds
NOTE_BYTES = 500
_DROPPED = 10_000  # at once


class Said(NamedTuple):
    attempt: int
    done: float
    note: str | None


def check_progress(done: float, note: str | None = None) -> None:
    """Refuse what is no part of the whole, and a note that is no text."""
    if isinstance(done, bool) or not isinstance(done, int | float) or not 0 <= done <= 1:
        raise InvalidSetting(f"progress must be 0 to 1, a part of the whole, got {done!r}")
    if note is not None and not isinstance(note, str):
        raise InvalidSetting(
            f"the note of a progress must be text or None, got {type(note).__name__}: give str(...) of it"
        )


class ProgressLine:
    """Of one worker."""

    def __init__(self, worker: WorkerPort) -> None:
        self._worker = worker
        self._said: dict[UUID, Said] = {}  # since the last write
        self._gate = threading.Lock()
        self._awake = False
        self._writer: asyncio.Task[None] | None = None

    def say(self, run: Run, done: float, note: str | None) -> None:
        """From any thread."""
        check_progress(done, note)
        note = None if note is None else clean_text(note, NOTE_BYTES)
        with self._gate:
            self._said[run.visit.id] = Said(run.visit.attempt + 1, float(done), note)
            was_awake, self._awake = self._awake, True
        if not was_awake:
            self._worker.call_soon(self._begin)

    def _begin(self) -> None:
        self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        while said := self._taken():
            await self._write(said)
            await asyncio.sleep(EVERY)

    def _taken(self) -> Mapping[UUID, Said]:
        with self._gate:
            said, self._said = self._said, {}
            self._awake = bool(said)
            return said

    async def _write(self, said: Mapping[UUID, Said]) -> None:
        try:
            async with self._worker.line().use() as connection:
                await connection.run(
                    SQL["write_progress"],
                    ids=list(said),
                    attempts=[word.attempt for word in said.values()],
                    dones=[word.done for word in said.values()],
                    notes=[word.note for word in said.values()],
                )
        except Exception as error:  # newer words come; a run must not suffer from it
            log.warning("progress.not_written", extra={"error": str(error)})

    async def close(self) -> None:
        """Write what was said last."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if said := self._taken():
            await self._write(said)


async def drop_progress(database: Database, connection: Connection, *, days: int) -> None:
    """Drop what was said long ago."""
    while await connection.one(SQL["drop_progress"], int, most=_DROPPED) == _DROPPED:
        pass
