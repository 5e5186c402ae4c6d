"""Saves of one transaction, of which one fires a trigger that writes the entity of another."""

from __future__ import annotations

import asyncio
from typing import Any

from mainspring import Untouched, Update
from stages import Stages

PAIRS = 20


async def test_what_a_trigger_writes_to_an_entity_of_the_same_transaction_is_not_lost(
    stages: Stages,
) -> None:
    """S13: a rank of an odd one makes the next one dearer by 1, while a stage makes that dearer by 10."""
    stages.query("""
        create function dearer() returns trigger language plpgsql as
        'begin if new.rank <> old.rank then update listing set price = price + 1
        where id = new.id + 1; end if; return new; end';
        create trigger dearer after update on listing for each row execute function dearer()
    """)
    kind = stages.kind()
    all_loaded = asyncio.Barrier(2 * PAIRS)  # so that they are saved together
    seen: set[int] = set()

    @kind.stage(reads=["price", "rank"], writes=["price", "rank"])
    async def value(found: dict[str, Any]) -> Update | Untouched:
        if found["id"] not in seen:
            seen.add(found["id"])
            await all_loaded.wait()
        if found["id"] % 2:
            return Update(rank=5) if found["rank"] == 0 else Untouched()
        return Update(price=found["price"] + 10) if found["price"] < 10 else Untouched()

    await stages.install()
    stages.add(*range(1, 2 * PAIRS + 1))
    await stages.run()

    prices = stages.query("select price from listing where mod(id, 2) = 0")
    assert [row["price"] for row in prices] == [11] * PAIRS
