"""The system visit: who is asked, who is offered unasked, and what failures do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from mainspring import Untouched, Update
from mainspring import clock as moment
from mainspring.db.shared import SharedConnections
from mainspring.entities.declare.catalogue import CatalogueEntry
from mainspring.entities.runtime import start
from mainspring.entities.visit import system as ask
from mainspring.entities.visit.system import changed_fields, is_concerned
from mainspring.kernel.port import WorkerPort
from stages import Stages

ALL = CatalogueEntry("S", None, False)
PICKY = CatalogueEntry("S", frozenset({"price"}), False)
OWN = CatalogueEntry("S", None, True)


@pytest.mark.parametrize(
    ("entry", "payload", "version", "expected"),
    [
        (ALL, {"f:title": 1}, 3, True),
        (PICKY, {"f:title": 1}, 3, False),
        (PICKY, {"f:title": 1, "f:price": 1}, 3, True),
        (PICKY, {"new": 1}, 3, True),
        (PICKY, {"ask:S": 1}, 3, True),
        (PICKY, {"ask:T": 1}, 3, False),
        (ALL, {"f:title": 1, "by:S": 3}, 3, False),
        (ALL, {"f:title": 1, "by:S": 3}, 4, True),
        (ALL, {"f:title": 1, "by:T": 3}, 3, True),
        (OWN, {"f:title": 1, "by:S": 3}, 3, True),
        (ALL, {"f:title": 1, "by:S": 3, "ask:S": 1}, 3, True),
    ],
)
def test_a_stage_is_concerned_by_its_interest_and_not_by_its_own_save(
    entry: CatalogueEntry, payload: dict[str, Any], version: int, expected: bool
) -> None:
    """S13, S17: by fields, by name, by creation; own is only the very version that it made."""
    assert is_concerned(entry, payload, changed_fields(payload), version) is expected


class Odd:
    """A stage whose should_process misbehaves as the title says."""

    def __init__(self, is_async: bool = False) -> None:
        self.processed: list[str] = []
        self.passed = 0.0
        if is_async:
            self.should_process = self._later  # type: ignore[method-assign]

    def should_process(self, found: dict[str, Any], state: Any) -> Any:
        match found["title"]:
            case "raise":
                raise ValueError("cannot say")
            case "slow":
                self.passed += 10.0  # seconds on the asker's clock
                return False
            case "nonsense":
                return "perhaps"
            case "naive":
                return datetime(2026, 1, 1)
            case "far":
                return datetime(2100, 1, 1, tzinfo=UTC)
        return found["title"] == "yes"

    async def _later(self, found: dict[str, Any], state: Any) -> Any:
        if found["title"] == "slow":
            await asyncio.sleep(60)
        return self.__class__.should_process(self, found, state)

    async def process(self, found: dict[str, Any], state: Any) -> Untouched:
        self.processed.append(found["title"])
        return Untouched()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_should_process_that_fails_or_overruns_queues_the_entity(
    stages: Stages, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: fail-open, with a budget; failures are in history for all to see."""
    listing = stages.kind()
    odd = Odd(is_async)
    clock = SimpleNamespace(local=lambda: moment.local() + odd.passed)
    monkeypatch.setattr(ask, "clock", clock)
    listing.stage(name="odd", budget=1.0 if is_async else 9.0)(odd)
    await stages.install()
    titles = ["yes", "no", "raise", "slow", "nonsense", "naive", "far"]
    for id, title in enumerate(titles, 1):
        stages.add(id, title=title)
    await stages.run()

    assert sorted(odd.processed) == sorted(set(titles) - {"no"})
    answers = {
        title: stages.history("listing", id)[0]["result"]["asked"]["odd"]
        for id, title in enumerate(titles, 1)
    }
    assert (answers["yes"], answers["no"], answers["slow"]) == (True, False, "overrun")
    assert answers["raise"] == "failed: ValueError: cannot say"
    assert "must answer True, False or a datetime" in answers["nonsense"]


async def test_a_stage_that_was_removed_keeps_its_entries_and_is_reported(stages: Stages) -> None:
    """S26: what waits in the queue of a stage that no code has any more stays there."""
    listing = stages.kind()
    listing.stage(name="gone")(Odd())
    listing.stage(name="stays")(Odd())
    await stages.install()
    del listing.stages["gone"]
    stages.add(1, title="yes")
    await stages.run()

    assert stages.queues() == ["listing/gone"]
    queues = {q.name: q for q in await stages.app.operator.queues()}
    assert queues["listing/gone"].unserved

    assert await listing.retire("gone")
    stages.change(title="no")
    await stages.run()

    assert stages.history("listing")[-1]["result"] == {"asked": {"stays": False}}
    assert stages.queues() == ["listing/gone"]


async def test_a_version_older_than_what_was_announced_is_not_believed(stages: Stages) -> None:
    """S13, trap 2: a replica answered; the visit is tried again."""
    listing = stages.kind()
    listing.stage(name="odd")(Odd())
    await stages.install()
    stages.add(1)
    stages.query("""update mainspring.visit set payload = payload || '{"v": 9}'""")
    await stages.run()

    visit = stages.visit("listing")
    assert visit is not None
    assert "version 9 of '1' was announced, version 1 was loaded" in visit["error"]


async def test_what_is_no_id_at_all_fails_alone_and_says_so(stages: Stages) -> None:
    """S25: beside ids in the same batch."""
    listing = stages.kind()
    odd = Odd()
    listing.stage(name="odd")(odd)
    await stages.install()
    stages.add(7)
    await stages.run()
    before = len(odd.processed)
    for key in ("007", "seven", "7"):
        stages.offer("listing/odd", key)
    await stages.run()

    wrong = stages.visit("listing/odd", "seven")
    assert wrong is not None
    assert "invalid input syntax for type bigint" in wrong["error"]
    assert stages.visit("listing/odd", "007") is None
    assert stages.visit("listing/odd", "7") is None
    assert len(odd.processed) > before


async def test_many_stages_of_many_entities_come_to_rest(stages: Stages) -> None:
    """S16: the whole converges when no stage wants the entity or none changes it."""
    listing = stages.kind()

    def declare(name: str, source: str, target: str) -> None:
        @listing.stage(name=name, reads=[source], writes=[target])
        async def copy(found: dict[str, Any]) -> Update:
            return Update(**{target: found[source]})

    declare("a", "price", "rank")
    declare("b", "rank", "hits")
    await stages.install()
    stages.query("insert into listing (id, price) select n, n from generate_series(1, 50) n")
    await stages.run()

    assert stages.value("select count(*) from listing where price = rank and rank = hits") == 50
    assert stages.value("select count(*) from mainspring.visit") == 0


async def test_a_change_that_can_concern_nobody_is_told_without_a_load(stages: Stages) -> None:
    """S17: by the catalogue; a field that the table did not have when the worker began is looked at."""
    listing = stages.kind()

    @listing.stage(reads=["title"])
    async def look(found: dict[str, Any]) -> Untouched:
        return Untouched()

    await stages.install()
    database = await stages.app.database()
    connections = SharedConnections(database, 1)
    runtime = await start(database, WorkerPort(connections), [listing], threads=1)
    connection = await database.connect("test")
    try:
        await runtime.kinds["listing"].known.refresh(connection)
        may_concern = runtime.kinds["listing"].asker._may_concern
        assert not may_concern({"f:price": 1, "v": 3, "by:look": 3, "out": 1})
        for payload in ({"f:title": 1}, {"f:fresh": 1}, {"new": 1}, {"ask:look": 1}):
            assert may_concern(payload), payload
    finally:
        await connection.close()
        await runtime.close()
        await connections.close()

    stages.add(1)
    await stages.run()
    stages.change(price=5)
    await stages.run()
    assert len(stages.history("listing/look")) == 1
