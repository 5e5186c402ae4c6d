# mypy: no-warn-unreachable
# pyright: strict, reportUnusedCoroutine=false, reportUnusedExpression=false
"""Kinds, stages and params as checkers see them: a line marked as an error is refused. Never run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_type

from mainspring import Kind, Mainspring, ReactiveRun, Saved, Untouched, Update
from mainspring.entities.declare.stage import Stage
from mainspring.reactive import Param, new_day

app = Mainspring()


@dataclass
class Listing:
    id: int
    title: str


@dataclass
class Seen:
    title: str


@dataclass
class Other:
    id: int


listing = app.entities("listing", table="public.listing", model=Listing)
assert_type(listing, Kind[Listing])
plain = app.entities("plain", table="public.plain", serial=False)
assert_type(plain, Kind[dict[str, Any]])
drafts = app.documents("draft", model=Listing)


@listing.stage(reads=["title"], writes=["title"], parallel=3)
async def approve(found: Listing) -> Update | Untouched:
    return Update(title=found.title.strip())


@listing.stage
def look(found: Listing, state: None) -> Untouched:
    return Untouched()


@listing.stage(state=Seen)
class Watch:
    def should_process(self, found: Listing, state: Seen | None) -> bool:
        return state is None

    async def process(self, found: Listing, state: Seen | None) -> Update | Untouched:
        return Untouched(state=Seen(found.title))

    async def saved(self, event: Saved) -> None: ...


@plain.stage(name="other")
def of_dicts(found: dict[str, Any]) -> Untouched:
    return Untouched(visit_in=3)


assert_type(approve, Stage)


@listing.stage(raeds=["title"])  # error
async def misspelt(found: Listing) -> Untouched:
    return Untouched()


@listing.stage(reads=["title"])  # error
async def of_others(found: Other) -> Untouched:
    return Untouched()


@listing.stage(state=Seen)  # error
async def other_state(found: Listing, state: int) -> Untouched:
    return Untouched()


@listing.stage()  # error
async def no_outcome(found: Listing) -> str:
    return found.title


async def documents() -> None:
    draft = await drafts.get("a1")
    assert_type(draft, tuple[Listing, int] | None)
    await drafts.put("a1", Listing(1, "title"))
    await drafts.put("a1", Other(1))  # error
    assert_type(await listing.edit(1, lambda found: Update(title=found.title)), Listing)
    await listing.edit(1, lambda found: Update(title=found.name))  # error


clicks = app.data("raw.clicks").param("loaded_to")
count = app.data("raw.clicks").param("count", kind="integer")
model = app.data("raw.clicks").param("model", kind="version")
assert_type(clicks, Param[datetime])


@app.task(when=new_day(clicks), produces=[count])
async def daily(run: ReactiveRun) -> None:
    assert_type(run.current[clicks], datetime | None)
    assert_type(run.seen[count], int | None)
    run.advance(count, (run.current[count] or 0) + 1)
    run.advance(count, "one")  # error


async def move() -> None:
    await app.advance(clicks, datetime.now(UTC))
    await app.advance("raw.clicks.count", 3)
    await app.advance(model, "v1")
    await app.advance(count, "3")  # error
    await app.advance(clicks, 3)  # error
    app.data("x").param("y", kind="intger")  # error
