"""Loading in batches: visits that were read together, or run in the same moment, share their statements.

A statement is sent after its visits were read: an entity is never older than the token that its visit was
read with (trap: prefetching, caches, replicas). Whoever reads asks for a page ahead; a run asks for what
was not prepared. While one batch of runs is under way the next one gathers.

A picture that was loaded ahead serves exactly the visits that had been read when its load was sent, known
by their tokens. It may be older than the run: that is as if the run had begun at the load, and the save
compares versions as always. What we save ourselves is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from mainspring import clock
from mainspring.db.batcher import AfterFailure, Batcher
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection, Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.db.shared import SharedLine
from mainspring.db.sql import numbers, texts
from mainspring.entities.declare.catalogue import Catalogue, Known
from mainspring.entities.declare.state import Stored
from mainspring.entities.offers import StageOffer
from mainspring.entities.source.rows import LOCAL_PRINTING, Loaded, Source
from mainspring.entities.statements import SQL
from mainspring.ids import shard_of
from mainspring.kernel import Run, Visit

log = logging.getLogger("mainspring")
_decode = msgspec.json.Decoder(dict[str, object]).decode
# Visits in one statement. A worker with a thousand slots fills four: the server loads the next while the
# stages of the last one run here and those before them are saved.
PAGE = 250
# What was just read waits so long for what it will see (seconds); a locked table keeps only its own runs.
PREPARE_SECONDS = 0.25
# A picture that nobody has used by then is loaded again (seconds): an old one would only meet conflicts.
FRESH_SECONDS = 5.0
# When one was used too late, runs wait for something else than loads; and a load may fail or wait for a
# lock. Nothing is prepared for so long then (seconds).
PAUSE_SECONDS = 10.0
# Bytes of entities with their states, and entities, that are kept.
MOST_BYTES = 16_000_000
MOST_KEPT = 10_000


class Picture(msgspec.Struct, gc=False):
    """What a run sees: the entity, the states of some stages with their versions, what is due."""

    entity: Loaded | None = None
    states: dict[str, tuple[int, Stored]] = {}
    due: set[str] = set()  # queues
    catalogue: Catalogue = Catalogue()

    def state(self, stage: str) -> tuple[int, Stored | None]:
        return self.states.get(stage, (0, None))

    @property
    def size(self) -> int:
        """Of the entity with its states, in bytes."""
        states = sum(stored.size for _, stored in self.states.values())
        return states if self.entity is None else states + len(self.entity.body)


class _Kept(msgspec.Struct):
    key: str
    tokens: set[int]  # of the visits that it serves
    picture: Picture
    at: float
    size: int


class Prefetched:
    """The pictures of one kind in one worker, by the tokens of their visits."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}  # the oldest first
        self._tokens: dict[str, set[int]] = {}  # by key
        self._bytes = 0
        self._not_before = 0.0

    def has_room(self, now: float) -> bool:
        """Whether anything should be prepared now."""
        if now < self._not_before:
            return False
        for token, kept in list(self._kept.items()):
            if now - kept.at < FRESH_SECONDS:
                break
            self._pop(token)
        return self._bytes < MOST_BYTES and len(self._kept) < MOST_KEPT

    def keep(self, key: str, tokens: Sequence[int], picture: Picture, at: float) -> None:
        """A picture whose load was sent at this local moment, for visits that were read before."""
        for token in self._kept.keys() & tokens:
            self._pop(token)
        kept = _Kept(key, set(tokens), picture, at, picture.size)
        self._kept |= dict.fromkeys(tokens, kept)
        self._tokens.setdefault(key, set()).update(tokens)
        self._bytes += kept.size

    def take(self, token: int, now: float) -> Picture | None:
        """The picture for a visit, once."""
        kept = self._pop(token)
        if kept is not None and now - kept.at >= FRESH_SECONDS:
            self.pause(now)
            return None
        return None if kept is None else kept.picture

    def _pop(self, token: int) -> _Kept | None:
        if (kept := self._kept.pop(token, None)) is None:
            return None
        kept.tokens.remove(token)
        if not kept.tokens:
            self._bytes -= kept.size
        others = self._tokens[kept.key]
        others.remove(token)
        if not others:
            del self._tokens[kept.key]
        return kept

    def pause(self, now: float) -> None:
        """Prepare nothing for a while: it helps nobody, or takes too long."""
        self._not_before = now + PAUSE_SECONDS

    def drop(self, keys: Iterable[str]) -> None:
        """These entities were changed: what shows them as they were is of no use."""
        for key in keys:
            for token in tuple(self._tokens.get(key, ())):
                self._pop(token)


class LoadNeed(msgspec.Struct, frozen=True):
    """What the runs of a queue see beside the entity."""

    stage: str | None  # whose state; None: those of all stages
    due: str | None  # in which queue it may be due; "": none of interest, None: any of its queues
    # Whether a visit has to see the entity at all, as far as its payload says; None: always.
    wanted: Callable[[Visit], bool] | None = None


class Wish(msgspec.Struct, gc=False):
    """An entity by one of its visits, what they need of it, and what was found."""

    visit: Visit
    need: LoadNeed
    picture: Picture


class LoadedState(NamedTuple):
    """A row of load_states.sql."""

    n: int  # of the question, from 1
    stage: str
    version: int
    schema: int
    body: str | None
    message: bytes | None
    message_type: str | None


class DueVisit(NamedTuple):
    """A row of load_due.sql."""

    n: int  # of the question, from 1
    queue: str


class Loader:
    """Loads the entities of one kind for the runs of one worker."""

    def __init__(
        self,
        kind: str,
        source: Source,
        known: Known,
        prefetched: Prefetched,
        database: Database,
        line: SharedLine,
    ) -> None:
        self.needs: dict[str, LoadNeed] = {}  # by queue
        self._kind = kind
        self._prefetched = prefetched
        self._database = database
        self._source = source
        self._known = known
        self._line = line
        self._now = Batcher(self._load, most=PAGE, failed=self._failed)
        self._reconnecting = Reconnecting("load.waiting")
        self._preparing: asyncio.Task[None] | None = None

    def prepared(self, visit: Visit) -> Picture | None:
        """What a visit sees, if it was prepared."""
        return self._prefetched.take(visit.version, clock.local())

    async def load(self, visit: Visit) -> Picture:
        """The same, loaded now."""
        return await self._now([visit])

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
            self._preparing = asyncio.create_task(self._load_ahead(list(by_key.values())))
            _, late = await asyncio.wait({self._preparing}, timeout=PREPARE_SECONDS)
            if late:
                self._prefetched.pause(clock.local())

    async def _load_ahead(self, visits: list[list[Visit]]) -> None:
        """Those of each entity together."""
        try:
            for start in range(0, len(visits), PAGE):
                if start and not self._prefetched.has_room(clock.local()):
                    break  # great ones: the rest is loaded when it runs
                page, sent = visits[start : start + PAGE], clock.local()
                for some, picture in zip(page, await self._load(page), strict=True):
                    self._prefetched.keep(some[0].key, [v.version for v in some], picture, sent)
        except Exception as error:
            self._prefetched.pause(clock.local())
            log.info("load.unprepared", extra={"kind": self._kind, "error": str(error)})
        finally:
            self._preparing = None

    async def _failed(self, error: Exception) -> AfterFailure:
        """Trouble of the line or the server is nobody's failure, and goes on until it is over. What the
        server refuses fails alone."""
        if not is_transient(error):
            return AfterFailure.HALVE
        await self._reconnecting.wait(error, kind=self._kind)
        return AfterFailure.AGAIN

    async def close(self) -> None:
        """End what is under way; its visits stay."""
        await self._now.close()

    def readdress(self, run: Run, picture: Picture) -> StageOffer | None:
        """The offer that replaces a visit under another text of its entity's id than the one that its
        column writes ('007', or 'A' for a key that is blind to case): else it would have two turns."""
        visit, entity = run.visit, picture.entity
        if entity is None or entity.key == visit.key:
            return None
        shard = shard_of(entity.key, self._database.shard_count)
        payload = _decode(visit.payload)
        return StageOffer(visit.queue, shard, entity.key, payload=payload, priority=visit.priority)

    async def _load(self, visits: Sequence[list[Visit]]) -> list[Picture]:
        """What visits see, those of one entity the same picture."""
        wishes = [Wish(some[0], self._need(some), Picture()) for some in visits]
        async with self._line.use() as connection:
            if self._database.pooled:
                async with connection.atomic():
                    await connection.execute(LOCAL_PRINTING)
                    await self._fill(connection, wishes)
            else:
                await self._fill(connection, wishes)
        self._reconnecting.worked()
        return [wish.picture for wish in wishes]

    def _need(self, visits: Sequence[Visit]) -> LoadNeed:
        """What all of these visits of one entity need."""
        if len(visits) == 1:
            return self.needs[visits[0].queue]
        dues = {self.needs[visit.queue].due for visit in visits}
        return LoadNeed(None, "" if dues == {""} else None)

    async def _fill(self, connection: Connection, wishes: Sequence[Wish]) -> None:
        await self._known.refresh(connection)
        keys = list(dict.fromkeys(wish.visit.key for wish in wishes))
        entities = await self._source.load(connection, keys)
        for wish in wishes:
            entity = entities.get(wish.visit.key)
            wish.picture = Picture(entity, {}, set(), self._known.now)
        there = [wish for wish in wishes if wish.picture.entity is not None]
        await self._add_states(connection, there)
        await self._add_due(connection, [wish for wish in there if wish.need.due != ""])

    async def _add_states(self, connection: Connection, wishes: Sequence[Wish]) -> None:
        if not wishes:
            return
        rows = await connection.rows(
            SQL["load_states"],
            LoadedState,
            shards=numbers([wish.visit.shard for wish in wishes]),
            keys=texts([wish.visit.key for wish in wishes]),
            stages=texts([wish.need.stage for wish in wishes]),
            kind=self._kind,
        )
        for row in rows:
            stored = Stored(row.schema, row.body, row.message, row.message_type)
            wishes[row.n - 1].picture.states[row.stage] = (row.version, stored)

    async def _add_due(self, connection: Connection, wishes: Sequence[Wish]) -> None:
        if not wishes:
            return
        rows = await connection.rows(
            SQL["load_due"],
            DueVisit,
            shards=numbers([wish.visit.shard for wish in wishes]),
            keys=texts([wish.visit.key for wish in wishes]),
            queues=texts([wish.need.due for wish in wishes]),
        )
        for row in rows:
            wishes[row.n - 1].picture.due.add(row.queue)
