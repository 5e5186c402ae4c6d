"""Operations: an operator's bulk jobs, with items, progress, pause, resume and cancel.

An operation is a row and a visit of the queue `mainspring.operation`, which in another pool than the
default one is `mainspring.operation@pool`: any pool's workers may do it. A run of the visit does page
after page: it reads which items come next, then changes them, notes them and moves the position in
one transaction. So progress and effect are committed together, and a crash at any moment repeats
nothing and leaves nothing out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mainspring import clock, crash_points
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection, Database
from mainspring.db.shared import SharedLine
from mainspring.db.sql import decoded, texts
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs.statements import SQL
from mainspring.kernel import (
    DEFAULT_POOL,
    KERNEL_SQL,
    Again,
    Alone,
    Done,
    Offer,
    Outcome,
    QueueSettings,
    Run,
    offer_visits,
    own_queue,
    read_now,
)
from mainspring.operate import ParkedPlace, record_order, restart_parked
from mainspring.operation_kind import OperationKind, OperationPage
from mainspring.phrases import nearest
from mainspring.retry_policy import RetryPolicy

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


class LockedOperation(NamedTuple):
    """An operation whose step is locked; `flush`: how its commit is written, where that was changed."""

    id: int
    flush: str | None


class StepCounts(NamedTuple):
    """How many items an operation has done, and failed to do."""

    done: int
    failed: int


# -- orders


async def start_operation(
    database: Database,
    tx: Tx,
    kind: OperationKind,
    order: object,
    *,
    source: str,
    dry_run: bool,
) -> Operation:
    """Begin an operation, in the caller's transaction; a dry run only counts."""
    now = await read_now(tx)
    order = kind.freeze(order, now)
    total = await kind.count(database, tx, order)
    if dry_run:
        return Operation(
            None, kind.name, source, order, "dry run", total, 0, 0, None, None, now, now, None
        )
    begun = await tx.one(
        SQL["start_operation"],
        Operation,
        kind=kind.name,
        source=source,
        filter=msgspec.json.encode(order).decode(),
        total=total,
    )
    await _offer(tx, begun.id)
    await record_order(
        tx,
        f"operations.{kind.name}",
        str(begun.id),
        result=f"begun over about {total}",
        operation=begun.id,
        source=source,
    )
    return _decoded(begun)


async def list_operations(
    database: Database,
    tx: Tx,
    *,
    state: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Operation]:
    """Operations, newest first; the next page begins before the last id."""
    if state is not None and state not in STATES:
        raise InvalidSetting(f"state must be one of {', '.join(STATES)}, got {state!r}")
    most = check_page(limit)
    found = await tx.rows(
        SQL["list_operations"], Operation, id=None, state=state, before=before, most=most
    )
    return [_decoded(operation) for operation in found]


async def read_operation(database: Database, tx: Tx, id: int) -> Operation:
    """One operation, as it stands."""
    found = await tx.first(
        SQL["list_operations"], Operation, id=id, state=None, before=None, most=1
    )
    if found is None:
        raise NotFound(f"there is no operation {id}; mainspring operations list shows them")
    return _decoded(found)


async def list_items(
    database: Database,
    tx: Tx,
    id: int,
    *,
    after: int = 0,
    failed_only: bool = False,
    limit: int = 100,
) -> list[OperationItem]:
    """What an operation has done so far, in order."""
    most = check_page(limit)
    return await tx.rows(
        SQL["list_items"], OperationItem, id=id, after=after, failed_only=failed_only, most=most
    )


async def pause(database: Database, tx: Tx, id: int) -> None:
    """Stop after the step that is under way."""
    await _change(database, tx, id, "paused", ("running",))


async def resume(database: Database, tx: Tx, id: int) -> None:
    """Go on where it stopped, in the caller's transaction: paused, failed, or its step parked."""
    if (await read_operation(database, tx, id)).state != "parked":
        await _change(database, tx, id, "running", ("paused", "failed"))
    await _free_step(database, tx, id)
    await _offer(tx, id)


async def cancel(database: Database, tx: Tx, id: int) -> None:
    """End it, in the caller's transaction; what was done stays done."""
    await _change(database, tx, id, "cancelled", ("running", "paused"))
    await _free_step(database, tx, id)  # it sees that there is nothing to do, and ends


async def _free_step(database: Database, tx: Tx, id: int) -> None:
    """A step that was parked (it killed its workers, say) may run again."""
    places = await tx.rows(SQL["list_steps"], ParkedPlace, key=str(id))
    await restart_parked(database, tx, places)


async def _offer(tx: Tx, id: int | None) -> None:
    """Have the next step done where there are workers.

    A step that another pool still has does no harm: of two the one that comes second does nothing.
    """
    pool = await tx.first(SQL["pick_pool"], str)
    queue = own_queue(QUEUE, pool or DEFAULT_POOL)
    await tx.run(KERNEL_SQL["offer_operation"], id=id, queue=queue)


async def adopt(database: Database, tx: Tx, pool: str) -> None:
    """Take on the operations of pools that nobody serves any more, in the caller's transaction."""
    queue = own_queue(QUEUE, pool)
    keys = await tx.rows(KERNEL_SQL["adopt_operations"], str, queue=queue)
    if keys:
        await offer_visits(database, tx, [Offer(queue, key) for key in keys])


async def _change(
    database: Database, tx: Tx, id: int, state: str, from_states: Sequence[str]
) -> None:
    changed = await tx.first(
        SQL["change_operation"], int, id=id, state=state, from_states=from_states
    )
    if changed is None:
        found = await read_operation(database, tx, id)
        raise InvalidSetting(
            f"operation {id} is {found.state}: only one that is {' or '.join(from_states)} "
            f"can become {state}"
        )


def _decoded(found: Operation) -> Operation:
    """An operation whose order is read as JSON."""
    return replace(found, order=decoded(found.order))


# -- running


def operation_queue(
    database: Database, line: SharedLine, kinds: Mapping[str, OperationKind], pool: str
) -> QueueSettings:
    """The queue whose visits are the steps of the operations that a pool has."""
    turn = asyncio.Semaphore(1)  # one operation at a time

    async def handle(run: Run) -> Outcome:
        async with turn:
            return await _steps(database, line, kinds, run)

    retry = RetryPolicy(attempts=10 * ATTEMPTS, first=0.5, most=60)
    name = own_queue(QUEUE, pool)
    return QueueSettings(
        name=name, handler=handle, pool=pool, kind="operation", retry=retry, beside=True
    )


async def _steps(
    database: Database, line: SharedLine, kinds: Mapping[str, OperationKind], run: Run
) -> Outcome:
    """Step after step for a while: between two of them nothing is read and nobody waited for."""
    if run.visit.attempt >= ATTEMPTS:
        return Done(writer=_failing(run))
    until = clock.local() + RUN_SECONDS
    found: Operation | None = None  # as the step before left it
    outcome: Outcome | None = None
    stepped = False
    while outcome is None:
        began = clock.local()
        try:
            async with line.use() as connection:
                if found is None:
                    found = await read_operation(database, connection, int(run.visit.key))
                found, outcome = await _step(database, connection, kinds, found)
            stepped = True
        except Exception as error:
            # A conflict is nobody's failure, and what was done before an error is progress.
            passes = is_transient(error)
            if not stepped and not passes:
                raise
            if not passes:
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
    database: Database, connection: Connection, kinds: Mapping[str, OperationKind], found: Operation
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
        async with connection.atomic():
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
    tx: Tx,
    kind: OperationKind,
    found: Operation,
    order: object,
    page: OperationPage,
) -> Operation | None:
    """Do a page if the operation stands as it was read; answers how it stands then."""
    at = found.done + found.failed
    last = page.position is None
    values = {"id": found.id, "at": at, "position": found.position, "last": last}
    if await tx.first(SQL["lock_operation"], LockedOperation, **values) is None:
        return None
    results = await kind.apply(database, tx, order, page.items)
    noted = [] if kind.counted else results
    counts = await tx.one(
        SQL["step_operation"],
        StepCounts,
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
    return replace(found, done=counts.done, failed=counts.failed, position=page.position)


def _failing(run: Run) -> Alone:
    visit = run.visit

    async def write(connection: Connection) -> None:
        await connection.run(
            SQL["fail_operation"],
            id=int(visit.key),
            shard=visit.shard,
            key=visit.key,
            queue=visit.queue,
        )

    return Alone(write)
