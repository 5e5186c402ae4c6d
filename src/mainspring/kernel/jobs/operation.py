"""Operations: an operator's bulk jobs, with items, progress, pause, resume and cancel.

An operation is a row and a visit of the queue `mainspring.operation`, which in another pool than the
default one is `mainspring.operation@pool`: any pool's workers may do it. A run of the visit does page
after page: it reads which items come next, then changes them, notes them and moves the position in
one transaction. So progress and effect are committed together, and a crash at any moment repeats
nothing and leaves nothing out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database, is_transient
from mainspring.db.literals import texts
from mainspring.errors import InvalidSetting, NotFound
from mainspring.kernel import clock, crash_points
from mainspring.kernel.offer import Offer, offer_visits
from mainspring.kernel.operate.parked import ParkedPlace, restart_parked
from mainspring.kernel.operate.queues import nearest
from mainspring.kernel.outcome import Again, Alone, Done, Outcome
from mainspring.kernel.query import ask, check_page, decoded
from mainspring.kernel.retry import RetryPolicy
from mainspring.kernel.settings import DEFAULT_POOL, QueueSettings, own_queue
from mainspring.kernel.visit import Run

QUEUE = "mainspring.operation"
# "parked" is not stored: the operation's row says running, and its step is a parked visit.
STATES = ("running", "parked", "paused", "cancelled", "done", "failed")
PAGE = 500
# A step that failed so often in a row ends the operation.
ATTEMPTS = 5
# A run does steps for so long; then whoever stops, fences or shares out the worker has its turn.
RUN_SECONDS = 1.0
# After each step an operation rests for so many times as long as it took: others need the server too.
STEP_RESTS = 0.15
# A wait as short as this is sat out by the run that has it.
SHORT_SECONDS = 0.1
# A step that met somebody's lock is tried again after so long.
CONFLICT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Operation:
    """A bulk job. `id` is None for one that was only tried dry; `total` is an estimate."""

    id: int | None
    kind: str
    source: str
    order: Any
    state: str
    total: int | None
    done: int
    failed: int
    position: str | None
    error: str | None
    created_at: datetime
    changed_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class OperationItem:
    """One thing that an operation did, or (`error`) could not do."""

    number: int
    queue: str
    key: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What a step did to one item."""

    queue: str
    key: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OperationPage:
    """The items of a step, and where the next one begins (JSON); None: this step is the last.

    A step that goes slowly waits after its items; one without items that is not the last only waits.
    """

    items: Sequence[Any]
    position: str | None
    wait: float = 0.0  # seconds before the next step
    why: str | None = None  # what it waits for


@dataclass(frozen=True, slots=True)
class OperationKind:
    """A kind of operation. `order` is the dataclass that says what is asked; it is kept as JSON.

    `freeze` fixes the order at its start, so that what happens later does not widen it. `count`
    estimates the items, `page` reads some, `apply` changes them in the settling transaction.
    """

    name: str
    order: type
    freeze: Callable[[Any, datetime], Any]
    count: Callable[[Database, Any, Any], Awaitable[int | None]]
    page: Callable[[Database, Any, Any, str | None, int], Awaitable[OperationPage]]
    apply: Callable[[Database, Any, Any, Sequence[Any]], Awaitable[list[ItemResult]]]
    counted: bool = (
        False  # items are only counted: there may be millions, and each is seen elsewhere
    )


# -- orders


async def start_operation(
    database: Database,
    connection: Any,
    kind: OperationKind,
    order: Any,
    *,
    source: str,
    dry_run: bool,
) -> Operation:
    """Begin an operation, in the caller's transaction; a dry run only counts."""
    now = (await ask(database, connection, "read_clock"))[0]["now"]
    order = kind.freeze(order, now)
    total = await kind.count(database, connection, order)
    if dry_run:
        return Operation(
            None, kind.name, source, order, "dry run", total, 0, 0, None, None, now, now, None
        )
    text = msgspec.json.encode(order).decode()
    rows = await ask(
        database,
        connection,
        "start_operation",
        kind=kind.name,
        source=source,
        filter=text,
        total=total,
    )
    await _offer(database, connection, rows[0]["id"])
    return _operation(rows[0])


async def list_operations(
    database: Database,
    connection: Any,
    *,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Operation]:
    """Operations, newest first; the next page begins before the last id."""
    if state is not None and state not in STATES:
        raise InvalidSetting(f"state must be one of {', '.join(STATES)}, got {state!r}")
    most = check_page(limit)
    rows = await ask(
        database, connection, "list_operations", id=None, state=state, before=before, most=most
    )
    return [_operation(row) for row in rows]


async def read_operation(database: Database, connection: Any, id: int) -> Operation:
    """One operation, as it stands."""
    rows = await ask(
        database, connection, "list_operations", id=id, state=None, before=None, most=1
    )
    if not rows:
        raise NotFound(f"there is no operation {id}; mainspring operations list shows them")
    return _operation(rows[0])


async def list_items(
    database: Database,
    connection: Any,
    id: int,
    *,
    after: int = 0,
    failed_only: bool = False,
    limit: int = 100,
) -> list[OperationItem]:
    """What an operation has done so far, in order."""
    most = check_page(limit)
    rows = await ask(
        database, connection, "list_items", id=id, after=after, failed_only=failed_only, most=most
    )
    return [OperationItem(**dict(row)) for row in rows]


async def pause(database: Database, connection: Any, id: int) -> None:
    """Stop after the step that is under way."""
    await _change(database, connection, id, "paused", ("running",))


async def resume(database: Database, connection: Any, id: int) -> None:
    """Go on where it stopped, in the caller's transaction: paused, failed, or its step parked."""
    if (await read_operation(database, connection, id)).state != "parked":
        await _change(database, connection, id, "running", ("paused", "failed"))
    await _free_step(database, connection, id)
    await _offer(database, connection, id)


async def cancel(database: Database, connection: Any, id: int) -> None:
    """End it, in the caller's transaction; what was done stays done."""
    await _change(database, connection, id, "cancelled", ("running", "paused"))
    await _free_step(database, connection, id)  # it sees that there is nothing to do, and ends


async def _free_step(database: Database, connection: Any, id: int) -> None:
    """A step that was parked (it killed its workers, say) may run again."""
    rows = await ask(database, connection, "list_steps", key=str(id))
    await restart_parked(database, connection, [ParkedPlace(**dict(row)) for row in rows])


async def _offer(database: Database, connection: Any, id: int) -> None:
    """Have the next step done where there are workers.

    A step that another pool still has does no harm: of two the one that comes second does nothing.
    """
    rows = await ask(database, connection, "pick_pool")
    queue = own_queue(QUEUE, rows[0]["pool"] if rows else DEFAULT_POOL)
    await ask(database, connection, "offer_operation", id=id, queue=queue)


async def adopt(database: Database, connection: Any, pool: str) -> None:
    """Take on the operations of pools that nobody serves any more, in the caller's transaction."""
    queue = own_queue(QUEUE, pool)
    rows = await ask(database, connection, "adopt_operations", queue=queue)
    if rows:
        await offer_visits(database, connection, [Offer(queue, row["key"]) for row in rows])


async def _change(
    database: Database, connection: Any, id: int, state: str, from_states: Sequence[str]
) -> None:
    changed = await ask(
        database, connection, "change_operation", id=id, state=state, from_states=from_states
    )
    if not changed:
        found = await read_operation(database, connection, id)
        raise InvalidSetting(
            f"operation {id} is {found.state}: only one that is {' or '.join(from_states)} "
            f"can become {state}"
        )


def _operation(row: Any) -> Operation:
    values = dict(row)
    return Operation(order=decoded(values.pop("filter")), **values)


# -- running


def operation_queue(
    database: Database, kinds: Mapping[str, OperationKind], pool: str
) -> QueueSettings:
    """The queue whose visits are the steps of the operations that a pool has."""
    turn = asyncio.Semaphore(1)  # one operation at a time needs one connection

    async def handle(run: Run) -> Outcome:
        async with turn:
            connection = await database.connect("operation")
            try:
                return await _steps(database, connection, kinds, run)
            finally:
                await connection.close(timeout=5)

    retry = RetryPolicy(attempts=10 * ATTEMPTS, first=0.5, most=60)
    name = own_queue(QUEUE, pool)
    return QueueSettings(
        name=name, handler=handle, pool=pool, kind="operation", retry=retry, beside=True
    )


async def _steps(
    database: Database, connection: Any, kinds: Mapping[str, OperationKind], run: Run
) -> Outcome:
    """Step after step for a while: between two of them nothing is read and nobody waited for."""
    if run.visit.attempt >= ATTEMPTS:
        return Done(writer=_failing(database, run))
    until = clock.local() + RUN_SECONDS
    found: Operation | None = None  # as the step before left it
    outcome: Outcome | None = None
    stepped = False
    while outcome is None:
        began = clock.local()
        try:
            if found is None:
                found = await read_operation(database, connection, int(run.visit.key))
            found, outcome = await _step(database, connection, kinds, found)
            stepped = True
        except Exception as error:
            # A conflict is nobody's failure, and what was done before an error is progress.
            passes = is_transient(error)
            if not stepped and not passes:
                raise
            if not passes or connection.is_closed():
                return Again()
            found = None
            await asyncio.sleep(CONFLICT_SECONDS)
        why = None
        if isinstance(outcome, Again) and 0 < outcome.after <= SHORT_SECONDS:
            await asyncio.sleep(outcome.after)
            why, outcome = outcome.error, None
        if outcome is None:
            now = clock.local()
            if now > until:
                return Again(error=why)  # what it waits for is shown with its visit
            await asyncio.sleep(STEP_RESTS * (now - began))
    return outcome


async def _step(
    database: Database, connection: Any, kinds: Mapping[str, OperationKind], found: Operation
) -> tuple[Operation | None, Outcome | None]:
    """A page: what is done with it and where the next one begins are one transaction.

    Answers the operation as it stands then (None: it must be read), and no outcome when the next step
    may follow at once. Two workers that have the same operation for a moment do no harm: of two steps
    the one that comes second does nothing.
    """
    if found.state != "running":
        return found, Done()
    kind = kinds.get(found.kind)
    if kind is None:
        raise NotFound(f"no kind of operation is named {found.kind!r}{nearest(found.kind, kinds)}")
    order: Any = msgspec.convert(found.order, kind.order)
    if hasattr(order, "operation"):
        order = replace(order, operation=found.id)  # one that leaves notes names itself in them
    page = await kind.page(database, connection, order, found.position, PAGE)
    last = page.position is None
    left: Operation | None = found
    if page.items or last:
        async with database.transaction(connection):
            left = await _write(database, connection, kind, found, order, page)
            crash_points.passed("operation.stepping")
        crash_points.passed("operation.stepped")
        if left is None:
            return None, None  # paused or cancelled meanwhile, or another worker went first
    if last:
        return left, Done()
    waits = page.wait or not page.items
    return left, Again(after=page.wait, error=page.why) if waits else None


async def _write(
    database: Database,
    tx: Any,
    kind: OperationKind,
    found: Operation,
    order: Any,
    page: OperationPage,
) -> Operation | None:
    """Do a page if the operation stands as it was read; answers how it stands then."""
    at = found.done + found.failed
    last = page.position is None
    values = {"id": found.id, "at": at, "position": found.position, "last": last}
    if not await ask(database, tx, "lock_operation", **values):
        return None
    results = await kind.apply(database, tx, order, page.items)
    noted = [] if kind.counted else results
    rows = await ask(
        database,
        tx,
        "step_operation",
        id=found.id,
        at=at,
        last=last,
        position=page.position,
        counted=len(results) - len(noted),
        count=len(noted),
        queues=texts([r.queue for r in noted]),
        keys=texts([r.key for r in noted]),
        errors=texts([r.error for r in noted]),
    )
    done, failed = rows[0]["done"], rows[0]["failed"]
    return replace(found, done=done, failed=failed, position=page.position)


def _failing(database: Database, run: Run) -> Alone:
    visit = run.visit

    async def write(tx: Any) -> None:
        await ask(
            database,
            tx,
            "fail_operation",
            id=int(visit.key),
            shard=visit.shard,
            key=visit.key,
            queue=visit.queue,
        )

    return Alone(write)
