"""What has a database: an address or a private server, looked at once, and connections to it.

An application is one that declares things; a command that is given only an address needs no more than
this, so what only applications and workers need is not imported here.
"""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from mainspring.db.connect.address import check_url
from mainspring.db.database import Database, probe
from mainspring.db.idle import IDLE_SECONDS
from mainspring.db.pool import AsyncPool, Pools, SyncPool
from mainspring.db.schema import migrate
from mainspring.errors import EmbeddedServerError, InvalidSetting
from mainspring.loops import run_apart

if TYPE_CHECKING:
    from mainspring.embedded.server import EmbeddedServer
    from mainspring.operator import Operator
    from mainspring.reactive.operate.operator import ReactiveOperator
    from mainspring.tasks.declare.sealing import Sealing


class DatabaseHost:
    """A database and connections to it; who asks and orders does so through `operator` and `reactive`.

    Without an address it is that of `MAINSPRING_URL`, and without that a private PostgreSQL in `directory`.
    """

    # For so long connections of plain code are kept for the next caller (seconds).
    plain_idle_for: ClassVar[float] = IDLE_SECONDS
    sealing: Sealing | None = None  # of an application with a cipher

    def __init__(self, url: str | None = None, *, directory: str | Path = ".mainspring") -> None:
        self._url = url if url is not None else os.environ.get("MAINSPRING_URL")
        if self._url is not None:
            check_url(self._url)
        self.directory = Path(directory)
        self._server: EmbeddedServer | None = None
        self._database: Database | None = None
        self.pools = Pools(self, plain_idle_for=self.plain_idle_for)
        _hosts.add(self)

    @property
    def is_placed(self) -> bool:
        """Whether a database is named, or a private one has been made."""
        return self._url is not None or (self.directory / "data" / "PG_VERSION").is_file()

    def redirect(self, url: str) -> None:
        """Use this database whatever was declared; before the first use."""
        self._url = check_url(url)

    @contextmanager
    def redirected(self, url: str) -> Iterator[Self]:
        """The same for as long as the block lasts; whoever used it closes it before the end."""
        if self._database is not None:
            raise InvalidSetting(
                f"the application is in use, on {self._database.shown}: close it before it is put on "
                "another database (await app.close(), or app.close_sync())"
            )
        before, self._url = self._url, check_url(url)
        try:
            yield self
        finally:
            self._url, self._database = before, None

    async def database(self) -> Database:
        """The database, looked at once: reachable, new enough, with our schema in it."""
        if self._database is None:
            self._database = await self._look(await asyncio.to_thread(self._address))
        return self._database

    def database_sync(self) -> Database:
        """The same for code that is not async."""
        if self._database is None:
            self._database = run_apart(self._look(self._address()))
        return self._database

    def _address(self) -> str:
        """The URL; starts the private server if there is none."""
        if self._url is not None:
            return self._url
        if self._server is None:
            if sys.platform == "win32":
                raise EmbeddedServerError(
                    "the private PostgreSQL is not there for Windows: name a server of yours by "
                    "MAINSPRING_URL, or by Mainspring(url)"
                )
            from mainspring.embedded.shared import shared

            self._server = shared(self.directory)
            self._server.create_database("mainspring")
        return self._server.url("mainspring")

    async def _look(self, url: str) -> Database:
        database = await probe(url)
        if self._server is not None:
            from mainspring.embedded.shared import leave_on_sigterm

            leave_on_sigterm()
            await asyncio.to_thread(migrate.migrate, database)
        connection = await database.connect("probe", client=True)
        try:
            number, shard_count, enqueues = await migrate.read_schema(connection)
        finally:
            await connection.close()
        migrate.check_schema(number)
        return Database(
            url,
            pooled=database.pooled,
            on_windows=database.on_windows,
            shard_count=shard_count,
            private_in="" if self._server is None else str(self.directory.absolute()),
            private_owner=None if self._server is None else self._server.data.stat().st_uid,
            enqueues=enqueues,
        )

    async def __aenter__(self) -> Self:
        await self.database()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop and of plain code; a private server is let go."""
        await self.pools.close()
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        """The same for code that is not async."""
        self.pools.close_plain()
        self._database = None
        if self._server is not None:
            from mainspring.embedded.shared import release

            release(self._server)
            self._server = None

    async def pool(self) -> AsyncPool:
        """The application's connections for the running event loop."""
        return await self.pools.here()

    def sync_pool(self) -> SyncPool:
        """The application's connections for plain code."""
        return self.pools.plain()

    def _forked(self) -> None:
        """In the child of a fork: connect anew, and use a private server in one's own name."""
        self.pools.abandon()
        self._server = None
        if self._url is None:
            self._database = None

    def names_of(self, queue: str) -> list[str]:
        """The names that a queue has and had, as far as it is known here."""
        return [queue]

    @property
    def operator(self) -> Operator:
        """Questions and orders of an operator: parked tasks, history, queues, status, doctor."""
        from mainspring.operator import Operator

        return Operator(self)

    async def metrics(self) -> str:
        """The state of queues, pools, reactive tasks and recovery as OpenMetrics text."""
        from mainspring.metrics import render
        from mainspring.reactive.operate.operator import MOST

        return render(
            await self.operator.status(),
            await self.reactive.load(),
            await self.reactive.tasks(missed_only=True, limit=MOST),
            await self.operator.processes.counters(),
            await self.operator.entities.outbox(),
            await self.operator.sources.partitions(),
            await self.operator.token_ends(),
        )

    @property
    def reactive(self) -> ReactiveOperator:
        """Questions and orders about params and reactive tasks."""
        from mainspring.reactive.operate.operator import ReactiveOperator

        return ReactiveOperator(self)


_hosts: weakref.WeakSet[DatabaseHost] = weakref.WeakSet()


def _forked() -> None:
    for host in list(_hosts):
        host._forked()


if hasattr(os, "register_at_fork"):  # on Windows nothing forks
    os.register_at_fork(after_in_child=_forked)
