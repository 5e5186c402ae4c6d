"""What a worker owns: no run starts in a shard that went away, not even if it came back."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from uuid import UUID

import pytest

from mainspring import clock
from mainspring.db.database import Connection, Database
from mainspring.kernel.owned import Owned
from mainspring.kernel.read.intake import Room
from mainspring.kernel.read.orders import ReadGroups
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.visit import Run, Visit
from mainspring.kernel.worker import Worker
from mainspring.testing import watch
from visits import Visits, known_keys, queue

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()


def run(shard: int, token: int = 1) -> Run:
    visit = Visit(shard, "a", "ring", UUID(int=1), None, 5, NOON, 1, 0, 0, None, "{}")
    return Run(visit, token, 0.0, began=1.0)


@pytest.fixture
def owned() -> Owned:
    found = Owned()
    found.own(range(4), count=4)
    found.good_until = 10.0
    return found


def test_a_run_starts_in_a_shard_of_mine_under_a_good_lease(owned: Owned) -> None:
    assert owned.start(run(1))
    assert not owned.start(run(9, 2))

    owned.good_until = 0.5
    assert not owned.start(run(1, 3))
    assert list(owned.runs) == [1]


def test_what_was_read_before_a_shard_went_away_and_came_back_is_not_started(owned: Owned) -> None:
    """B5: another worker may have run it in between."""
    owned.let_go([1])
    owned.own(range(4), count=4)

    assert not owned.start(run(1))
    assert owned.start(run(2, 2))

    owned.loop_looked(frozenset({1}))
    assert owned.start(run(1, 3))


def test_a_shard_that_goes_away_while_the_loop_looks_is_looked_at_again(owned: Owned) -> None:
    owned.let_go([1])
    looked = frozenset(owned.let_go_of)
    owned.let_go([2])
    owned.own(range(4), count=4)

    owned.loop_looked(looked)

    assert owned.let_go_of == {2}


def test_letting_go_answers_what_runs_there(owned: Owned) -> None:
    mine, other = run(1), run(2, 2)
    owned.start(mine)
    owned.start(other)

    assert owned.let_go([1, 3]) == [mine]
    assert owned.shards == {0, 2}
    assert not owned.all_shards


def test_letting_go_is_safe_while_runs_end(owned: Owned) -> None:
    """Runs end in the loop without the gate, while the heart counts them."""
    for n in range(3000):
        owned.runs[n] = run(1, n)

    def end_all() -> None:
        for each in [run(1, n) for n in range(3000)]:
            owned.end([each])

    ending = threading.Thread(target=end_all)
    ending.start()
    while ending.is_alive():
        owned.let_go([9])
        owned.snapshot()
    ending.join()

    assert owned.runs == {}


async def test_a_page_sent_before_a_change_of_shards_is_not_taken_in(
    visits: Visits, me: UUID, database_url: str
) -> None:
    """B5: what it shows as free may be another worker's by now."""
    visits.offer("a")
    worker = Worker(Database(database_url), [queue()], WorkerSettings())
    worker.owned.worker_id = me
    worker.owned.own(range(1024), count=1024)
    worker.owned.good_until = clock.local() + 60
    intake = worker.reader.intake
    intake._sweep_at = float("inf")
    room = Room(unsettled=0, asleep=False)

    async with watch() as seen:

        def change() -> None:
            if not worker.owned.let_go_of:
                worker.owned.let_go([7])

        seen.at("page.read", change)
        await worker.reader._read(intake.due(clock.local(), room))
        assert known_keys(worker.buffer) == set()

        await worker.reader._read(intake.due(clock.local(), room))
    await worker.port.close()

    assert known_keys(worker.buffer) == {("ring", "a")}
    worker.runner.close()
    await worker.runner.ended(1)


async def test_a_page_of_a_group_sent_before_a_change_of_shards_is_not_taken_in(
    visits: Visits, me: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: the same for what a full group had left in the database."""
    visits.offer("a", "b", group="g")
    worker = Worker(Database(database_url), [queue()], WorkerSettings())
    worker.owned.worker_id = me
    worker.owned.own(range(1024), count=1024)
    worker.owned.good_until = clock.local() + 60
    groups, first = worker.buffer.queues["ring"].groups, visits.visit("a")
    groups.limit(1, None, 0.0)
    groups.admit(first, 0.0)
    groups.stale("g")  # what it kept was given up: the rest is to be read
    groups.ended(first)
    send = Connection.send

    async def send_while_shards_change(*given):
        rows = await send(*given)
        worker.owned.let_go([7])
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "send", send_while_shards_change)
        await worker.reader._read_groups(ReadGroups([("ring", "g")]))
    assert known_keys(worker.buffer) == set()

    await worker.reader._read_groups(ReadGroups([("ring", "g")]))
    await worker.port.close()

    assert known_keys(worker.buffer) == {("ring", "a"), ("ring", "b")}
    worker.runner.close()
    await worker.runner.ended(1)
