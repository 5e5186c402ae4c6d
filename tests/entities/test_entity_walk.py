"""One walk through the whole layer: a plain SQL change, the stages asked, a save, rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mainspring import Untouched, Update
from stages import Stages


@dataclass
class Listing:
    id: int
    title: str
    price: int
    rank: int
    version: int


async def test_a_change_by_plain_sql_brings_the_stage_and_its_save(stages: Stages) -> None:
    """S1: a stage runs after a change, and its save is in the user's own table."""
    listing = stages.kind(model=Listing)

    @listing.stage
    async def price(found: Listing) -> Update | Untouched:
        return Update(replace(found, price=len(found.title)))

    await stages.install()
    stages.add(1, title="a red car")

    await stages.run()

    assert stages.listing() == {
        "id": 1,
        "title": "a red car",
        "price": 9,
        "rank": 0,
        "hits": 0,
        "note": None,
        "version": 2,
    }
    assert stages.queues() == []
