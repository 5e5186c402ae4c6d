"""How the engine reaches PostgreSQL.

A `Database` opens connections of the engine's own: asyncpg for the loops, psycopg for the heart's
thread and for what users touch. Each sets its own `synchronous_commit`, timeouts and isolation, so
that no default of the server or the role can weaken a promise. Of an address of several hosts each is
tried for itself (`hosts.py`), by either driver alike. Behind a transaction pooler
(PgBouncer) nothing belongs to a session: no startup settings, no named prepared statements, no
LISTEN; then each transaction sets what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import asyncpg
import psycopg

from mainspring.db.connect import keepalive
from mainspring.db.connect.address import (
    LEAST_SECONDS,
    asyncpg_url,
    check_url,
    knock,
    psycopg_arguments,
    shown,
)
from mainspring.db.connect.options import options_of
from mainspring.db.connect.settings import CLIENT, ENGINE, ENGINE_LOCAL, LINE
from mainspring.db.connect.tries import Tries
from mainspring.db.home import Home
from mainspring.db.tx import AsyncConnection, SyncConnection
from mainspring.db.tx import Connection as Connection
from mainspring.errors import UnsupportedServer

OLDEST_SERVER = 150000
COMMAND_SECONDS = (
    70.0  # above every statement_timeout: the server speaks first, and says what it was
)


@dataclass(frozen=True, slots=True)
class Database:
    """An address, and what is known of the server behind it."""

    url: str = field(repr=False)  # it may hold a password
    pooled: bool = False
    shard_count: int = 1024
    settings: Mapping[str, str] = field(default_factory=dict)
    private_in: str = ""  # the directory of the private server that it is on
    private_owner: int | None = None  # the user that it runs as
    on_windows: bool = False  # the server is
    # How the role enqueues: it reads and writes visits ("all"), inserts new ones ("fresh"), or neither.
    enqueues: str = "all"
    home: Home = field(
        default_factory=Home, repr=False, compare=False
    )  # who leads here, of callers

    @property
    def shown(self) -> str:
        """What people are told of it; never a password."""
        return f"private database in {self.private_in}" if self.private_in else shown(self.url)

    def _startup(self, base: Mapping[str, str], role: str) -> dict[str, str]:
        own = dict(options_of(self.url))
        if self.pooled:
            return own  # it refuses what it does not know, and says so
        line = keepalive.SERVER if self.on_windows else LINE
        name = f"mainspring:{role}:{os.getpid()}"
        return {**own, **base, **line, **self.settings, "application_name": name}

    async def connect(
        self,
        role: str,
        *,
        client: bool = False,
        settings: Mapping[str, str] | None = None,
        command_timeout: float | None = COMMAND_SECONDS,
        timeout: float | None = None,
    ) -> Connection:
        """Open an asyncpg connection of the engine's (or, for enqueueing, a client's).

        Without a `command_timeout` the caller sees to it that nobody waits for ever. `timeout`: seconds
        for each host, if not those of the address.
        """
        startup = self._startup(CLIENT if client else ENGINE, role)
        if settings is not None and not self.pooled:
            startup |= settings
        tries = Tries(self.url, timeout, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                connection: Connection = await asyncpg.connect(
                    asyncpg_url(host.url),
                    connection_class=Connection,
                    server_settings=startup,
                    statement_cache_size=0 if self.pooled else 200,
                    max_cached_statement_lifetime=0,
                    timeout=seconds,
                    command_timeout=command_timeout,
                )
                break
        connection.belong_to(self)
        keepalive.keep_alive(connection._transport.get_extra_info("socket"))
        if self.pooled:
            # To look up types asyncpg turns jit off for the session, which here is others' too.
            connection._server_caps = connection._server_caps._replace(jit=False)
        return connection

    def connect_sync(
        self, role: str, *, client: bool = False, timeout: float | None = None
    ) -> SyncConnection:
        """Open a psycopg connection in autocommit."""
        startup = self._startup(CLIENT if client else ENGINE, role)
        tries = Tries(self.url, timeout, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                if seconds < LEAST_SECONDS:
                    knock(host.url, seconds)
                connection = psycopg.connect(
                    autocommit=True,
                    prepare_threshold=None if self.pooled else 2,
                    **psycopg_arguments(host.url, seconds, startup),
                )
                break
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # said at each BEGIN
        return connection

    async def connect_task(self) -> AsyncConnection:
        """Open a psycopg connection that a task's own SQL runs on, in autocommit."""
        startup = self._startup(CLIENT, "task")
        tries = Tries(self.url, None, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                connection = await psycopg.AsyncConnection.connect(
                    autocommit=True,
                    prepare_threshold=None if self.pooled else 5,
                    **psycopg_arguments(host.url, seconds, startup),
                )
                break
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection

    def connect_task_sync(self) -> SyncConnection:
        """The same for plain functions."""
        connection = self.connect_sync("task", client=True)
        connection.prepare_threshold = None if self.pooled else 5
        return connection

    def transaction(self, connection: Connection) -> AbstractAsyncContextManager[None]:
        """A READ COMMITTED transaction with the engine's settings in force."""
        return connection.atomic()

    @contextmanager
    def transaction_sync(self, connection: SyncConnection) -> Iterator[SyncConnection]:
        """The same for psycopg."""
        with connection.transaction():
            if self.pooled:
                connection.execute(ENGINE_LOCAL)
            yield connection


class ServerFacts(NamedTuple):
    pid: int
    name: str
    version: int
    encoding: str
    on_windows: bool


async def probe(url: str, settings: Mapping[str, str] | None = None) -> Database:
    """Look at the server once: its version, its encoding, and whether a pooler stands before it.

    A pooler shows itself by the process id of its greeting, which is not the backend's.
    """
    check_url(url)
    plain = Database(url, pooled=True, settings=settings or {})
    connection = await plain.connect("probe")
    try:
        # In a transaction: a pooler may give every step of asyncpg's protocol another backend.
        async with connection.transaction():
            row = await connection.fetchrow(
                "select pg_backend_pid() as pid, current_setting('server_version') as name,"
                " current_setting('server_version_num')::int as version,"
                " current_setting('server_encoding') as encoding,"
                " version() ~* 'windows|mingw|visual c|msvc' as on_windows"
            )
        server = ServerFacts(*row)
        check_server(server.version, server.name, server.encoding)
        pooled = server.pid != connection.get_server_pid()
    finally:
        await connection.close()
    return Database(url, pooled=pooled, settings=settings or {}, on_windows=server.on_windows)


def check_server(version: int, name: str, encoding: str) -> None:
    """Refuse a server that is too old or does not store UTF-8."""
    if version < OLDEST_SERVER:
        raise UnsupportedServer(
            f"PostgreSQL {name} is too old: Mainspring needs {OLDEST_SERVER // 10000} or newer"
        )
    if encoding != "UTF8":
        raise UnsupportedServer(
            f"the database is encoded as {encoding}: Mainspring needs UTF8; "
            "create one with: create database ... encoding 'UTF8' template template0"
        )
