"""The protocol of stages as a whole: any interleaving, on a real database, with an oracle at rest.

Workers without any lease read, run and save visits, lose answers, send twice and crash, while outsiders
write (with the trigger and past it), replace states, delete and create anew, offer, and time passes. What
must hold is what the design page says; above all: at rest, every stage is asked again about every entity,
and none wants more than its entry says.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mainspring import Mainspring, Untouched, Update, now
from mainspring.db.shared import SharedConnections
from mainspring.entities import runtime as stage_runtime
from mainspring.entities.declare.outcome import at_moment
from mainspring.entities.kind import Kind
from mainspring.entities.visit.system import StaleRead
from mainspring.ids import token
from mainspring.kernel.outcome import Outcome, Retry
from mainspring.kernel.owned import Owned
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settle.batches import BatchKind, kind_of
from mainspring.kernel.settle.settler import Settler
from mainspring.kernel.visit import Run, Visit
from mainspring.testing import Clock
from stages import Stages

IDS = (1, 2)
BASE = datetime.now(UTC)
SETTINGS = settings(
    max_examples=8,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Mirror:
    """Keeps `note` equal to the title: an update that others do not touch."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return found["note"] != found["title"]

    async def process(self, found: dict[str, Any], state: Any) -> Update:
        return Update(note=found["title"])

    async def saved(self, event: Any) -> None: ...


class Even:
    """Makes `hits` even, and counts in its state how often it added one: the sums must agree."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return found["hits"] % 2 == 1

    async def process(self, found: dict[str, Any], state: Any) -> Update | Untouched:
        if found["hits"] % 2 == 0:
            return Untouched()
        state = state or {"added": 0, "marks": 0}
        return Update(hits=found["hits"] + 1, state={**state, "added": state["added"] + 1})

    async def saved(self, event: Any) -> None: ...


class Notice:
    """Keeps title and rank in its state: a save of state alone."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return self.seen(found) != state

    async def process(self, found: dict[str, Any], state: Any) -> Untouched:
        return Untouched(state=self.seen(found))

    def seen(self, found: dict[str, Any]) -> list[Any]:
        return [found["title"], found["rank"]]


class Expire:
    """Wants the entity `rank` hours after the beginning, once."""

    def due(self, found: dict[str, Any]) -> datetime:
        return BASE + timedelta(hours=found["rank"])

    def should_process(self, found: dict[str, Any], state: Any) -> bool | datetime:
        return False if state == found["rank"] else self.due(found)

    async def process(self, found: dict[str, Any], state: Any) -> Untouched:
        if state == found["rank"]:
            return Untouched()
        if now() >= self.due(found):
            return Untouched(state=found["rank"])
        return Untouched(visit_at=self.due(found))


def declare(kind: Kind) -> None:
    kind.stage(reads=["title", "note"], writes=["note"], interest=["title", "note"])(Mirror)
    kind.stage(interest=["hits"])(Even)
    kind.stage(reads=["title", "rank"])(Notice)
    kind.stage(interest=["rank"])(Expire)


class Protocol(RuleBasedStateMachine):
    stages: Stages
    clock: Clock
    app: Mainspring
    kind: Kind
    loop: asyncio.Runner
    runtime: stage_runtime.Runtime
    settler: Settler

    @initialize()
    def begin(self) -> None:
        sql = self.stages.query
        sql("delete from listing")
        for table in ("visit", "history_run", "state", "event", "delivery"):
            sql(f"delete from mainspring.{table}")
        self.handlers = {q.name: q for q in self.runtime.queues()}
        self.read_: list[Visit] = []  # read, not loaded yet
        self.ended: list[Run] = []  # processed, not settled
        self.outside = dict.fromkeys(IDS, 0)  # what outsiders added to hits, of this incarnation
        self.marks = dict.fromkeys(IDS, 0)
        self.past: set[int] = set()  # written past the trigger: only a crawl finds that
        self.titles = 0
        for id in IDS:
            self.stages.add(id)

    # -- outsiders

    @rule(id=st.sampled_from(IDS))
    def write_title(self, id: int) -> None:
        self.titles += 1
        self.stages.change(id, title=f"title {self.titles}")

    @rule(id=st.sampled_from(IDS), past=st.booleans())
    def add_hit(self, id: int, past: bool) -> None:
        if past:
            self.stages.query("set session_replication_role = replica")
        found = self.stages.query(
            "update listing set hits = hits + 1 where id = %s returning 1", id
        )
        self.stages.query("reset session_replication_role")
        self.outside[id] += len(found)
        if past and found:
            self.past.add(id)

    @rule(id=st.sampled_from(IDS), rank=st.integers(0, 3))
    def write_rank(self, id: int, rank: int) -> None:
        self.stages.change(id, rank=rank)

    @rule(id=st.sampled_from(IDS))
    def mark_state(self, id: int) -> None:
        state = self.stages.state("Even", id)
        body = state["body"] if state else {"added": 0, "marks": 0}
        body = {**body, "marks": body["marks"] + 1}
        done = self.stages.value(
            "select mainspring.set_state('listing', %s, 'Even', %s, %s::jsonb)",
            str(id),
            state["version"] if state else 0,
            json.dumps(body),
        )
        self.marks[id] += bool(done)

    @rule(id=st.sampled_from(IDS))
    def delete(self, id: int) -> None:
        self.stages.query("delete from listing where id = %s", id)

    @rule(id=st.sampled_from(IDS))
    def create(self, id: int) -> None:
        if not self.stages.query("select 1 from listing where id = %s", id):
            self.stages.add(id)
            self.outside[id] = self.marks[id] = 0
            self.past.discard(id)

    @rule(id=st.sampled_from(IDS), stage=st.sampled_from(["Mirror", "Even", "Notice", "Expire"]))
    def offer(self, id: int, stage: str) -> None:
        if self.stages.query("select 1 from listing where id = %s", id):
            self.stages.offer(f"listing/{stage}", id)

    @rule(hours=st.integers(1, 2))
    def time_passes(self, hours: int) -> None:
        self.clock.advance_sync(timedelta(hours=hours).total_seconds())

    # -- workers, none of which has a lease

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        due = self._due()
        if due and len(self.read_) + len(self.ended) < 4:
            self.read_.append(data.draw(st.sampled_from(due)))

    def _due(self) -> list[Visit]:
        rows = self.stages.query(
            "select shard, key, queue, id, grp, priority, date_part('epoch', due_at), version, attempt, "
            "crashes, expires_at, payload::text, ctid::text from mainspring.visit "
            "where due_at <= mainspring.now() and parked_at is null and queue !~ '!' order by queue, key"
        )
        return [Visit(*row.values()) for row in rows]

    @rule()
    @precondition(lambda self: self.read_)
    def prepare(self) -> None:
        """What was read is loaded long before it starts; some of it is never used."""
        prepare = self.handlers[self.read_[0].queue].prepare
        assert prepare is not None
        self.loop.run(prepare(self.read_))

    @rule(data=st.data())
    @precondition(lambda self: self.read_)
    def process(self, data: st.DataObject) -> None:
        visit = data.draw(st.sampled_from(self.read_))
        self.read_.remove(visit)
        if (run := self.loop.run(self._process(visit))) is not None:
            self.ended.append(run)

    async def _process(self, visit: Visit) -> Run | None:
        queue = self.handlers[visit.queue]
        moment = self.stages.value("select mainspring.now()").timestamp()
        run = Run(visit, token(), moment, time.monotonic(), settings=queue)
        try:
            run.outcome = await queue.handler(run)
        except StaleRead:  # the entity was deleted and made anew since, and with it its visit
            return None
        return run

    @rule(count=st.integers(1, 4), again=st.booleans())
    @precondition(lambda self: self.ended)
    def save(self, count: int, again: bool) -> None:
        """Save some in one batch; if the answer is lost they are sent again, sooner or later."""
        batch, self.ended = self.ended[:count], self.ended[count:]
        sent = [(run, run.outcome) for run in batch]
        self.loop.run(self._save(batch))
        self.check()
        if again:
            for run, outcome in sent:
                run.outcome, run.refused = outcome, False
            self.ended += batch

    async def _save(self, batch: list[Run]) -> None:
        """As the settler does: the runs of one sort together, and again what was not where it was read."""
        while batch:
            kinds: dict[BatchKind, dict[int, Run]] = {}
            for run in batch:
                kinds.setdefault(kind_of(run), {})[run.token] = run
            for sort, runs in kinds.items():
                async with self.settler._lines[0].use() as connection:
                    await self.settler._settle(connection, sort, runs)
            batch = [run for runs in self.settler._waiting.values() for run in runs if run.strayed]
            self.settler._waiting.clear()

    @rule()
    @precondition(lambda self: self.ended or self.read_)
    def crash(self) -> None:
        self.ended.clear()
        self.read_.clear()

    # -- what must hold after every save

    def check(self) -> None:
        self.no_update_is_lost()
        self.events_tell_what_was_saved()
        self.nothing_is_left_of_a_deleted_entity()

    def no_update_is_lost(self) -> None:
        rows = self.stages.query(
            "select l.id, l.hits, coalesce((s.body ->> 'added')::int, 0) as added, "
            "coalesce((s.body ->> 'marks')::int, 0) as marks from listing l "
            "left join mainspring.state s on s.key = l.id::text and s.stage = 'Even'"
        )
        for row in rows:
            assert row["hits"] == self.outside[row["id"]] + row["added"]
            assert row["marks"] == self.marks[row["id"]]

    def events_tell_what_was_saved(self) -> None:
        wrong = self.stages.query(
            "select e.* from mainspring.event e join listing l on l.id::text = e.key "
            "where e.what = 'saved' and e.entity_version > l.version "
            "and e.number > coalesce((select max(d.number) from mainspring.event d "
            "where d.key = e.key and d.what = 'deleted'), 0) "
            "union all select e.* from mainspring.event e where e.run is not null and exists "
            "(select from mainspring.event f where f.run = e.run and f.number <> e.number)"
        )
        assert wrong == []

    def nothing_is_left_of_a_deleted_entity(self) -> None:
        left = self.stages.query(
            "select 'state' as what, key from mainspring.state "
            "where not exists (select from listing l where l.id::text = key) "
            "union all select queue, key from mainspring.visit where queue !~ '!' "
            "and not exists (select from listing l where l.id::text = key)"
        )
        assert left == []

    # -- and at rest

    def teardown(self) -> None:
        if not hasattr(self, "ended"):
            return
        self.crash()
        for _ in range(200):
            due = self._due()
            if not due:
                break
            runs = [self.loop.run(self._process(visit)) for visit in due[:3]]
            self.loop.run(self._save([run for run in runs if run is not None]))
        assert self._due() == [], "it does not come to rest"
        self.check()
        self.rest_means_seen()

    def rest_means_seen(self) -> None:
        moment = self.stages.value("select mainspring.now()")
        for row in self.stages.query("select * from listing"):
            for name, stage in self.kind.stages.items():
                if row["id"] in self.past and name == "Even":
                    continue
                stored = self.stages.state(name, row["id"])
                assert stage.should_process is not None
                with at_moment(moment):
                    answer = stage.should_process(row, stored["body"] if stored else None)
                entry = self.stages.visit(f"listing/{name}", row["id"])
                if isinstance(answer, datetime):
                    assert entry is not None, (name, row, stored)
                    assert entry["due_at"] <= max(answer, moment), (name, row, entry)
                else:
                    assert answer is False, (name, row, stored)


async def _start(
    app: Mainspring, kind: Kind
) -> tuple[stage_runtime.Runtime, SharedConnections, Settler]:
    database = await app.database()
    connections = SharedConnections(database, 4)
    runtime = await stage_runtime.start(database, WorkerPort(connections), [kind], threads=1)
    line = connections.line("settler", settings={"lock_timeout": "50ms"})
    owned = Owned()
    owned.worker_id = uuid4()

    def failed(run: Run, error: Exception) -> Outcome:
        return Retry(after=1, error_type="refused", error=str(error))

    settler = Settler([line], owned, page=100, settled=lambda run, answer: None, failed=failed)
    return runtime, connections, settler


def test_nothing_is_lost_in_any_interleaving(database_url: str) -> None:
    """S3, S6, S8, S11, S13, S15, S23: the oracle at rest, and the sums after every save."""
    play(database_url, SETTINGS)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_in_many_interleavings(database_url: str) -> None:
    """The same, longer."""
    play(database_url, settings(SETTINGS, max_examples=150, stateful_step_count=50))


def play(database_url: str, chosen: settings) -> None:
    with asyncio.Runner() as loop:
        app = Mainspring(database_url)
        stages = Stages(database_url, app)
        kind = stages.kind()
        declare(kind)
        app.migrate_sync()
        runtime, connections, settler = loop.run(_start(app, kind))
        Protocol.stages, Protocol.app, Protocol.kind = stages, app, kind
        Protocol.clock, Protocol.loop = Clock(database_url), loop
        Protocol.runtime, Protocol.settler = runtime, settler
        try:
            run_state_machine_as_test(Protocol, settings=chosen)  # type: ignore[no-untyped-call]
        finally:
            loop.run(connections.close())
            loop.run(runtime.close())
            loop.run(app.close())
            stages.close()
