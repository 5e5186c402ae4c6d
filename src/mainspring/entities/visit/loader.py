"""Loading in batches: runs that ask in the same moment share their statements.

A run asks after its visit was read, and a statement is sent after the run asked: an entity is never older
than the token that its visit was read with (trap: prefetching, caches, replicas). While one batch is under
way the next one gathers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mainspring.db.database import Database, backoff, is_transient
from mainspring.db.literals import numbers, texts
from mainspring.db.reconnecting import Line
from mainspring.entities.declare.catalogue import Known
from mainspring.entities.declare.state import Stored
from mainspring.entities.offers import StageOffer
from mainspring.entities.source.prefetch import Picture, Prefetched
from mainspring.entities.source.printing import LOCAL_PRINTING
from mainspring.entities.source.rows import Source
from mainspring.entities.statements import SQL
from mainspring.kernel import Run, Visit, clock, shard_of

log = logging.getLogger("mainspring")
_decode = msgspec.json.Decoder(dict[str, Any]).decode
# Visits in one statement. A worker with a thousand slots fills four: the server loads the next while the
# stages of the last one run here and those before them are saved.
PAGE = 250
# What was just read waits so long for what it will see (seconds); a locked table keeps only its own runs.
PREPARE_SECONDS = 0.25
# Runs that are woken at once.
AT_ONCE = 32


class LoadNeed(msgspec.Struct, frozen=True):
    """What the runs of a queue see beside the entity."""

    stage: str | None  # whose state; None: those of all stages
    due: str | None  # in which queue it may be due; "": none of interest, None: any of its queues
    # Whether a visit has to see the entity at all, as far as its payload says; None: always.
    wanted: Callable[[Visit], bool] | None = None


EVERYTHING = LoadNeed(None, None)


class Wish(msgspec.Struct, gc=False):
    """A visit, and what is loaded for it."""

    visit: Visit
    need: LoadNeed


class Request(Wish, gc=False):
    """What one run asks for, and where it waits for it."""

    answer: asyncio.Future[Picture]


class Loader:
    """Loads the entities of one kind for the runs of one worker."""

    def __init__(
        self,
        kind: str,
        source: Source,
        known: Known,
        prefetched: Prefetched,
        database: Database,
        line: Line,
    ) -> None:
        self.needs: dict[str, LoadNeed] = {}  # by queue
        self._kind = kind
        self._prefetched = prefetched
        self._database = database
        self._source = source
        self._known = known
        self._line = line
        self._waiting: list[Request] = []
        self._busy: asyncio.Task[None] | None = None
        self._handing_out: set[asyncio.Task[None]] = set()
        self._preparing: asyncio.Task[None] | None = None

    async def prepare(self, visits: Sequence[Visit]) -> None:
        """Load what visits will see that were just read; what cannot be had soon is left to their runs, for
        whoever reads has other queues to read too."""
        if self._preparing is not None or not self._prefetched.has_room(clock.local()):
            return
        by_key: dict[str, list[Visit]] = {}
        for visit in visits:
            wanted = self.needs[visit.queue].wanted
            if wanted is None or wanted(visit):
                by_key.setdefault(visit.key, []).append(visit)
        if by_key:
            loading = asyncio.create_task(self._prepare_all(list(by_key.values())))
            self._preparing = loading
            _, late = await asyncio.wait({loading}, timeout=PREPARE_SECONDS)
            if late:
                self._prefetched.pause(clock.local())

    async def _prepare_all(self, visits: list[list[Visit]]) -> None:
        """Those of each entity together."""
        try:
            for start in range(0, len(visits), PAGE):
                if start and not self._prefetched.has_room(clock.local()):
                    break  # great ones: the rest is loaded when it runs
                await self._prepare(visits[start : start + PAGE])
        except Exception as error:
            self._prefetched.pause(clock.local())
            if is_transient(error):
                await self._line.lost()
            log.info("load.unprepared", extra={"kind": self._kind, "error": str(error)})
        finally:
            self._preparing = None

    async def _prepare(self, visits: list[list[Visit]]) -> None:
        wishes = [Wish(some[0], self._need(some)) for some in visits]
        async with self._line.lock:
            connection, sent = await self._line.get(), clock.local()
            pictures = await self._fetch(connection, wishes)
        for some, picture in zip(visits, pictures, strict=True):
            self._prefetched.keep(some[0].key, picture, [visit.version for visit in some], sent)

    def _need(self, visits: list[Visit]) -> LoadNeed:
        """What all of these visits of one entity need."""
        if self._prefetched.knows(visits[0].key):
            return EVERYTHING  # it serves the visits of the older picture too, whoever they are
        if len(visits) == 1:
            return self.needs[visits[0].queue]
        dues = {self.needs[visit.queue].due for visit in visits}
        return LoadNeed(None, "") if dues == {""} else EVERYTHING

    def prefetched(self, visit: Visit) -> Picture | None:
        """What a visit sees, if it was prepared."""
        return self._prefetched.take(visit.key, visit.version, clock.local())

    def load(self, visit: Visit) -> asyncio.Future[Picture]:
        """What a visit sees, loaded now."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Picture] = loop.create_future()
        self._waiting.append(Request(visit, self.needs[visit.queue], answer))
        if self._busy is None:
            self._busy = loop.create_task(self._run(), name="mainspring.load")
        return answer

    def readdress(self, run: Run, picture: Picture) -> StageOffer | None:
        """The offer that replaces a visit under another text of its entity's id than the one that its
        column writes ('007', or 'A' for a key that is blind to case): else it would have two turns."""
        visit, entity = run.visit, picture.entity
        if entity is None or entity.key == visit.key:
            return None
        shard = shard_of(entity.key, self._database.shard_count)
        payload = _decode(visit.payload)
        return StageOffer(visit.queue, shard, entity.key, payload=payload, priority=visit.priority)

    async def _run(self) -> None:
        """Send batches until nobody waits. Begins a tick later: all that asked by then go together."""
        tries = 0
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:PAGE], self._waiting[PAGE:]
                try:
                    await self._answer([r for r in batch if not r.answer.done()])
                    tries = 0
                except Exception as error:
                    if tries % 20 == 0:
                        log.warning("load.waiting", extra={"kind": self._kind, "error": str(error)})
                    self._waiting = [r for r in batch if not r.answer.done()] + self._waiting
                    await asyncio.sleep(backoff(tries))
                    tries += 1
        finally:
            self._busy = None

    async def _answer(self, batch: list[Request]) -> None:
        """Answer a batch; one that the server refuses is halved, so that what it refuses fails alone.

        Trouble of the line or the server is nobody's failure: raised, to be tried again.
        """
        if not batch:
            return
        try:
            async with self._line.lock:
                pictures = await self._fetch(await self._line.get(), batch)
        except Exception as error:
            if is_transient(error):
                await self._line.lost()
                raise
            if len(batch) == 1:
                _fail(batch[0], error)
            else:
                middle = len(batch) // 2
                await self._answer(batch[:middle])
                await self._answer(batch[middle:])
            return
        handing_out = asyncio.create_task(_hand_out(batch, pictures))
        self._handing_out.add(handing_out)
        handing_out.add_done_callback(self._handing_out.discard)

    async def _fetch(self, connection: Any, batch: Sequence[Wish]) -> list[Picture]:
        if self._database.pooled and not connection.is_in_transaction():
            async with self._database.transaction(connection):
                await connection.execute(LOCAL_PRINTING)
                return await self._fetch(connection, batch)
        await self._known.refresh(connection)
        catalogue = self._known.now
        keys = list(dict.fromkeys(r.visit.key for r in batch))
        entities = await self._source.load(connection, keys)
        pictures = [Picture(entities.get(r.visit.key), {}, set(), catalogue) for r in batch]
        await self._add_states(connection, batch, pictures)
        await self._add_due(connection, batch, pictures)
        return pictures

    async def _add_states(
        self, connection: Any, batch: Sequence[Wish], pictures: list[Picture]
    ) -> None:
        wanted = [n for n, picture in enumerate(pictures) if picture.entity]
        if not wanted:
            return
        values = {
            "shards": numbers([batch[n].visit.shard for n in wanted]),
            "keys": texts([batch[n].visit.key for n in wanted]),
            "stages": texts([batch[n].need.stage for n in wanted]),
            "kind": self._kind,
        }
        statement = SQL["load_states"]
        rows = await connection.fetch(statement.numbered, *statement.arguments(values))
        for n, stage, version, schema, body, message, message_type in rows:
            stored = Stored(schema, body, message, message_type)
            pictures[wanted[n - 1]].states[stage] = (version, stored)

    async def _add_due(
        self, connection: Any, batch: Sequence[Wish], pictures: list[Picture]
    ) -> None:
        wanted = [n for n, r in enumerate(batch) if r.need.due != "" and pictures[n].entity]
        if not wanted:
            return
        values = {
            "shards": numbers([batch[n].visit.shard for n in wanted]),
            "keys": texts([batch[n].visit.key for n in wanted]),
            "queues": texts([batch[n].need.due for n in wanted]),
        }
        statement = SQL["load_due"]
        rows = await connection.fetch(statement.numbered, *statement.arguments(values))
        for n, queue in rows:
            pictures[wanted[n - 1]].due.add(queue)


async def _hand_out(batch: list[Request], pictures: list[Picture]) -> None:
    """Wake the runs a few at a time: whoever writes what others have done must not wait for all of them."""
    for n, (request, picture) in enumerate(zip(batch, pictures, strict=True)):
        if n % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        if not request.answer.done():
            request.answer.set_result(picture)


def _fail(request: Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
        request.answer.exception()  # retrieved: its run may have been stopped meanwhile
