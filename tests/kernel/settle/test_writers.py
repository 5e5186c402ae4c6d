"""Writers: a layer's writes and the settle of its runs are one transaction, for many runs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.ids import shard_of
from mainspring.kernel.outcome import Again, Done, Parked
from mainspring.kernel.settle.batches import lock_visits
from mainspring.kernel.visit import Run
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import wait_until, watch
from visits import Visits, queue
from workers import working

ONCE = RetryPolicy(attempts=1)


class Notes:
    """Notes each run's key, and the transaction that did."""

    most = 100
    overlaps = False
    stands = True

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {}  # what to answer for a key, before it is settled
        self.locked: list[tuple[str, str]] = []

    async def write(self, connection: Any, runs: Sequence[Run]) -> list[Any]:
        stood = await lock_visits(connection, runs)
        self.locked += [(run.visit.key, how) for run, how in zip(runs, stood, strict=True)]
        answers: list[Any] = []
        for run, how in zip(runs, stood, strict=True):
            key = run.visit.key
            if how in ("gone", "locked"):
                answers.append(how)
                continue
            if how == "settled":
                answers.append(None)
                continue
            if self.answers.get(key):
                answers.append(self.answers[key].pop(0))
                continue
            if key.startswith("bad"):
                await connection.execute("select 1 / 0")
            await connection.execute(
                "insert into noted values ($1, pg_current_xact_id()::text)", key
            )
            answers.append(None)
        return answers


@pytest.fixture
def notes(visits: Visits) -> Notes:
    visits.query("create table noted (key text, tx text)")
    return Notes()


def left(visits: Visits) -> int:
    return int(visits.value("select count(*) from mainspring.visit"))


async def test_many_runs_share_the_transaction_of_their_writer(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    gate = asyncio.Event()

    async def handler(run: Run) -> Done:
        await gate.wait()
        return Done(writer=notes)

    visits.offer(*(f"key {n}" for n in range(40)))
    async with working(database_url, queue(handler=handler)) as worker:
        await wait_until(lambda: len(worker.owned.runs) == 40)
        gate.set()
        await wait_until(lambda: left(visits) == 0)

    assert visits.value("select count(*) from noted") == 40
    assert visits.value("select count(distinct tx) from noted") <= 2


class Overlapping(Notes):
    """Its first two batches wait for one another."""

    most = 4
    overlaps = True

    def __init__(self) -> None:
        super().__init__()
        self._both: asyncio.Barrier | None = asyncio.Barrier(2)

    async def write(self, connection: Any, runs: Sequence[Run]) -> list[Any]:
        if self._both is not None:
            await self._both.wait()
            self._both = None
        return await super().write(connection, runs)


async def test_two_batches_of_a_writer_that_says_so_are_written_at_once(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    """The server works on one while the other is made ready."""
    gate, writer = asyncio.Event(), Overlapping()

    async def handler(run: Run) -> Done:
        await gate.wait()
        return Done(writer=writer)

    visits.offer(*(f"key {n}" for n in range(8)))
    async with working(database_url, queue(handler=handler)) as worker:
        await wait_until(lambda: len(worker.owned.runs) == 8)
        gate.set()
        await wait_until(lambda: left(visits) == 0)

    assert visits.value("select count(*) from noted") == 8


async def test_a_run_whose_writes_fail_fails_alone(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    """Even when all writes of a batch fail alike it is the layer's trouble, never the server's."""
    gate = asyncio.Event()

    async def handler(run: Run) -> Done:
        await gate.wait()
        return Done(writer=notes)

    visits.offer(*(f"bad {n}" for n in range(4)))
    async with working(database_url, queue(handler=handler, retry=ONCE)) as worker:
        await wait_until(lambda: len(worker.owned.runs) == 4)
        gate.set()
        parked = "select count(*) from mainspring.visit where parked_at is not null"
        await wait_until(lambda: visits.value(parked) == 4)
        visits.offer("good", *(f"bad again {n}" for n in range(3)))
        await wait_until(lambda: visits.value(parked) == 7)
        await wait_until(lambda: left(visits) == 7)

    assert visits.value("select string_agg(key, ',') from noted") == "good"
    assert "division by zero" in visits.value("select error from mainspring.visit limit 1")


async def test_a_visit_that_somebody_else_adds_meanwhile_fails_no_run(
    visits: Visits, database_url: str
) -> None:
    """It was not there when the writer looked, and is when it adds it: it looks again."""

    class Adding(Notes):
        tries = 0

        async def write(self, connection: Any, runs: Sequence[Run]) -> list[Any]:
            self.tries += 1
            if self.tries == 1:
                await connection.execute(
                    "insert into mainspring.visit select * from mainspring.visit where key = 'a'"
                )
            return [None] * len(runs)

    adding = Adding()

    async def handler(run: Run) -> Done:
        return Done(writer=adding)

    visits.offer("a")
    async with working(database_url, queue(handler=handler, retry=ONCE)):
        await wait_until(lambda: left(visits) == 0)

    assert adding.tries == 2
    assert [story["outcome"] for story in visits.history("a")] == ["done"]


async def test_a_run_that_is_answered_with_rerun_is_run_again_and_counts_no_attempt(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    notes.answers["a"] = ["rerun", "locked"]
    attempts = []

    async def handler(run: Run) -> Done:
        attempts.append(run.visit.attempt)
        return Done(writer=notes)

    visits.offer("a")
    async with working(database_url, queue(handler=handler)):
        await wait_until(lambda: left(visits) == 0)

    assert attempts == [0, 0]
    assert visits.value("select count(*) from noted") == 1


@pytest.mark.parametrize("answer", ["rerun", "superseded"])
async def test_a_held_run_that_is_not_settled_is_run_again_before_the_next_beat(
    visits: Visits, database_url: str, notes: Notes, answer: str
) -> None:
    """Its hold would keep its visit from being read; nothing beats for 12 seconds here."""
    runs: list[Run] = []
    notes.stands = False

    async def handler(run: Run) -> Done:
        runs.append(run)
        if len(runs) == 1 and answer == "superseded":
            visits.offer("a")
        return Done(writer=notes)

    if answer == "rerun":
        notes.answers["a"] = [answer]
    async with working(database_url, queue(handler=handler, hold_after=0), lease=60):
        visits.offer("a")
        await wait_until(lambda: left(visits) == 0, 3)

    assert [run.held for run in runs] == [True, True]
    assert visits.value("select count(*) from noted") == 1


async def test_what_was_written_stands_when_the_visit_was_offered_meanwhile(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    runs = []

    async def handler(run: Run) -> Done:
        runs.append(run.token)
        if len(runs) == 1:
            visits.offer("a")
        return Done(writer=notes)

    visits.offer("a")
    async with working(database_url, queue(handler=handler)):
        await wait_until(lambda: left(visits) == 0)

    assert notes.locked == [("a", "moved"), ("a", "same")]
    assert visits.value("select count(*) from noted") == 2


async def test_nothing_is_written_for_a_visit_that_was_deleted_during_its_run(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    async def handler(run: Run) -> Done:
        visits.query("delete from mainspring.visit where key = 'a'")
        return Done(writer=notes)

    visits.offer("a")
    async with working(database_url, queue(handler=handler)) as worker:
        await wait_until(lambda: notes.locked == [("a", "gone")])
        await wait_until(lambda: worker.settler.unsettled == 0)

    assert visits.value("select count(*) from noted") == 0


@pytest.mark.parametrize("outcome", [Done, Again], ids=["done", "again"])
async def test_a_batch_whose_answer_was_lost_is_written_once(
    outcome: type, visits: Visits, database_url: str, notes: Notes
) -> None:
    """The commit came through and the connection broke: sent again, it changes nothing more."""
    lost = []

    async def handler(run: Run) -> Any:
        return Done(writer=notes) if outcome is Done else Again(after=3600, writer=notes)

    visits.offer("a")
    async with watch() as seen:

        def lose() -> None:
            if not lost:
                lost.append(True)
                raise OSError("the line is dead")

        seen.at("settle.answered", lose)
        async with working(database_url, queue(handler=handler)) as worker:
            await wait_until(lambda: len(notes.locked) == 2)
            await wait_until(lambda: worker.settler.unsettled == 0)

    assert notes.locked[1] == ("a", "gone" if outcome is Done else "settled")
    assert visits.value("select count(*) from noted") == 1
    assert len(visits.history("a")) == 1


async def test_a_writer_may_settle_a_run_with_another_outcome(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    """Nothing of that run is written; the others of its batch stand."""
    notes.answers["bad to park"] = [Parked(error_type="Refused", error="refused by the layer")]
    gate = asyncio.Event()

    async def handler(run: Run) -> Done:
        await gate.wait()
        return Done(writer=notes)

    visits.offer("a", "bad to park", "c")
    async with working(database_url, queue(handler=handler)) as worker:
        await wait_until(lambda: len(worker.owned.runs) == 3)
        gate.set()
        await wait_until(lambda: left(visits) == 1)

    assert visits.value("select string_agg(key, ',' order by key) from noted") == "a,c"
    row = visits.row("bad to park")
    assert row is not None
    assert (row["parked_at"] is not None, row["error"]) == (True, "refused by the layer")


async def test_another_outcome_is_taken_back_when_its_batch_is_rolled_back(
    visits: Visits, database_url: str, notes: Notes
) -> None:
    """Halved and sent again, each run has the outcome that it came with, and its writer."""
    first = next(key for key in map(str, range(99)) if shard_of(key, 1024) < shard_of("bad", 1024))
    notes.answers[first] = [Parked(error_type="Refused", error="refused by the layer")]
    gate = asyncio.Event()

    async def handler(run: Run) -> Done:
        await gate.wait()
        return Done(writer=notes)

    visits.offer(first, "bad", "c")
    async with working(database_url, queue(handler=handler, retry=ONCE)) as worker:
        await wait_until(lambda: len(worker.owned.runs) == 3)
        gate.set()
        await wait_until(lambda: left(visits) == 1)

    assert visits.value("select string_agg(key, ',' order by key) from noted") == f"{first},c"
    assert visits.row("bad") is not None


async def test_a_visit_that_goes_on_can_carry_something_and_say_why(
    visits: Visits, database_url: str
) -> None:
    async def handler(run: Run) -> Again:
        return Again(after=3600, payload='{"hops": 2}', error="the fields a and b moved")

    visits.offer("a", payload={"hops": 1, "other": True})
    async with working(database_url, queue(handler=handler)) as worker:
        await wait_until(lambda: len(visits.history("a")) == 1)
        await wait_until(lambda: worker.settler.unsettled == 0)

    row = visits.row("a")
    assert row is not None
    assert (row["payload"], row["error"]) == ({"hops": 2}, "the fields a and b moved")
