"""What a running task can know and do.

A task that has a parameter annotated `Context` gets one. `ctx.transaction()` commits the task's own
SQL and its completion together: exactly-once effect in the same database.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any
from uuid import UUID

import psycopg

from mainspring.errors import DatabaseUnavailable, Fenced, MainspringError
from mainspring.kernel import moment, steps
from mainspring.kernel.outcome import Done
from mainspring.kernel.settler import in_order, settle_arguments
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run
from mainspring.tasks.connections import Connections

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
        self, run: Run, encode: Any, connections: Connections, timeout: float | None
    ) -> None:
        self._run = run
        self._encode = encode
        self._connections = connections
        self._timeout = timeout
        self._result: Any = None

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
    def deadline(self) -> datetime | None:
        """When this run will be stopped, by the database's clock; None without a timeout."""
        if self._timeout is None:
            return None
        return datetime.fromtimestamp(self._run.started, UTC) + timedelta(seconds=self._timeout)

    @property
    def stopped(self) -> bool:
        """Whether the run no longer counts: a plain function that loops should look at it."""
        return self._run.stopped is not None

    def set_result(self, result: Any) -> None:
        """The result that `transaction()` commits; what the function returns later is too late."""
        self._result = result

    def transaction(self) -> Transaction:
        """A transaction of the task's own that completes the task when it commits.

        Use it with `async with` in async functions and with `with` in plain ones; it gives a psycopg
        connection. When the run was fenced everything is rolled back and `Fenced` is raised.
        """
        if self._run.settled:
            raise MainspringError(f"task {self.task!r} was already completed by a transaction")
        return Transaction(self._run, self._connections, self)

    def _settle_arguments(self) -> dict[str, Any]:
        run = self._run
        run.outcome = Done(result=self._encode(self._result))
        run.seconds = moment.local() - run.began
        values = settle_arguments([run], self._connections.worker_id())
        return dict(zip(SQL["settle"].names, values, strict=True))


class Transaction:
    """See Context.transaction."""

    def __init__(self, run: Run, connections: Connections, context: Context) -> None:
        self._run = run
        self._connections = connections
        self._context = context
        self._connection: Any = None

    # -- async

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        self._connection = await self._connections.take()
        return self._connection  # type: ignore[no-any-return]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection, run = self._connection, self._run
        try:
            if error is not None:
                await connection.rollback()
                return
            settle = await connection.execute(SQL["settle"].text, self._context._settle_arguments())
            rows = await settle.fetchall()
            steps.reach("transaction.settled")
            if _answer(rows) != "settled":
                await connection.rollback()
                raise self._fenced()
            await self._commit(connection)
            run.settled = True
            steps.reach("transaction.committed")
        finally:
            if not run.settled:
                run.outcome = None
            await asyncio.shield(self._connections.give_back(connection))

    async def _commit(self, connection: Any) -> None:
        try:
            await connection.commit()
        except psycopg.OperationalError as lost:
            if not await asyncio.to_thread(self._connections.did_commit, self._run):
                raise DatabaseUnavailable(
                    "the connection was lost at commit, and the transaction was rolled back"
                ) from lost

    # -- sync

    def __enter__(self) -> psycopg.Connection[Any]:
        self._connection = self._connections.take_sync()
        return self._connection  # type: ignore[no-any-return]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection, run = self._connection, self._run
        try:
            if error is not None:
                connection.rollback()
                return
            settle = connection.execute(SQL["settle"].text, self._context._settle_arguments())
            rows = settle.fetchall()
            steps.reach("transaction.settled")
            if _answer(rows) != "settled":
                connection.rollback()
                raise self._fenced()
            try:
                connection.commit()
            except psycopg.OperationalError as lost:
                if not self._connections.did_commit(run):
                    raise DatabaseUnavailable(
                        "the connection was lost at commit, and the transaction was rolled back"
                    ) from lost
            run.settled = True
            steps.reach("transaction.committed")
        finally:
            if not run.settled:
                run.outcome = None
            self._connections.give_back_sync(connection)

    def _fenced(self) -> Fenced:
        visit = self._run.visit
        return Fenced(
            f"this run of {visit.queue!r} {visit.key!r} no longer counts: the task was settled, taken "
            "over or deleted meanwhile; its transaction was rolled back"
        )


def _answer(rows: Any) -> str:
    return in_order(rows, 1)[0]
