"""The save: entity, state, events and offers of many stage runs, in the transaction of their settle.

Locks in one order: the entities' rows, then the visits. Whoever writes a state locks its entity's row
first, so under that lock states stand still. Nothing is written of a run before all its locks are had,
and everything after the entity's update is driven by what that update returned: a row that a trigger of
the user's vetoed has no state, no event, and its visit fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakSet

import asyncpg

from mainspring.db.database import Connection
from mainspring.db.sql import as_rows, numbers, texts
from mainspring.entities.declare.catalogue import Known
from mainspring.entities.offers import StageOffer, offer
from mainspring.entities.save import loop_guard
from mainspring.entities.save.change import (
    Save,
    SaveItem,
    event_row,
    explained,
    outcome_of,
    own_save,
    refused,
    state_row,
    summary,
    vetoed,
)
from mainspring.entities.save.conflicts import Conflicts, can_rebase, watched
from mainspring.entities.source.dao import DaoSource
from mainspring.entities.source.loader import Prefetched
from mainspring.entities.source.rows import Loaded, Patch, Source, stand
from mainspring.entities.statements import SQL
from mainspring.kernel import Done, Run, Verdict, lock_visits

log = logging.getLogger("mainspring")


class OtherState(NamedTuple):
    """A row of check_states.sql."""

    n: int  # of the question, from 1
    is_renamed: bool


class WrittenState(NamedTuple):
    """A row of write_states.sql."""

    n: int
    version: int


class Saver:
    """The kernel's writer for the stage runs of one kind."""

    overlaps = True  # each holds the rows of the entities that it writes
    stands = True

    def __init__(
        self,
        kind: str,
        source: Source,
        known: Known,
        prefetched: Prefetched,
        *,
        ignore: frozenset[str],
        version: str,
        keeps: bool = False,
    ) -> None:
        self._keeps = keeps  # events, so that they can be replayed
        self.most = source.most
        self.conflicts = Conflicts()
        self._kind = kind
        self._prepare = own_save(kind)
        self._source = source
        self._known = known
        self._prefetched = prefetched
        self._ignore = ignore  # fields whose changes ask nobody
        self._version = version
        self._looked: WeakSet[Connection] = (
            WeakSet()
        )  # connections whose server's timeline is known
        self._busy = loop_guard.Busy(kind)

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        await self._look_at_server(connection)
        await connection.execute(self._prepare)
        verdicts: list[Verdict] = [None] * len(runs)
        items = await self._stand(connection, runs, verdicts)
        await self._check_states(connection, runs, verdicts)
        items = [item for item in items if verdicts[item.n] is None]
        items = await self._lock_visits(connection, items, verdicts)
        if items:
            await self._write(connection, items, verdicts)
        await self._offer_timers(connection, runs, verdicts)
        for n, run in enumerate(runs):
            if verdicts[n] is None:
                self.conflicts.over(run.visit)  # untouched, and still as it was loaded
        return [None if verdict == "settled" else verdict for verdict in verdicts]

    def explain(self, run: Run, error: Exception) -> str | None:
        """A refusal of the server in words that name the stage and its entity; a DAO has its own."""
        return None if isinstance(self._source, DaoSource) else explained(run, error)

    async def _look_at_server(self, connection: Connection) -> None:
        """After a failover to a standby that missed commits, numbers must not come back."""
        if connection in self._looked:
            return
        try:
            async with connection.transaction():
                await connection.run(SQL["advance_numbers"])
        except asyncpg.InsufficientPrivilegeError as error:
            log.warning("numbers.unchecked", extra={"kind": self._kind, "error": str(error)})
        self._looked.add(connection)

    # -- locks and comparisons

    async def _stand(
        self, connection: Connection, runs: Sequence[Run], verdicts: list[Verdict]
    ) -> list[SaveItem]:
        """How the entities stand: those to be written locked, the others only looked at."""
        quiet = [n for n, run in enumerate(runs) if run.change.is_quiet]
        if quiet:
            moved = await self._source.moved(connection, [runs[n].change.loaded for n in quiet])
            await self._look_again(connection, runs, [quiet[place] for place in moved], verdicts)
        first: dict[str, int] = {}
        for n, run in enumerate(runs):
            if not run.change.is_quiet and first.setdefault(run.visit.key, n) != n:
                verdicts[n] = "locked"  # one save of an entity at a time
        if not first:
            return []
        stood = await stand(self._source, connection, list(first))
        items = []
        for key, n in first.items():
            if key in stood.barred:
                verdicts[n] = refused(runs[n], stood.barred[key])
            elif key not in stood.locked:
                verdicts[n] = "locked" if key in stood.there else "rerun"
            elif self._holds(runs[n].change, stood.locked[key]):
                items.append(SaveItem(n, runs[n], runs[n].change, stood.locked[key]))
            else:
                verdicts[n] = self._conflict(runs[n])
        return items

    async def _look_again(
        self,
        connection: Connection,
        runs: Sequence[Run],
        moved: Sequence[int],
        verdicts: list[Verdict],
    ) -> None:
        """Entities that are not as they were loaded, of runs that write nothing: few, if any. What such
        a run found out may still hold."""
        if not moved:
            return
        now = await self._source.load(connection, [runs[n].change.loaded.key for n in moved])
        for n in moved:
            entity = now.get(runs[n].change.loaded.key)
            if entity is None or not self._holds(runs[n].change, entity):
                verdicts[n] = self._conflict(runs[n])

    def _holds(self, save: Save, now: Loaded) -> bool:
        """Whether the run's result holds for the entity as it is now, perhaps rebased."""
        if save.loaded.same_as(now):
            return True
        return can_rebase(save.loaded, now, watched(save.stage.settings, (), save.patch))

    def _conflict(self, run: Run) -> Verdict:
        return self.conflicts.met(run.visit, run.change.loaded)

    async def _check_states(
        self, connection: Connection, runs: Sequence[Run], verdicts: list[Verdict]
    ) -> None:
        """A state that an outsider replaced meanwhile, or newer code has under another name: the run began
        from another."""
        open_ = [n for n, run in enumerate(runs) if verdicts[n] is None]
        if not open_:
            return
        rows = await connection.rows(
            SQL["check_states"],
            OtherState,
            shards=numbers([runs[n].visit.shard for n in open_]),
            keys=texts([runs[n].visit.key for n in open_]),
            stages=texts([runs[n].change.stage.name for n in open_]),
            versions=numbers([runs[n].change.state_version for n in open_]),
            kind=self._kind,
        )
        for row in rows:
            verdicts[open_[row.n - 1]] = self._conflict(runs[open_[row.n - 1]])
            if row.is_renamed:
                self._known.forget()  # the next run passes its visit on

    async def _lock_visits(
        self, connection: Connection, items: list[SaveItem], verdicts: list[Verdict]
    ) -> list[SaveItem]:
        """No save without its visit; one that was offered again meanwhile is saved all the same."""
        if not items:
            return []
        stood = await lock_visits(connection, [item.run for item in items])
        kept = []
        for item, how in zip(items, stood, strict=True):
            if how in ("same", "moved"):
                kept.append(item)
            else:
                verdicts[item.n] = how  # settled before, locked or gone
        return kept

    # -- writing

    async def _write(
        self, connection: Connection, items: list[SaveItem], verdicts: list[Verdict]
    ) -> None:
        await self._update_entities(connection, items, verdicts)
        items = [item for item in items if verdicts[item.n] is None]
        await self._write_states(connection, items)
        await self._write_events(connection, items)
        await self._offer_system(connection, items)
        self._prefetched.drop(item.run.visit.key for item in items)
        for item in items:
            self.conflicts.over(item.run.visit)
            verdicts[item.n] = outcome_of(
                item.save,
                summary(
                    item.changed,
                    item.written.version if item.written else None,
                    item.state_version if item.save.state is not None else None,
                ),
            )
            if item.written is not None:
                self._busy.saved(item.run.visit.key, item.save.stage.name)

    async def _update_entities(
        self, connection: Connection, items: list[SaveItem], verdicts: list[Verdict]
    ) -> None:
        """One statement for each set of columns; a row that does not come back was not written."""
        sets: dict[tuple[str, ...], list[SaveItem]] = {}
        for item in items:
            if item.save.patch:
                sets.setdefault(tuple(sorted(item.save.patch)), []).append(item)
        for group in sets.values():
            patches = [Patch(item.now, item.save.patch) for item in group]
            written = await self._source.update(connection, patches)
            for item in group:
                item.wrote(written.get(item.now.key), self._version)
            left_out = [item for item in group if item.written is None]
            if left_out:
                await self._look_why(connection, left_out, verdicts)

    async def _look_why(
        self, connection: Connection, items: list[SaveItem], verdicts: list[Verdict]
    ) -> None:
        """A trigger vetoed the save; or one that another save of this transaction fired wrote the entity,
        and the result is of an older one."""
        moved = await self._source.moved(connection, [item.now for item in items])
        for place, item in enumerate(items):
            if place in moved and not isinstance(self._source, DaoSource):
                verdicts[item.n] = self._conflict(item.run)
            else:
                verdicts[item.n] = vetoed(item.run)

    async def _write_states(self, connection: Connection, items: list[SaveItem]) -> None:
        rows = [state_row(item) for item in items if item.save.state is not None]
        for item in items:
            item.has_state(item.save.state_version)
        if not rows:
            return
        found = await connection.rows(
            SQL["write_states"], WrittenState, states=as_rows(rows), kind=self._kind
        )
        if len(found) != len(rows):
            # Only where there is no row to lock (a DAO), or by somebody who does not lock it.
            raise asyncpg.SerializationError("a state was replaced while it was being saved")
        by_number = {item.n: item for item in items}
        for row in found:
            by_number[row.n].has_state(row.version)

    async def _write_events(self, connection: Connection, items: list[SaveItem]) -> None:
        """The outbox, where somebody listens or events are kept."""
        await self._known.refresh(connection)  # a run may have begun long ago
        catalogue = self._known.now
        told = [(i, catalogue.consumers(i.save.stage.name)) for i in items]
        heard = [(item, consumers) for item, consumers in told if consumers or self._keeps]
        if not heard:
            return
        rows = [event_row(item, consumers) for item, consumers in heard]
        await connection.run(
            SQL["write_events"], events=as_rows(rows), kind=self._kind, keeps=self._keeps
        )
        calls = [
            StageOffer(f"{self._kind}!{name}", item.run.visit.shard, item.run.visit.key)
            for item, consumers in heard
            for name in consumers
        ]
        await offer(connection, calls)

    async def _offer_system(self, connection: Connection, items: list[SaveItem]) -> None:
        """What changed goes to the system visit, as the capture trigger would have offered it."""
        offers = []
        for item in items:
            if item.written is None:
                continue
            fields = [name for name in item.changed if name not in self._ignore]
            if not fields:
                continue
            payload: dict[str, object] = {f"f:{name}": 1 for name in fields}
            if item.written.version is not None:
                payload["v"] = item.written.version
                if item.written.as_patched and set(fields) <= item.save.patch.keys():
                    payload[f"by:{item.save.stage.name}"] = item.written.version
            payload["chain"] = loop_guard.encode(item.save.chain)
            visit = item.run.visit
            offers.append(StageOffer(self._kind, visit.shard, visit.key, payload=payload))
        await offer(connection, offers)

    async def _offer_timers(
        self, connection: Connection, runs: Sequence[Run], verdicts: list[Verdict]
    ) -> None:
        """A run of the crawl lane never keeps its own row: its time is offered to the live one."""
        await offer(
            connection,
            [
                StageOffer(
                    run.change.stage.queue,
                    run.visit.shard,
                    run.visit.key,
                    due_at=run.change.at,
                    after=run.change.after,
                )
                for n, run in enumerate(runs)
                if run.change.crawl and run.change.after is not None
                if verdicts[n] is None or isinstance(verdicts[n], Done)
            ],
        )
