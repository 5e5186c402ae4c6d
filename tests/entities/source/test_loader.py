"""Pictures at hand: what was read is loaded together, before it starts, and never for another token."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import Untouched, Update
from mainspring.db.shared import SharedConnections
from mainspring.entities.declare.state import Stored
from mainspring.entities.runtime import start
from mainspring.entities.source import loader as module
from mainspring.entities.source.loader import Picture, Prefetched
from mainspring.entities.source.rows import Loaded, TableSource
from mainspring.ids import shard_of
from mainspring.kernel.port import WorkerPort
from stages import Stages, wait_until
from visits import known_keys, visit


def picture(body: str = "{}") -> Picture:
    return Picture(Loaded("1", 1, "700", body))


def test_a_picture_serves_the_visits_that_were_read_before_its_load_and_each_once():
    """S13 (trap 2): a newer token may stand for a change that the picture does not show."""
    prefetched, seen = Prefetched(), picture()
    prefetched.keep("1", [11, 12], seen, 100.0)

    assert prefetched.take(13, 100.1) is None
    assert prefetched.take(11, 100.1) is seen
    assert prefetched.take(11, 100.1) is None
    assert prefetched.take(12, 100.1) is seen


def test_what_we_save_ourselves_is_dropped():
    prefetched = Prefetched()
    prefetched.keep("1", [11], picture(), 100.0)
    prefetched.keep("1", [12], picture(), 100.0)
    prefetched.keep("2", [13], picture(), 100.0)
    prefetched.drop(["1"])

    assert prefetched.take(11, 100.0) is None
    assert prefetched.take(12, 100.0) is None
    assert prefetched.take(13, 100.0) is not None


def test_a_picture_that_waited_too_long_is_not_used_and_nothing_is_prepared_for_a_while():
    prefetched = Prefetched()
    prefetched.keep("1", [11], picture(), 100.0)
    late = 100.0 + module.FRESH_SECONDS

    assert prefetched.take(11, late) is None
    assert not prefetched.has_room(late + module.PAUSE_SECONDS - 0.1)
    assert prefetched.has_room(late + module.PAUSE_SECONDS)


def test_it_keeps_no_more_than_so_many_bytes_and_forgets_what_nobody_came_for(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    prefetched = Prefetched()
    prefetched.keep("1", [11], picture("x" * 60), 100.0)
    assert prefetched.has_room(100.0)
    prefetched.keep("2", [12], picture("x" * 60), 100.0)
    assert not prefetched.has_room(100.0)
    assert prefetched.has_room(100.0 + module.FRESH_SECONDS)
    assert prefetched.take(11, 100.0) is None


def test_states_are_counted_among_the_bytes(monkeypatch: pytest.MonkeyPatch):
    """The state of an entity may be far greater than the entity."""
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    prefetched = Prefetched()
    seen = picture()
    seen.states = {"A": (1, Stored(1, "x" * 60)), "B": (1, Stored(1, message=b"x" * 60))}
    prefetched.keep("1", [11], seen, 100.0)

    assert not prefetched.has_room(100.0)
    prefetched.drop(["1"])
    assert prefetched.has_room(100.0)


async def test_a_later_picture_of_the_entity_takes_nothing_from_an_earlier_one(stages: Stages):
    """S15 (trap 1): the system visit must still see what is due."""
    kind = stages.kind()
    for name in ("A", "B"):
        kind.stage(name=name)(_look)
    await stages.install()
    stages.add(1)
    stages.offer("listing/A")
    database = await stages.app.database()
    connections = SharedConnections(database, 1)
    runtime = await start(database, WorkerPort(connections), [kind], threads=1)
    loader = runtime.kinds["listing"]._loader
    system = visit(queue="listing", key="1", version=11, payload='{"f:title": 1}')
    system = replace(system, shard=shard_of("1", database.shard_count))
    try:
        await loader.prepare([system])
        await loader.prepare([replace(system, queue="listing/B", version=12, payload="{}")])
        seen = loader.prepared(system) or await loader.load(system)
    finally:
        await runtime.close()
        await connections.close()

    assert "listing/A" in seen.due


async def test_of_great_entities_no_more_than_a_page_is_loaded_ahead(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    monkeypatch.setattr(module, "PAGE", 2)
    kind = stages.kind()
    kind.stage(name="A")(_look)
    await stages.install()
    stages.add(*range(6), title="x" * 100)
    database = await stages.app.database()
    connections = SharedConnections(database, 1)
    runtime = await start(database, WorkerPort(connections), [kind], threads=1)
    loads = Loads(monkeypatch)
    try:
        await runtime.kinds["listing"]._loader.prepare(
            [
                replace(
                    visit(queue="listing/A", key=str(n)),
                    shard=shard_of(str(n), database.shard_count),
                )
                for n in range(6)
            ]
        )
    finally:
        await runtime.close()
        await connections.close()

    assert loads.keys == ["0", "1"]


class Loads:
    """What a table's loads asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        original = TableSource.load

        async def load(source: Any, connection: Any, keys: Any) -> Any:
            self.keys += keys
            return await original(source, connection, keys)

        monkeypatch.setattr(TableSource, "load", load)


async def test_the_stages_of_an_entity_share_one_load(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
):
    """S24: loaded for the system visit, and once for the stages that it has set off (or twice, if they
    were not all read at once), never for each of them."""
    kind = stages.kind()
    for name in ("A", "B", "C"):
        kind.stage(name=name)(_look)
    await stages.install()
    loads = Loads(monkeypatch)
    stages.add(1, 2, 3)

    await stages.run()

    assert len(stages.history("listing/C", 3)) == 1
    assert max(Counter(loads.keys).values()) < 4


async def test_a_page_of_great_entities_is_not_kept_as_a_whole(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
):
    """S24: a page is as long as the reader likes; what is loaded for it has bounds."""
    kind, kept = stages.kind(), []
    kind.stage(name="A")(_look)
    await stages.install()
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    keep = Prefetched.keep

    def noted(prefetched: Prefetched, key: str, *rest: Any) -> None:
        keep(prefetched, key, *rest)
        kept.append(len(prefetched._kept))

    monkeypatch.setattr(Prefetched, "keep", noted)
    stages.add(*range(20), title="x" * 100)

    await stages.run()

    assert max(kept) <= 2
    assert stages.due() == 0


async def test_a_stage_sees_what_the_one_before_it_has_saved(stages: Stages):
    """S14: what was loaded for all is not shown to those who come after a save."""
    kind, seen = stages.kind(), []

    async def double(found: dict[str, Any], state: Any) -> Update:
        seen.append(found["price"])
        return Update(price=found["price"] * 2 or 1) if found["price"] < 4 else Update()

    for name in ("A", "B"):
        kind.stage(name=name)(double)
    await stages.install()
    stages.add(1)

    await stages.run()

    assert stages.listing()["price"] == 4
    assert seen == sorted(seen), "an older entity was shown after a newer one"
    assert not [row for row in stages.history("listing/A") if row["error"]]


class _Once:
    """A stage that keeps in its state that it has run, and nothing else."""

    def __init__(self) -> None:
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.runs = 0

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return state is None

    async def process(self, found: dict[str, Any], state: Any) -> Update:
        self.runs += 1
        self.began.set()
        await self.go_on.wait()
        return Update(state={"ran": True})


async def test_a_stage_is_asked_with_the_state_that_it_has_saved(stages: Stages):
    """S14, S18: a picture from before a save is of no use, although the entity is as it was."""
    kind, once = stages.kind(), _Once()
    kind.stage(name="Once")(once)
    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await once.began.wait()
        stages.offer("listing~", payload={"new": 1})
        await wait_until(lambda: ("listing~", "1") in known_keys(worker.buffer))
        once.go_on.set()
        await stages.rest(worker)

    assert once.runs == 1


async def test_what_changed_after_its_picture_is_run_again(stages: Stages):
    """S6, S13: a picture may be older than its run, and the save compares all the same."""
    kind, seen = stages.kind(), []

    async def note(found: dict[str, Any], state: Any) -> Update:
        if not seen:
            stages.change(1, title="newer")
        seen.append(found["title"])
        return Update(note=found["title"])

    kind.stage(name="Note", interest=["title"])(note)
    await stages.install()
    stages.add(1, title="older")

    await stages.run()

    assert seen[0] == "older"
    assert stages.listing()["note"] == "newer"


async def test_untouched_holds_where_nothing_moved_that_the_stage_reads(stages: Stages):
    """S6: a run that writes nothing is rebased like a patch."""
    kind, runs = stages.kind(), []

    async def look(found: dict[str, Any], state: Any) -> Untouched:
        runs.append(found["title"])
        if len(runs) == 1:
            stages.change(1, hits=5)
        return Untouched()

    kind.stage(name="Look", reads=["title"])(look)
    await stages.install()
    stages.add(1, title="same")

    await stages.run()

    assert runs == ["same"]
    assert stages.queues() == []


async def test_untouched_is_run_again_where_something_moved_that_the_stage_reads(stages: Stages):
    """S6: its answer was about another entity."""
    kind, runs = stages.kind(), []

    async def look(found: dict[str, Any], state: Any) -> Untouched:
        runs.append(found["title"])
        if len(runs) == 1:
            stages.change(1, title="newer")
        return Untouched()

    kind.stage(name="Look", reads=["title"])(look)
    await stages.install()
    stages.add(1, title="older")

    await stages.run()

    assert runs[0] == "older"
    assert runs[-1] == "newer"


async def _look(found: dict[str, Any], state: Any) -> Untouched:
    return Untouched()


async def test_a_load_that_fails_is_left_to_the_runs(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
):
    """S13: nothing is lost by a load before the start, whatever becomes of it."""
    kind = stages.kind()
    kind.stage(name="A")(_look)
    await stages.install()
    original, failed = TableSource.load, []

    async def load(source: Any, connection: Any, keys: Any) -> Any:
        if len(failed) < 2:
            failed.append("once more")
            raise ValueError("not now")
        return await original(source, connection, keys)

    monkeypatch.setattr(TableSource, "load", load)
    stages.add(1)

    await stages.run()

    assert failed
    assert stages.due() == 0


async def test_a_locked_table_holds_up_nothing_that_does_not_need_it(stages: Stages):
    """S2: whoever reads does not wait for it; tasks of the same worker go on."""
    kind = stages.kind()
    kind.stage(name="A")(_look)
    ran: list[int] = []

    @stages.app.task
    async def other(n: int) -> None:
        ran.append(n)

    await stages.install()
    stages.add(1)
    with stages.transaction() as user:
        user.execute("lock table listing")
        async with stages.working() as worker:
            for n in range(3):
                await other.enqueue(n)
                await wait_until(lambda n=n: n in ran)
            assert stages.visit("listing") is not None
            user.rollback()
            await stages.rest(worker)

    assert len(stages.history("listing/A")) == 1


async def test_a_load_that_hangs_holds_up_nothing_that_does_not_need_it(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
):
    """S2: whoever reads goes on after a moment, whatever the server does."""
    kind = stages.kind()
    kind.stage(name="A")(_look)
    ran, answered = asyncio.Event(), asyncio.Event()

    @stages.app.task
    async def other() -> None:
        ran.set()

    await stages.install()
    original = TableSource.load

    async def load(source: Any, connection: Any, keys: Any) -> Any:
        await answered.wait()
        return await original(source, connection, keys)

    monkeypatch.setattr(TableSource, "load", load)
    stages.add(1)
    async with stages.working() as worker:
        await wait_until(lambda: stages.visit("listing") is not None)
        await other.enqueue()
        async with asyncio.timeout(20):
            await ran.wait()
        answered.set()
        await stages.rest(worker)

    assert len(stages.history("listing/A")) == 1


class _Slow:
    """A DAO that answers when it is let go."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.loads = 0

    async def load(self, connection: Any, ids: Sequence[str]) -> Mapping[str, tuple[Any, int]]:
        self.loads += 1
        await self.gate.wait()
        return {id: ({"id": id}, 1) for id in ids}

    async def update(self, connection: Any, changes: Sequence[Any]) -> Mapping[str, int]:
        return {change.id: change.version for change in changes}


async def test_nothing_is_prepared_by_a_users_own_code(stages: Stages):
    """S2, S24: a DAO may take as long as it likes: only the runs that need it wait."""
    dao = _Slow()
    kind = stages.app.entities("order", dao=dao)
    kind.stage(name="A")(_look)
    await stages.install()
    await kind.changed(["1"])
    async with stages.working() as worker:
        await wait_until(lambda: dao.loads > 0)
        assert [run.visit.queue for run in worker.owned.active()] == ["order"]
        dao.gate.set()
        await stages.rest(worker)
    assert len(stages.history("order/A")) == 1
