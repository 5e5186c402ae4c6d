"""Breakers over several workers: opened by all of them together, tried with one run, grown, closed."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mainspring.breakers.breaker import Breaker
from mainspring.breakers.breaking import Breaking
from mainspring.breakers.layer import BreakerLayer
from mainspring.breakers.statements import SQL as BREAKER_SQL
from mainspring.db.database import Database
from mainspring.endpoint import REASON_BYTES
from mainspring.errors import RetryAfter
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import Run
from mainspring.kernel.worker import Worker
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import Clock, wait_until
from visits import Visits, queue
from workers import working as working_without

SOON = RetryPolicy(attempts=1000, first=0.0, most=0.0)


class Service:
    """What the runs call: it is down, or up, and tells how it was called."""

    def __init__(self) -> None:
        self.fault: BaseException | None = ConnectionError("refused")
        self.down: set[str | None] | None = None  # the groups for which it is; None: for all
        self.calls: list[str | None] = []
        self.running: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.gate: asyncio.Event | None = None  # runs wait here

    async def __call__(self, run: Run) -> Outcome:
        group = run.visit.group
        self.calls.append(group)
        self.running[group] += 1
        self.most[group] = max(self.most[group], self.running[group])
        try:
            if self.gate is not None:
                await self.gate.wait()
            else:
                await asyncio.sleep(0.005)
            if self.fault is not None and (self.down is None or group in self.down):
                raise self.fault
            return Done()
        finally:
            self.running[group] -= 1


@asynccontextmanager
async def working(url: str, ring: QueueSettings, **settings: Any) -> AsyncIterator[Worker]:
    """A worker with breakers, as the assembly makes it."""
    layer = BreakerLayer(port := WorkerPort.to(Database(url)))
    try:
        async with working_without(url, ring, layers=[layer], port=port, **settings) as worker:
            yield worker
    finally:
        await layer.close()
        await port.close()


def breaking_of(worker: Worker) -> Breaking:
    [layer] = worker._layers
    assert isinstance(layer, BreakerLayer)
    assert layer.breaking is not None
    return layer.breaking


@pytest.fixture
def service() -> Service:
    return Service()


def guarded(service: Service, **settings: Any) -> QueueSettings:
    given = {"breaker": Breaker(failures=5, pause=3600), "retry": SOON, "handler": service}
    return queue(**given | settings)


@asynccontextmanager
async def two(url: str, ring: QueueSettings, **settings: Any) -> AsyncIterator[list[Worker]]:
    async with working(url, ring, **settings) as one, working(url, ring, **settings) as other:
        for worker in (one, other):
            await wait_until(lambda worker=worker: worker.owned.shards)
        yield [one, other]


def breaker(visits: Visits, group: str = "") -> dict[str, Any] | None:
    rows = visits.query(
        "select *, until > mainspring.now() as is_open from mainspring.breaker where grp = %s",
        group,
    )
    return rows[0] if rows else None


def is_open(visits: Visits, group: str = "") -> bool:
    row = breaker(visits, group)
    return row is not None and row["opened_at"] is not None and row["is_open"]


def left(visits: Visits) -> int:
    return visits.value("select count(*) from mainspring.visit")


def keys(count: int) -> list[str]:
    return [f"key {n:03}" for n in range(count)]


def names(group: str, count: int) -> list[str]:
    return [f"{group} {n:03}" for n in range(count)]


def paused(workers: list[Worker]) -> bool:
    return all(
        w.buffer.queues["ring"].paused and not w.buffer.queues["ring"].halted for w in workers
    )


async def test_failures_in_a_row_of_all_workers_stop_the_queue(
    visits: Visits, database_url: str, service: Service
) -> None:
    """T13: five, whichever of the workers sees them; but for what was under way nothing more is tried."""
    async with two(database_url, guarded(service), concurrency=1) as workers:
        visits.offer(*keys(40))
        await wait_until(lambda: is_open(visits))
        await wait_until(lambda: paused(workers))
        tried = len(service.calls)
        # Those that fail within the same round trip are not known to the other worker yet.
        assert 5 <= tried <= 10
        await asyncio.sleep(0.2)
        assert len(service.calls) == tried
    row = breaker(visits)
    assert row is not None
    assert row["reason"] == "ConnectionError: refused"


async def test_one_run_of_all_workers_is_tried_and_a_failure_opens_it_again(
    visits: Visits, database_url: str, service: Service, clock: Clock
) -> None:
    """T13: one trial, not one in each worker."""
    async with two(database_url, guarded(service)) as workers:
        visits.offer(*keys(40))
        await wait_until(lambda: is_open(visits))
        await wait_until(lambda: paused(workers))
        await wait_until(lambda: not service.running.total())
        for _ in range(2):
            tried = len(service.calls)
            await clock.advance(3601)
            await wait_until(lambda tried=tried: len(service.calls) > tried)
            await wait_until(lambda: is_open(visits))
            await wait_until(lambda: paused(workers))
            assert len(service.calls) == tried + 1
    assert left(visits) == 40


async def test_each_success_lets_twice_as_many_run_until_it_is_closed(
    visits: Visits, database_url: str, service: Service, clock: Clock
) -> None:
    """T13: all of it is done in the end, and no row is left."""
    async with two(database_url, guarded(service)) as workers:
        visits.offer(*keys(200))
        await wait_until(lambda: is_open(visits))
        await wait_until(lambda: paused(workers))
        await wait_until(lambda: not service.running.total())
        service.fault = None
        service.gate = asyncio.Event()
        service.most.clear()
        await clock.advance(3601)
        await wait_until(lambda: service.running.total() == 1)
        row = breaker(visits)
        assert row is not None
        assert (row["at_once"], row["is_open"]) == (1, False)
        service.gate.set()
        service.gate = None
        await wait_until(lambda: left(visits) == 0, 20)
        await wait_until(lambda: breaker(visits) is None)
    assert service.most.total() > 4


async def test_a_success_begins_the_count_anew(
    visits: Visits, database_url: str, service: Service
) -> None:
    ring = guarded(service, breaker=Breaker(failures=3, pause=3600))
    async with working(database_url, ring, concurrency=1):
        for n in range(4):
            service.fault = ConnectionError("refused")
            tried = len(service.calls)
            visits.offer(f"key {n}")
            await wait_until(lambda tried=tried: len(service.calls) == tried + 2)
            service.fault = None
            await wait_until(lambda: left(visits) == 0)
        await wait_until(lambda: breaker(visits) is None)


async def test_failures_that_are_far_apart_are_not_in_a_row(
    visits: Visits, database_url: str, service: Service, clock: Clock
) -> None:
    ring = guarded(
        service, retry=RetryPolicy(attempts=1), breaker=Breaker(failures=2, pause=3600, within=60)
    )
    async with working(database_url, ring):
        for n in range(3):
            visits.offer(f"key {n}")
            await wait_until(lambda n=n: len(service.calls) == n + 1)
            await wait_until(lambda: (breaker(visits) or {}).get("failures") == 1)
            await clock.advance(61)
        visits.offer("key 3", "key 4")
        await wait_until(lambda: is_open(visits))


async def test_errors_that_say_nothing_of_the_service_do_not_count(
    visits: Visits, database_url: str, service: Service
) -> None:
    """A payload that cannot be charged is no reason to stop charging."""
    service.fault = ValueError("no such currency")
    ring = guarded(
        service,
        retry=RetryPolicy(attempts=1),
        breaker=Breaker(failures=2, pause=3600, on=(ConnectionError, TimeoutError)),
    )
    async with working(database_url, ring):
        visits.offer(*keys(10))
        await wait_until(
            lambda: (
                len(visits.query("select 1 from mainspring.visit where parked_at is not null"))
                == 10
            )
        )
        assert breaker(visits) is None
        service.fault = ConnectionError("refused")
        visits.offer("a", "b")
        await wait_until(lambda: is_open(visits))
    row = breaker(visits)
    assert row is not None
    assert row["failures"] == 2


async def test_what_goes_well_writes_nothing(
    visits: Visits, database_url: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """T13: a breaker costs a task that succeeds no statement."""

    def waits() -> bool:
        return any("breaker.waiting" in message for message in caplog.messages)

    service.fault = None
    visits.query(
        "create function refuse() returns trigger language plpgsql as"
        " $$begin raise 'a breaker was written'; end$$"
    )
    visits.query(
        "create trigger refuse before insert or update or delete on mainspring.breaker"
        " for each statement execute function refuse()"
    )
    async with two(database_url, guarded(service)):
        visits.offer(*keys(100))
        await wait_until(lambda: left(visits) == 0)
        assert not waits()
        service.fault = ConnectionError("refused")
        visits.offer("a")
        await wait_until(waits)


async def test_a_group_that_fails_stops_alone(
    visits: Visits, database_url: str, service: Service, clock: Clock
) -> None:
    """T13: a tenant whose system is down keeps no other tenant back; one run of it is tried."""

    service.down = {"a"}
    ring = guarded(service, breaker=Breaker(failures=3, pause=3600, per="group"))
    async with two(database_url, ring, concurrency=4) as workers:
        visits.offer(*names("a", 30), group="a")
        visits.offer(*names("b", 30), group="b")
        await wait_until(lambda: is_open(visits, "a"))
        await wait_until(lambda: left(visits) == 30)
        assert breaker(visits) is None
        assert not any(w.buffer.queues["ring"].paused for w in workers)
        await wait_until(lambda: not any(w.buffer.queues["ring"].groups.halted for w in workers))

        tried = service.calls.count("a")
        await clock.advance(3601)
        await wait_until(lambda: service.calls.count("a") == tried + 1)
        await wait_until(lambda: is_open(visits, "a"))
        await wait_until(lambda: not any(w.buffer.queues["ring"].groups.halted for w in workers))
        assert service.calls.count("a") == tried + 1

        service.down = set()
        await clock.advance(3601)
        await wait_until(lambda: left(visits) == 0, 20)
        await wait_until(lambda: breaker(visits, "a") is None)


@pytest.mark.parametrize("scope", ["queue", "group"])
async def test_a_retry_after_can_hold_for_the_queue_or_the_group(
    visits: Visits, database_url: str, service: Service, clock: Clock, scope: str
) -> None:
    """T13: what the service says to one call is heard by all, in every worker; no attempt is counted."""
    service.fault = RetryAfter(3600, "the API asks for it", pauses=scope)  # type: ignore[arg-type]
    ring = guarded(service, breaker=None)
    async with two(database_url, ring, concurrency=2) as workers:
        visits.offer(*names("a", 10), group="a")
        group = "" if scope == "queue" else "a"
        await wait_until(lambda: is_open(visits, group))
        await wait_until(lambda: not service.running.total())
        if scope == "queue":
            await wait_until(lambda: paused(workers))
        else:
            await wait_until(lambda: any(w.buffer.queues["ring"].groups.shut for w in workers))
        tried = len(service.calls)
        assert tried <= 4
        service.fault = None
        visits.offer(*names("b", 5), group="b")
        if scope == "group":
            await wait_until(lambda: left(visits) == 10)
        await asyncio.sleep(0.1)
        assert service.calls.count("a") == tried

        await clock.advance(3601)
        await wait_until(lambda: left(visits) == 0, 20)
        await wait_until(lambda: breaker(visits, group) is None)
    assert {row["attempt"] for row in visits.query("select attempt from mainspring.history")} == {1}


async def test_nothing_starts_while_the_database_cannot_be_told(
    visits: Visits, database_url: str, service: Service
) -> None:
    """T13: the failures are not lost: they are told when somebody listens again."""
    ring = guarded(service, breaker=Breaker(failures=3, pause=3600))
    async with working(database_url, ring, concurrency=1) as worker:
        with psycopg.connect(database_url) as other:
            other.execute("lock table mainspring.breaker in exclusive mode")
            visits.offer(*keys(20))
            await wait_until(lambda: worker.buffer.queues["ring"].halted > 0)
            tried = len(service.calls)
            assert tried == 3
            await asyncio.sleep(0.4)  # the first try has failed by then
            assert len(service.calls) == tried
        await wait_until(lambda: is_open(visits), 10)
    assert len(service.calls) == 3


async def test_a_worker_that_comes_while_it_is_open_starts_nothing(
    visits: Visits, database_url: str, service: Service
) -> None:
    """T13: whoever saw the failures may be gone."""
    ring = guarded(service)
    async with working(database_url, ring):
        visits.offer(*keys(10))
        await wait_until(lambda: is_open(visits))
    tried = len(service.calls)
    async with working(database_url, ring) as worker:
        assert worker.buffer.queues["ring"].paused
        await asyncio.sleep(0.2)
    assert len(service.calls) == tried


async def test_a_failure_of_a_run_that_began_before_is_not_heard_while_it_is_tried(
    visits: Visits, database_url: str, service: Service, clock: Clock
) -> None:
    """T13: a slow call of before says nothing about how things stand now."""
    slow = asyncio.Event()

    async def call(run: Run) -> Outcome:
        if run.visit.key == "slow" and not slow.is_set():
            await slow.wait()
            raise TimeoutError("at last")
        return await service(run)

    async with working(database_url, guarded(service, handler=call), lease=60.0) as worker:
        visits.offer("slow")
        await wait_until(lambda: worker.buffer.queues["ring"].running == 1)
        visits.offer(*keys(20))
        await wait_until(lambda: is_open(visits))
        await wait_until(lambda: paused([worker]))
        await wait_until(lambda: not service.running.total())
        service.fault, service.gate = None, asyncio.Event()
        await clock.advance(3601)
        await wait_until(lambda: not is_open(visits))
        slow.set()
        await wait_until(lambda: service.running.total() == 1)
        assert not is_open(visits)
        service.gate.set()
        service.gate = None
        await wait_until(lambda: breaker(visits) is None, 20)


async def _one_of_each(
    visits: Visits, url: str, service: Service, ring: QueueSettings, caplog: Any, *, at_once: bool
) -> AsyncGenerator[Worker, None]:
    """A run that fails and one that succeeds after it, and both before the database can be told.
    `at_once`: while the first try to tell it is under way, else after it."""
    good = asyncio.Event()

    async def call(run: Run) -> Outcome:
        if run.visit.key == "good":
            await good.wait()
            return Done()
        return await service(run)

    async with working(url, replace(ring, handler=call), concurrency=2) as worker:
        state = worker.buffer.queues["ring"]
        visits.offer("good", group="a")
        await wait_until(lambda: state.running == 1)
        with psycopg.connect(url) as other:
            other.execute("lock table mainspring.breaker in exclusive mode")
            visits.offer("bad", group="a")
            await wait_until(lambda: state.halted or state.groups.halted)
            yield worker
            if not at_once:
                await wait_until(lambda: any("breaker.waiting" in m for m in caplog.messages))
            good.set()
            await wait_until(lambda: not state.running)
            await wait_until(lambda: any("breaker.waiting" in m for m in caplog.messages))
        yield worker


@pytest.mark.parametrize("per", ["queue", "group"])
async def test_a_success_before_the_failure_is_told_lets_it_run_on(
    visits: Visits, database_url: str, service: Service, caplog: Any, per: str
) -> None:
    """T13: no breaker is open then, and nothing is stopped; nobody reads the settings over and over."""
    ring = guarded(
        service,
        breaker=Breaker(failures=1, pause=3600, per=per),  # type: ignore[arg-type]
        retry=RetryPolicy(attempts=1),
    )
    async with aclosing(
        _one_of_each(visits, database_url, service, ring, caplog, at_once=False)
    ) as steps:
        worker = await anext(steps)
        state, pokes = worker.buffer.queues["ring"], 0
        assert math.inf in (state.halted, *state.groups.halted.values())
        poke_beat = worker.heart.poke_beat

        def poke() -> None:
            nonlocal pokes
            pokes += 1
            poke_beat()

        worker.heart.poke_beat = poke  # type: ignore[method-assign]
        for seconds in (31.0, 32.0):
            visits.query(
                "update mainspring.queue set hold_after = make_interval(secs => %s)", seconds
            )
            poke_beat()
            await wait_until(lambda seconds=seconds: state.hold_after == seconds)
        assert pokes == 0
        await anext(steps)
        service.fault = None
        visits.offer("later", group="a")
        await wait_until(lambda: len(service.calls) == 2)
        assert breaker(visits) is breaker(visits, "a") is None
        assert not state.halted
        assert not state.groups.halted


async def test_what_the_service_asks_for_is_told_though_a_success_came_before(
    visits: Visits, database_url: str, service: Service, caplog: Any
) -> None:
    """T13: of two calls at once one may succeed; the first try to tell it fails."""
    visits.query("insert into mainspring.breaker (queue, failures) values ('ring', 1)")
    service.fault = RetryAfter(3600, "the API asks for it", pauses="queue")
    ring = guarded(service, breaker=None)
    async with aclosing(
        _one_of_each(visits, database_url, service, ring, caplog, at_once=True)
    ) as steps:
        await anext(steps)
        await anext(steps)
        await wait_until(lambda: is_open(visits), 10)
        assert (breaker(visits) or {})["reason"].endswith("the API asks for it")


@pytest.mark.parametrize("per", ["queue", "group"])
async def test_a_failure_whose_row_is_gone_before_it_is_counted_stops_nothing_for_ever(
    visits: Visits, database_url: str, service: Service, per: str
) -> None:
    """T13: another session may close a breaker at any time."""
    visits.query(
        "create function forget() returns trigger language plpgsql as"
        " $$begin delete from mainspring.breaker; return null; end$$"
    )
    visits.query(
        "create trigger forget after insert on mainspring.breaker"
        " for each statement execute function forget()"
    )
    ring = guarded(service, breaker=Breaker(failures=1, pause=3600, per=per))  # type: ignore[arg-type]
    async with working(database_url, ring, concurrency=1):
        visits.offer("a", group="a")
        await wait_until(lambda: len(service.calls) == 3)


async def test_the_reason_of_a_pause_is_one_line_and_not_long(
    visits: Visits, database_url: str, service: Service
) -> None:
    service.fault = RetryAfter(3600, "please " * 1000 + "\nand more", pauses="queue")
    async with working(database_url, guarded(service, breaker=None)):
        visits.offer("a")
        await wait_until(lambda: is_open(visits))
    row = breaker(visits)
    assert row is not None
    assert len(row["reason"]) <= REASON_BYTES
    service.fault = RetryAfter(3600, "please\nand more", pauses="group")
    async with working(database_url, guarded(service, name="bell", breaker=None)):
        visits.offer("a", queue="bell", group="b")
        await wait_until(lambda: is_open(visits, "b"))
    row = breaker(visits, "b")
    assert row is not None
    assert row["reason"].endswith("please")


async def test_of_very_many_open_groups_those_that_end_last_are_read(
    visits: Visits, database_url: str, service: Service, caplog: Any
) -> None:
    """T13: each worker reads them at each beat. It is said, and the queue's own is always there."""
    most = LEASE.shut_groups
    visits.query(
        "insert into mainspring.breaker (queue, grp, failures, opened_at, until, at_once)"
        " select 'ring', 'g' || n, 1, mainspring.now(), mainspring.now() + make_interval(hours => n), 1"
        " from generate_series(1, %s) n",
        most + 1,
    )
    visits.query("insert into mainspring.breaker (queue, failures) values ('ring', 3)")
    async with working(database_url, guarded(service)) as worker:
        groups = worker.buffer.queues["ring"].groups
        await wait_until(lambda: groups.shut)
        assert len(groups.shut) == most
        assert "g1" not in groups.shut
        assert breaking_of(worker)._known["ring", ""][0] == 3
        visits.query("delete from mainspring.breaker where grp = 'g2'")
        worker.heart.poke_beat()
        await wait_until(lambda: "g1" in groups.shut)
    assert len([m for m in caplog.messages if "breaker.crowded" in m]) == 1


async def test_a_group_of_which_nobody_has_heard_for_long_is_forgotten(
    visits: Visits, database_url: str, service: Service
) -> None:
    """T13: tenants that failed once and never came back are not kept in mind for ever."""
    ring = guarded(service, retry=RetryPolicy(attempts=1), breaker=Breaker(failures=3, per="group"))
    async with working(database_url, ring) as worker:
        breaking = breaking_of(worker)
        visits.offer("a", group="a")
        await wait_until(lambda: ("ring", "a") in breaking._known)
        breaking._tuning = replace(breaking._tuning, known=0.0)
        worker.heart.poke_beat()
        await wait_until(lambda: not breaking._known)


PLANNED: dict[str, dict[str, object]] = {
    "count_failures": {
        "queues": ["ring"],
        "groups": ["g7"],
        "counts": "{1}",
        "anew": [False],
        "began": "{0}",
        "rests": "{null}",
        "reasons": ["refused"],
    },
    "count_successes": {
        "queues": ["ring"],
        "groups": ["g7"],
        "counts": "{1}",
        "began": "{0}",
        "trusted": 256,
    },
    "make_breakers": {"queues": ["ring"], "groups": ["g7"]},
    "read_queues": {"queues": ["ring", "other"], "most_groups": 2000},
    "lock_queue": {"queue": "ring"},
}


@pytest.mark.parametrize("name", PLANNED)
async def test_among_many_breakers_each_statement_finds_its_own(visits: Visits, name: str) -> None:
    """The heart and the counting of failures never scan those of all groups."""
    visits.query(
        "insert into mainspring.breaker (queue, grp, failures) select 'busy', 'g' || n, 1"
        " from generate_series(1, 20000) n"
    )
    visits.query("analyze mainspring.breaker")
    text = f"explain (costs off) {(SQL | BREAKER_SQL)[name].text}"
    plan = str(visits.connection.execute(text, PLANNED[name]).fetchall())
    assert "Seq Scan on breaker" not in plan
    assert name == "make_breakers" or "breaker_pkey" in plan


def test_open_groups_are_read_by_when_they_end(visits: Visits) -> None:
    """T13: thousands of them are neither sorted nor looked through at each beat."""
    visits.query(
        "insert into mainspring.breaker (queue, grp, failures, opened_at, until, at_once)"
        " select 'ring', 'g' || n, 1, now(), now() + make_interval(secs => mod(n, 977)), 1"
        " from generate_series(1, 20000) n"
    )
    visits.query("insert into mainspring.queue (name) values ('ring') on conflict do nothing")
    visits.query("analyze mainspring.breaker")
    text = f"explain (costs off) {SQL['read_queues'].text}"
    values = {"queues": ["ring"], "most_groups": 2000}
    plan = str(visits.connection.execute(text, values).fetchall())
    assert "breaker_open" in plan
    assert "Sort" not in plan.partition("breaker_open")[0]
