"""Kinds without a version column: xmin is the lock, in memory for one visit, never stored or sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Saved, Untouched, Update
from mainspring.testing import wait_until
from stages import Stages

TABLE = "create table thing (id bigint primary key, title text, note text, hits integer default 0)"


def recreate(stages: Stages) -> None:
    stages.query("delete from thing")
    stages.query("insert into thing (id, title) values (1, 'new')")


def change(stages: Stages) -> None:
    stages.query("update thing set title = 'new'")


def change_past_the_trigger(stages: Stages) -> None:
    stages.query("set session_replication_role = replica")
    change(stages)
    stages.query("reset session_replication_role")


class Copy:
    """Copies the title into the note and its state; its first run waits."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.sent: list[Saved] = []
        self.gate = asyncio.Event()

    async def process(self, thing: dict[str, Any], state: Any) -> Any:
        self.seen.append(thing["title"])
        if len(self.seen) == 1:
            await self.gate.wait()
        return Update(note=thing["title"], state=thing["title"])

    async def saved(self, event: Saved) -> None:
        self.sent.append(event)

    deleted = saved


@pytest.mark.parametrize("action", [recreate, change, change_past_the_trigger])
async def test_what_others_do_during_a_run_is_not_overwritten(
    stages: Stages, action: Callable[[Stages], None]
) -> None:
    """S26, S13, S21: xmin moves with every write, by whatever way, and with another row."""
    stages.query(TABLE)
    kind = stages.kind("thing", table="thing", version="xmin")
    copy = Copy()
    kind.stage(name="copy")(copy)
    await stages.install()
    stages.query("insert into thing (id, title) values (1, 'old')")

    async with stages.working() as worker:
        await wait_until(lambda: bool(copy.seen))
        action(stages)
        copy.gate.set()
        await stages.rest(worker)

    assert copy.seen[0] == "old"
    assert stages.query("select title, note from thing") == [{"title": "new", "note": "new"}]
    assert stages.state("copy", kind="thing")["body"] == "new"  # type: ignore[index]
    assert {e.entity["note"] for e in copy.sent if e.what == "saved"} == {"new"}


async def test_a_state_is_not_stored_beside_a_newer_row(stages: Stages) -> None:
    """S13: a save of state alone compares xmin, too."""
    stages.query(TABLE)
    kind = stages.kind("thing", table="thing", version="xmin")
    gate, seen = asyncio.Event(), []

    @kind.stage(name="keep")
    async def keep(thing: dict[str, Any], state: Any) -> Untouched:
        seen.append(thing["title"])
        if len(seen) == 1:
            await gate.wait()
        return Untouched(state=thing["title"])

    await stages.install()
    stages.query("insert into thing (id, title) values (1, 'old')")
    async with stages.working() as worker:
        await wait_until(lambda: bool(seen))
        change(stages)
        gate.set()
        await stages.rest(worker)

    assert stages.state("keep", kind="thing")["body"] == "new"  # type: ignore[index]


async def test_no_version_is_announced_stored_or_sent(stages: Stages) -> None:
    """S26, S7: a stage is asked about its own writes, too; events carry their number only."""
    stages.query(TABLE)
    kind = stages.kind("thing", table="thing", version="xmin")
    copy = Copy()
    copy.gate.set()
    kind.stage(name="copy")(copy)
    await stages.install()
    stages.query("insert into thing (id, title) values (1, 'a')")
    await stages.run()

    runs = stages.history("thing")
    assert [set(run["payload"]) - {"out", "chain"} for run in runs] == [{"new"}, {"f:note"}]
    assert copy.seen == ["a", "a"]  # by its own write, and then it has nothing to change
    (event,) = copy.sent
    assert event.entity_version is None
    assert event.number > 0


async def test_an_idempotency_key_does_not_come_back_with_the_row(stages: Stages) -> None:
    """S7, trap 25: entity and state begin anew, the number does not."""
    stages.query(TABLE)
    kind = stages.kind("thing", table="thing", version="xmin")
    copy = Copy()
    copy.gate.set()
    kind.stage(name="copy")(copy)
    await stages.install()
    stages.query("insert into thing (id, title) values (1, 'a')")
    await stages.run()
    recreate(stages)
    await stages.run()

    keys = [event.idempotency_key for event in copy.sent]
    numbers = [event.number for event in copy.sent]
    assert [event.what for event in copy.sent] == ["saved", "deleted", "saved"]
    assert len(set(keys)) == 3
    assert numbers == sorted(numbers)


async def test_a_patch_is_rebased_on_a_row_that_was_written_elsewhere(stages: Stages) -> None:
    """S6: what the stage declared did not change, so it is not run again."""
    stages.query(TABLE)
    kind = stages.kind("thing", table="thing", version="xmin")
    gate, seen = asyncio.Event(), []

    @kind.stage(name="copy", reads=["title"], writes=["note"])
    async def copy(thing: dict[str, Any]) -> Update:
        seen.append(thing["title"])
        await gate.wait()
        return Update(note=thing["title"])

    await stages.install()
    stages.query("insert into thing (id, title) values (1, 'a')")
    async with stages.working() as worker:
        await wait_until(lambda: bool(seen))
        stages.query("update thing set hits = 5")
        gate.set()
        await stages.rest(worker)

    assert seen == ["a"]
    assert stages.query("select note, hits from thing") == [{"note": "a", "hits": 5}]
