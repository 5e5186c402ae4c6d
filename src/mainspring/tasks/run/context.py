"""What a running task can know and do.

A task that has a parameter annotated `Context` gets one. `ctx.transaction()` commits the task's own
SQL and its completion together: exactly-once effect in the same database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from types import TracebackType
from uuid import UUID

import msgspec
import psycopg

from mainspring import clock, crash_points
from mainspring.db.caller import AsyncCaller, SyncCaller, Verb, caller_tx, caller_tx_sync
from mainspring.db.sql import Steps
from mainspring.db.tx import AsyncConnection, PsycopgTx, SyncConnection, SyncTx
from mainspring.errors import Fenced, MainspringError, MissingRights, NotDone
from mainspring.kernel import (
    KERNEL_SQL,
    Done,
    Run,
    StopFlag,
    in_order,
    settle_arguments,
    told_to_end,
)
from mainspring.tasks.run.connections import Connections, unsettled_values

log = logging.getLogger("mainspring")


class Context:
    """The run of a task, seen from inside.

    Example:

        @app.task
        async def pay(ctx: Context, order: int) -> None:
            async with ctx.transaction() as connection:
                await connection.execute("update orders set paid = true where id = %s", (order,))
    """

    def __init__(
        self,
        run: Run,
        encode: Callable[[object], str | None],
        connections: Connections,
        timeout: float | None,
        note: Callable[[str], str] | None = None,
    ) -> None:
        """`note`: what its notes go through."""
        self._run = run
        self._note = note
        self._encode = encode
        self._connections = connections
        self._timeout = timeout
        self._result: object = None

    def __repr__(self) -> str:
        return f"<Context of {self.task} {self.id}, attempt {self.attempt}>"

    @property
    def task(self) -> str:
        """The task's name."""
        return self._run.visit.queue

    @property
    def id(self) -> UUID:
        """The call's id."""
        return self._run.visit.id

    @property
    def idempotency_key(self) -> str:
        """The same over retries, recovery and restarts: hand it to systems that drop repeats."""
        return str(self._run.visit.id)

    @property
    def key(self) -> str:
        """The visit's key: the id, or the uniqueness key."""
        return self._run.visit.key

    @property
    def group(self) -> str | None:
        """The group the call was enqueued in."""
        return self._run.visit.group

    @property
    def attempt(self) -> int:
        """1 for the first run, 2 for the first retry..."""
        return self._run.visit.attempt + 1

    @property
    def worker_id(self) -> UUID | None:
        """The worker that runs it."""
        return self._connections.worker.worker_id

    @property
    def deadline(self) -> datetime | None:
        """When this run will be stopped, by the database's clock; None without a timeout."""
        if self._timeout is None:
            return None
        return datetime.fromtimestamp(self._run.started, UTC) + timedelta(seconds=self._timeout)

    @property
    def cancelled(self) -> StopFlag:
        """Whether the run is told to end: it was cancelled, its time is over, its worker stops.

        An async function sees `asyncio.CancelledError` then. For a plain one this is an event: true or
        false, with `is_set()` and `wait(seconds)`. One that has asked is given its `grace` to clean up and
        return; one that never asked is interrupted at its next line of Python.
        """
        return self._run.listen()

    @property
    def stopped(self) -> bool:
        """Whether the run no longer counts: a plain function that loops should look at it."""
        return self._run.stopped is not None

    @property
    def process(self) -> str:
        """The id of the process of which this run is a step; an error in a plain call."""
        raise MainspringError(
            f"task {self.task!r} runs as a plain call, not as a step of a process"
        )

    def beat(self) -> None:
        """Say that the run goes on: from now on it has its whole work timeout again.

        For the steps of processes; a plain call is kept by its worker's lease and needs none. Cheap,
        and for plain functions as well: call it as often as you like.
        """

    def progress(self, done: float, note: str | None = None) -> None:
        """Say how far the run is: a part of the whole, 0 to 1, and what that is.

        Cheap, and for plain functions as well: what is said is written a few times a second, for all runs
        of a worker at once. `handle.progress()` and `mainspring tasks watch` follow it.
        """
        if note is not None and self._note is not None:
            note = self._note(note)
        self._connections.progress.say(self._run, done, note)

    def tell_notes_through(self, note: Callable[[str], str]) -> None:
        """What its notes go through from now on."""
        self._note = note

    def set_result(self, result: object) -> None:
        """The result that `transaction()` commits; what the function returns later is too late.

        Without a transaction it is the result of a function that returns nothing.
        """
        self._result = result

    def transaction(self) -> Transaction:
        """A transaction of the task's own that completes the task when it commits.

        Use it with `async with` in async functions and with `with` in plain ones; it gives a psycopg
        connection, on which `connection.transaction()` makes savepoints. When the run was fenced
        everything is rolled back and `Fenced` is raised.
        """
        if self._run.settled:
            raise MainspringError(
                f"task {self.task!r} was already completed by its first transaction: put all its SQL in "
                "that block"
            )
        return Transaction(self._run, self._connections, self)

    async def complete(self, result: object = None, *, on: AsyncCaller) -> None:
        """Complete the task in your own transaction: psycopg's, asyncpg's or SQLAlchemy's.

            async with session.begin():
                order.paid = True
                await ctx.complete(on=session)

        Its SQL and the completion are one commit. If it is rolled back, the task ends as if this had not
        been called. It locks the task's row: call it last. What the function returns later does not count.
        """
        completion = self.completion(result)
        verb = Verb("complete", "complete_sync")
        async with caller_tx(on, self._connections.pool(), verb) as tx:
            with completion.explained():
                await tx.follow(completion.steps())

    def complete_sync(self, result: object = None, *, on: SyncCaller) -> None:
        """The same for code that is not async; of Django's too: `on="default"`, inside of `atomic`."""
        completion = self.completion(result)
        verb = Verb("complete_sync", "complete")
        with caller_tx_sync(on, self._connections.sync_pool(), verb) as tx, completion.explained():
            tx.follow(completion.steps())

    def completion(self, result: object) -> Transaction:
        """What completes it in a transaction of the caller's. The worker settles it too, when the function
        has ended: that changes nothing, unless the caller's transaction was rolled back."""
        completion = self.transaction()
        self._result = result
        return completion

    def _settle_arguments(self) -> dict[str, object]:
        run = msgspec.structs.replace(
            self._run,
            outcome=told_to_end(self._run, Done(result=self._encode(self._result))),
            seconds=clock.local() - self._run.began,
        )
        values = settle_arguments([run], self._connections.worker.worker_id)
        return dict(zip(KERNEL_SQL["settle"].names, values, strict=True))


def concluded(context: Context | None, returned: object) -> object:
    """What a run came to: what its function returned, or else what `set_result` was given.

    What is returned after the transaction that completed the run is lost, and that is said.
    """
    if context is None:
        return returned
    if not context._run.settled:
        return context._result if returned is None else returned
    if returned is not None and context._result is None:
        text = (
            "what a task returns after its transaction is not kept: the task was completed without a "
            "result; call ctx.set_result(...) inside the block"
        )
        log.warning(
            "task.result_lost", extra={"queue": context.task, "key": context.key, "text": text}
        )
    return None


class Transaction:
    """See Context.transaction."""

    def __init__(self, run: Run, connections: Connections, context: Context) -> None:
        self._run = run
        self._connections = connections
        self._context = context
        self._block: AbstractAsyncContextManager[AsyncConnection]
        self._block_sync: AbstractContextManager[SyncConnection]

    # -- async

    async def __aenter__(self) -> AsyncConnection:
        self._block = self._opened()
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._block.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[AsyncConnection]:
        settled = False
        try:
            # A block that the task itself rolls back (psycopg.Rollback) ends without error, unsettled.
            async with self._connections.transaction(
                lambda: self._committed() if settled else None
            ) as connection:
                yield connection
                with self.explained():
                    await PsycopgTx(connection).follow(self.steps())
                settled = True
        except psycopg.OperationalError as lost:
            if not settled:
                raise
            self._check_commit(
                await asyncio.to_thread(self._connections.did_commit, self._run), lost
            )
            self._committed()

    # -- sync

    def __enter__(self) -> SyncConnection:
        self._block_sync = self._opened_sync()
        return self._block_sync.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._block_sync.__exit__(kind, error, trace)

    @contextmanager
    def _opened_sync(self) -> Iterator[SyncConnection]:
        settled = False
        try:
            with self._connections.transaction_sync(
                lambda: self._committed() if settled else None
            ) as connection:
                yield connection
                with self.explained():
                    SyncTx(connection).follow(self.steps())
                settled = True
        except psycopg.OperationalError as lost:
            if not settled:
                raise
            self._check_commit(self._connections.did_commit(self._run), lost)
            self._committed()

    # -- both

    def steps(self) -> Steps[None]:
        """The settle is the last statement: if it is refused, the block is rolled back. A layer above
        writes more before it.

        The heart, or a give of shards, may hold the run between the snapshot of the settle and its
        write. Then the settle is sent again, with the row locked: nothing can come between once more.
        """
        settle = KERNEL_SQL["settle"], self._context._settle_arguments()
        answers = in_order((yield settle), 1)
        if answers == ["changed"]:
            yield KERNEL_SQL["lock_unsettled"], unsettled_values(self._run)
            answers = in_order((yield settle), 1)
        crash_points.passed("transaction.settled")
        if answers != ["settled"]:
            raise self._fenced()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """What the block made of its own transaction may be in the way of the settle."""
        visit = self._run.visit
        try:
            yield
        except psycopg.errors.SerializationFailure as error:
            # No statement there sees what was committed since the first one.
            raise MainspringError(
                f"the transaction of {visit.queue!r} {visit.key!r} could not complete its task at "
                "REPEATABLE READ or SERIALIZABLE: what it read, or the task's own row (a run that "
                "lasts is marked there), was changed since it began; it was rolled back; use READ "
                "COMMITTED, the default, and lock what must not change, or keep the block short"
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise MissingRights(
                f"the transaction of {visit.queue!r} {visit.key!r} may not complete its task: "
                f"{error.diag.message_primary}; it was rolled back; where it takes another role, "
                "write `reset role` at the end of the block (docs/operate/rights.md)"
            ) from error

    def _check_commit(self, did_commit: bool, lost: psycopg.OperationalError) -> None:
        if not did_commit:
            raise NotDone(
                "the connection was lost at commit, and the transaction was rolled back"
            ) from lost

    def _committed(self) -> None:
        # At once: a run whose visit is gone and that is not settled looks like one that was called off.
        self._run.settle()
        crash_points.passed("transaction.committed")

    def _fenced(self) -> Fenced:
        visit = self._run.visit
        return Fenced(
            f"this run of {visit.queue!r} {visit.key!r} no longer counts: the task was settled, taken "
            "over or deleted meanwhile; its transaction was rolled back"
        )
