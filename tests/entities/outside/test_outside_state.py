"""States from outside: read, and replaced by compare-and-set."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import Kind, Untouched
from mainspring.errors import InvalidKey, InvalidSetting, NotFound, UnknownStage
from stages import Stages


@dataclass
class Budget:
    cents: int


@pytest.fixture
async def listing(stages: Stages) -> Kind:
    kind = stages.kind()

    @kind.stage(state=Budget)
    class Spend:
        def should_process(self, found: dict[str, Any], state: Budget | None) -> bool:
            return state is not None and state.cents % 2 == 1

        async def process(self, found: dict[str, Any], state: Budget | None) -> Untouched:
            assert state is not None
            return Untouched(state=Budget(state.cents + 1))

    await stages.install()
    stages.add(1)
    await stages.run()
    return kind


async def test_a_state_is_replaced_only_if_its_version_still_holds(
    stages: Stages, listing: Kind
) -> None:
    """S11: compare-and-set on the version, answered yes or no."""
    assert await listing.state("Spend", 1) == (None, 0)
    assert await listing.set_state("Spend", 1, Budget(2), 0)
    value, version = await listing.state("Spend", "1")
    assert value == Budget(2)

    assert not await listing.set_state("Spend", 1, Budget(9), 0)
    assert not await listing.set_state("Spend", 1, Budget(9), version + 1)
    assert await listing.set_state("Spend", 1, Budget(4), version)
    assert not await listing.set_state("Spend", 1, Budget(9), version)
    assert (await listing.state("Spend", 1))[0] == Budget(4)


async def test_an_outside_change_asks_that_stage_again(stages: Stages, listing: Kind) -> None:
    """S11: an outside change asks that stage, and its own save compares the version."""
    assert await listing.set_state("Spend", 1, Budget(3), 0)
    visit = stages.visit("listing")
    assert visit is not None
    assert visit["payload"] == {"ask:Spend": 1, "out": 1}

    await stages.run()

    assert (await listing.state("Spend", 1))[0] == Budget(4)


async def test_an_emptied_state_keeps_its_version_rising(stages: Stages, listing: Kind) -> None:
    """S11: nobody who knew 'no state' overwrites one that came and was emptied since."""
    assert await listing.set_state("Spend", 1, Budget(2), 0)
    _, version = await listing.state("Spend", 1)
    assert await listing.set_state("Spend", 1, None, version)
    value, emptied = await listing.state("Spend", 1)

    assert value is None
    assert emptied > version
    assert not await listing.set_state("Spend", 1, Budget(2), 0)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_it_is_part_of_the_callers_transaction(
    stages: Stages, listing: Kind, driver: str
) -> None:
    """S11: in the caller's own transaction, together with what else it writes."""
    if driver == "psycopg":
        async with await psycopg.AsyncConnection.connect(stages.url) as connection:
            assert await listing.set_state("Spend", 1, Budget(2), 0, on=connection)
            assert (await listing.state("Spend", 1, on=connection))[0] == Budget(2)
            await connection.rollback()
    else:
        own = await asyncpg.connect(stages.url)
        transaction = own.transaction()
        await transaction.start()
        assert await listing.set_state("Spend", 1, Budget(2), 0, on=own)
        await transaction.rollback()
        await own.close()

    assert await listing.state("Spend", 1) == (None, 0)
    assert stages.queues() == []


async def test_no_change_of_many_outsiders_is_lost(stages: Stages, listing: Kind) -> None:
    """S11: a counter that outsiders raise by compare-and-set, while the stage changes it, too."""
    assert await listing.set_state("Spend", 1, Budget(0), 0)
    raised = 0

    async def outsider() -> None:
        nonlocal raised
        done = 0
        while done < 10:
            value, version = await listing.state("Spend", 1)
            if await listing.set_state("Spend", 1, Budget(value.cents + 1), version):
                done += 1
                raised += 1

    async with stages.working() as worker:
        await asyncio.gather(*(outsider() for _ in range(3)))
        await stages.rest(worker)

    stage_runs = [
        r for r in stages.history("listing/Spend") if r["result"] and r["result"]["state"]
    ]
    assert (await listing.state("Spend", 1))[0] == Budget(raised + len(stage_runs))


async def test_what_cannot_be_is_refused_with_the_reason(stages: Stages, listing: Kind) -> None:
    with pytest.raises(UnknownStage, match="did you mean 'Spend'"):
        await listing.state("Spent", 1)
    with pytest.raises(NotFound, match="has no entity 99"):
        await listing.set_state("Spend", 99, Budget(1), 0)
    with pytest.raises(InvalidSetting, match="version must be"):
        await listing.set_state("Spend", 1, Budget(1), -1)
    with pytest.raises(InvalidKey, match="no id of kind 'listing': 'one'"):
        await listing.state("Spend", "one")
    with pytest.raises(psycopg.errors.UndefinedObject, match="has no stage 'Spent'"):
        stages.query("select mainspring.set_state('listing', '1', 'Spent', 0, '1')")
