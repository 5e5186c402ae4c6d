"""Operations whose items are structural changes: each is asked for by a visit, and counted when it ended.

A step offers the visits of some processes and keeps them in the operation's position, in one
transaction; the next ones ask what became of them. So the counts say what happened to each process,
with the reason where it was refused, and the operation is done when the last of them has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.kernel import KERNEL_SQL, ItemResult, OperationPage, new_id, shard_of
from mainspring.processes.commit.visits import NewVisit, offer_values
from mainspring.processes.operate.search import FoundProcess, search
from mainspring.processes.statements import SQL
from mainspring.processes.steps import run_steps
from mainspring.processes.structural.change import Answer

# Changes that are asked for and have not ended. More of them would only wait.
MOST = 500
# How long until they are asked after: while they are fresh, and later (seconds).
SOON, LATER = 0.05, 2.0
FRESH = timedelta(seconds=10)
GONE = "the process is gone"


class Asked(msgspec.Struct, array_like=True, frozen=True):
    """A change that was asked for: of which process, and the visit that does it."""

    type: str
    process: str
    queue: str
    key: str


class AskedPlace(msgspec.Struct):
    """Where a step begins."""

    before: tuple[datetime, str] | None = None  # processes from there on are still to be asked
    all_asked: bool = False
    asked: list[Asked] = []
    asked_at: datetime | None = None  # the newest of them


class Wanted(msgspec.Struct):
    """A process whose change is to be asked for, or (`why`) cannot be."""

    process: FoundProcess
    visit: NewVisit | None = None
    why: str | None = None


def place_of(position: str | None) -> AskedPlace:
    """The last release wrote where the next page begins alone."""
    if position is None:
        return AskedPlace()
    found = msgspec.json.decode(position, type=tuple[datetime, str] | AskedPlace)
    return found if isinstance(found, AskedPlace) else AskedPlace(before=found)


async def next_page(
    database: Database, connection: Any, order: Any, at: AskedPlace, most: int
) -> tuple[AskedPlace, list[ItemResult], list[FoundProcess], datetime | None]:
    """What of that asked for has ended, and the processes whose turn it is."""
    ended: list[ItemResult] = []
    waiting: list[Asked] = []
    now = None
    if at.asked:
        for row in await _read(database, connection, at):
            one, now = at.asked[row["n"]], row["now"]
            if row["is_waiting"]:
                waiting.append(one)
            else:
                ended.append(ItemResult(one.type, one.process, _error(row)))
    found: list[FoundProcess] = []
    before, all_asked = at.before, at.all_asked
    if not all_asked and len(waiting) <= MOST // 2:
        most = min(most, MOST - len(waiting))
        found = await search(database, connection, order.wanted, before=before, limit=most)
        all_asked = len(found) < most
        before = found[-1].position if found else before
    return AskedPlace(before, all_asked, waiting, at.asked_at), ended, found, now


async def _read(database: Database, connection: Any, at: AskedPlace) -> list[Any]:
    statement = SQL["read_asked"]
    values = {
        "shards": [shard_of(one.process, database.shard_count) for one in at.asked],
        "keys": [one.key for one in at.asked],
        "queues": [one.queue for one in at.asked],
        "since": at.asked_at,
    }
    return await database.fetch(connection, statement, *statement.arguments(values))


def _error(row: Any) -> str | None:
    """Why a change that ended, or ends no more, was not made; None: it was."""
    if row["called_off"] is not None:
        return f"its change was called off: {_first_line(row['called_off'])}"
    if row["answer"] is not None:
        found = msgspec.json.decode(row["answer"], type=Answer)
        return None if found.done else found.why
    return GONE if row["error"] is None else f"its change is parked: {_first_line(row['error'])}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no reason is known"


async def page_of(
    database: Database, connection: Any, order: Any, position: str | None, most: int, changes: Any
) -> OperationPage:
    """A step: `changes(order, process)` is the visit that is asked for, or why there is none."""
    most = most if order.rate is None else max(1, min(most, int(order.rate)))
    place, ended, found, now = await next_page(
        database, connection, order, place_of(position), most
    )
    wanted = [_wanted(changes(order, process), process) for process in found]
    if asking := [one for one in wanted if one.visit is not None]:
        await _place(database, connection, asking)
        place.asked_at = now or (await _clock(database, connection))
        place.asked = [*place.asked, *map(_asked, asking)]
    items = [*ended, *wanted]
    if place.all_asked and not place.asked:
        return OperationPage(items, None)
    text = msgspec.json.encode(place).decode()
    if order.rate is not None and found:
        return OperationPage(items, text, wait=len(found) / order.rate)
    if asking and len(place.asked) <= MOST // 2:
        return OperationPage(items, text)
    is_fresh = now is None or place.asked_at is None or now - place.asked_at < FRESH
    why = (
        f"{len(place.asked)} changes have not ended, the first of process {place.asked[0].process}"
    )
    return OperationPage(items, text, wait=SOON if is_fresh else LATER, why=why)


def _wanted(change: NewVisit | str, process: FoundProcess) -> Wanted:
    if isinstance(change, str):
        return Wanted(process, why=change)
    kind, _, _ = change.key.partition("/")
    key = f"{kind}/{new_id()}"  # its own: history tells its answer from those of other orders
    return Wanted(process, msgspec.structs.replace(change, key=key))


async def _place(database: Database, connection: Any, asking: Sequence[Wanted]) -> None:
    """The visits go to where the engine works for each process."""
    statement = SQL["find_engines"]
    ids = [one.process.id for one in asking]
    engines = dict(await database.fetch(connection, statement, *statement.arguments({"ids": ids})))
    for one in asking:
        assert one.visit is not None
        queue = engines.get(one.process.id, one.visit.queue)
        one.visit = msgspec.structs.replace(one.visit, queue=queue)


def _asked(one: Wanted) -> Asked:
    assert one.visit is not None
    return Asked(one.process.type, one.process.id, one.visit.queue, one.visit.key)


async def _clock(database: Database, connection: Any) -> datetime:
    rows = await database.fetch(connection, KERNEL_SQL["read_clock"])
    now: datetime = rows[0]["now"]
    return now


async def ask_for(
    database: Database, connection: Any, order: Any, items: Sequence[ItemResult | Wanted]
) -> list[ItemResult]:
    """Offer the visits; answers what is known of the items: those that ended, and those refused at once."""
    visits = [one.visit for one in items if isinstance(one, Wanted) and one.visit is not None]
    if visits:
        offer = (KERNEL_SQL["offer"], offer_values(visits, database.shard_count))

        def steps() -> Any:
            yield offer

        await run_steps(connection, steps())
    results = []
    for one in items:
        if isinstance(one, ItemResult):
            results.append(one)
        elif one.visit is None:
            results.append(ItemResult(one.process.type, one.process.id, one.why))
    return results
