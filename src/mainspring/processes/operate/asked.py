"""Operations whose items are structural changes: each is asked for by a visit, and counted when it ended.

A step offers the visits of some processes and keeps them in the operation's position, in one
transaction; the next ones ask what became of them. So the counts say what happened to each process,
with the reason where it was refused, and the operation is done when the last of them has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.ids import new_id, shard_of
from mainspring.kernel import KERNEL_SQL
from mainspring.operation_kind import ItemResult, OperationPage
from mainspring.processes.commit.visits import NewVisit, offer_steps
from mainspring.processes.operate.search import FoundProcess, ProcessFilter, search
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer
from mainspring.processes.structural.request import ProcessEngine

# Changes that are asked for and have not ended. More of them would only wait.
MOST = 500
# How long until they are asked after: while they are fresh, and later (seconds).
SOON, LATER = 0.05, 2.0
FRESH = timedelta(seconds=10)
GONE = "the process is gone"


class PacedOrder(Protocol):
    """An order about many items: how many a second, if there is a limit."""

    @property
    def rate(self) -> float | None: ...


class ProcessOrder(PacedOrder, Protocol):
    """An order about the processes that fit a filter."""

    @property
    def wanted(self) -> ProcessFilter: ...


Order = TypeVar("Order", bound=ProcessOrder)


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


class AskedRow(NamedTuple):
    """A row of read_asked.sql."""

    n: int  # from 0
    is_waiting: bool
    error: str | None  # of a visit that is parked
    answer: str | None  # JSON
    called_off: str | None
    now: datetime


class ClockRow(NamedTuple):
    """A row of read_clock.sql."""

    now: datetime


async def next_page(
    connection: Connection, order: ProcessOrder, at: AskedPlace, most: int
) -> tuple[AskedPlace, list[ItemResult], list[FoundProcess], datetime | None]:
    """What of that asked for has ended, and the processes whose turn it is."""
    ended: list[ItemResult] = []
    waiting: list[Asked] = []
    now = None
    if at.asked:
        for row in await _read(connection, at):
            one, now = at.asked[row.n], row.now
            if row.is_waiting:
                waiting.append(one)
            else:
                ended.append(ItemResult(one.type, one.process, _error(row)))
    found: list[FoundProcess] = []
    before, all_asked = at.before, at.all_asked
    if not all_asked and len(waiting) <= MOST // 2:
        most = min(most, MOST - len(waiting))
        found = await search(connection, order.wanted, before=before, limit=most)
        all_asked = len(found) < most
        before = found[-1].position if found else before
    return AskedPlace(before, all_asked, waiting, at.asked_at), ended, found, now


async def _read(connection: Connection, at: AskedPlace) -> list[AskedRow]:
    return await connection.rows(
        SQL["read_asked"],
        AskedRow,
        shards=[shard_of(one.process, connection.database.shard_count) for one in at.asked],
        keys=[one.key for one in at.asked],
        queues=[one.queue for one in at.asked],
        since=at.asked_at,
    )


def _error(row: AskedRow) -> str | None:
    """Why a change that ended, or ends no more, was not made; None: it was."""
    if row.called_off is not None:
        return f"its change was called off: {_first_line(row.called_off)}"
    if row.answer is not None:
        found = msgspec.json.decode(row.answer, type=Answer)
        return None if found.done else found.why
    return GONE if row.error is None else f"its change is parked: {_first_line(row.error)}"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no reason is known"


async def page_of(
    database: Database,
    connection: Connection,
    order: Order,
    position: str | None,
    most: int,
    changes: Callable[[Order, FoundProcess], NewVisit | str],
) -> OperationPage:
    """A step: `changes(order, process)` is the visit that is asked for, or why there is none."""
    most = paced_page(order, most)
    place, ended, found, now = await next_page(connection, order, place_of(position), most)
    wanted = await _place(
        connection, [_wanted(changes(order, process), process) for process in found]
    )
    asking = [asked for one in wanted if (asked := _asked(one)) is not None]
    if asking:
        place.asked_at = now or (await connection.one(KERNEL_SQL["read_clock"], ClockRow)).now
        place.asked = [*place.asked, *asking]
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


async def _place(tx: Tx, wanted: Sequence[Wanted]) -> list[Wanted]:
    """The visits go to where the engine works for each process."""
    ids = [one.process.id for one in wanted if one.visit is not None]
    found = await tx.rows(SQL["find_engines"], ProcessEngine, ids=ids) if ids else []
    engines = {process.id: process.engine for process in found}
    return [
        msgspec.structs.replace(one, visit=msgspec.structs.replace(one.visit, queue=engine))
        if one.visit is not None and (engine := engines.get(one.process.id)) is not None
        else one
        for one in wanted
    ]


def _asked(one: Wanted) -> Asked | None:
    if one.visit is None:
        return None
    return Asked(one.process.type, one.process.id, one.visit.queue, one.visit.key)


def paced_page(order: PacedOrder, most: int) -> int:
    """A slow order goes by the second, not by the page."""
    return most if order.rate is None else max(1, min(most, int(order.rate)))


async def ask_for(
    database: Database,
    connection: Connection,
    order: ProcessOrder,
    items: Sequence[ItemResult | Wanted],
) -> list[ItemResult]:
    """Offer the visits; returns what is known of the items: those that ended, and those refused at once."""
    visits = [one.visit for one in items if isinstance(one, Wanted) and one.visit is not None]
    await connection.follow(offer_steps(visits, database.shard_count))
    results = []
    for one in items:
        if isinstance(one, ItemResult):
            results.append(one)
        elif one.visit is None:
            results.append(ItemResult(one.process.type, one.process.id, one.why))
    return results
