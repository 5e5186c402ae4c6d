"""How the engine reaches PostgreSQL.

A `Database` opens connections of the engine's own: asyncpg for the loops, psycopg for the heart's
thread and for what users touch. Each sets its own `synchronous_commit`, timeouts and isolation, so
that no default of the server or the role can weaken a promise. Of an address of several hosts each is
tried for itself (`hosts.py`), by either driver alike. Behind a transaction pooler
(PgBouncer) nothing belongs to a session: no startup settings, no named prepared statements, no
LISTEN; then each transaction sets what it needs.
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString
from urllib.parse import quote, urlencode

import asyncpg
import psycopg
from psycopg import conninfo

from mainspring.db.connect import hosts, keepalive
from mainspring.db.connect.options import check_options, options_of, packed
from mainspring.db.embedded import private
from mainspring.db.sql import Statement
from mainspring.errors import (
    DatabaseUnavailable,
    EmbeddedServerError,
    InvalidUrl,
    NotDone,
    UnsupportedServer,
)

OLDEST_SERVER = 150000
COMMAND_SECONDS = (
    70.0  # above every statement_timeout: the server speaks first, and says what it was
)
LEAST_SECONDS = 2  # psycopg gives no host less to connect

# The engine's waits are shorter than the server's deadlock_timeout (1 s): in a deadlock with a
# user's transaction the engine gives way, never the user.
_ENGINE: Mapping[str, str] = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",  # psycopg reads no other, whatever the database's own setting
    "statement_timeout": "30s",
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "30s",
    # The hot statements must ride their indexes whatever the statistics say: a plan made while the
    # table was empty would else scan it when it holds a million rows.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
_CLIENT: Mapping[str, str] = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",
}
_LINE: Mapping[str, str] = {**keepalive.SERVER, **keepalive.SERVER_LOOKS}
_OURS: Mapping[str, str] = {**_ENGINE, **_CLIENT, **_LINE, "application_name": ""}
# What asyncpg understands in a URL besides the address.
_KEPT = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "krbsrvname"),
    "target_session_attrs",  # of several hosts, the one that can be written to
)
_REFUSALS = (
    *(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError),
    asyncpg.TargetServerAttributeNotMatched,
)

# Too many connections; shutting down, crashed, starting up.
_NOT_NOW = ("53300", "57P01", "57P02", "57P03")

# SQLSTATE classes of the connection and the server: the statement is fine and can be sent again.
_TRANSIENT = ("08", "25", "26", "28", "3D", "40", "53", "55", "57", "58")


def is_transient(error: BaseException) -> bool:
    """Whether the same statement may succeed when sent again."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state)[:2] in _TRANSIENT
    return isinstance(
        error,
        DatabaseUnavailable
        | OSError
        | asyncpg.InterfaceError
        | asyncpg.InternalClientError  # how asyncpg may meet a connection that was just cut
        | TimeoutError
        | EOFError
        | psycopg.OperationalError,
    )


def is_usable(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether an idle psycopg connection still stands: a closed one has its end to read.

    Costs no round trip. What else could be there to read is rare, and a new connection cheap then.
    """
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


def backoff(tries: int, *, first: float = 0.05, most: float = 2.0) -> float:
    """Seconds to wait before try number `tries` + 1: doubling, with jitter."""
    return min(most, first * float(2 ** min(tries, 10))) * (0.5 + random.random() / 2)


class Connection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """An asyncpg connection with a short way for what is run again and again."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._kept: dict[Statement, Any] = {}
        self._unread: select.poll | None = None

    def is_usable(self) -> bool:
        """Whether it still stands while idle: a closed one has its end to read, whatever the event loop
        has seen of it. Costs no round trip."""
        if self.is_closed():
            return False
        if self._unread is None:
            self._unread = select.poll()
            self._unread.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not self._unread.poll(0)

    async def run(self, statement: Statement, values: Mapping[str, Any]) -> None:
        """Run a statement that answers no rows: so no migration can make its plan unfit."""
        if (kept := self._kept.get(statement)) is None:
            kept = self._kept[statement] = await self.prepare(statement.numbered)
        await kept.fetch(*statement.arguments(values))


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

    @property
    def shown(self) -> str:
        """What people are told of it; never a password."""
        return f"private database in {self.private_in}" if self.private_in else _shown(self.url)

    def _startup(self, base: Mapping[str, str], role: str) -> dict[str, str]:
        own = dict(options_of(self.url))
        if self.pooled:
            return own  # it refuses what it does not know, and says so
        line = keepalive.SERVER if self.on_windows else _LINE
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
    ) -> asyncpg.Connection[Any]:
        """Open an asyncpg connection of the engine's (or, for enqueueing, a client's).

        Without a `command_timeout` the caller sees to it that nobody waits for ever. `timeout`: seconds
        for each host, if not those of the address.
        """
        startup = self._startup(_CLIENT if client else _ENGINE, role)
        if settings is not None and not self.pooled:
            startup |= settings
        tries = _Tries(self.url, timeout, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                connection = await asyncpg.connect(
                    asyncpg_url(host.url),
                    connection_class=Connection,
                    server_settings=startup,
                    statement_cache_size=0 if self.pooled else 200,
                    max_cached_statement_lifetime=0,
                    timeout=seconds,
                    command_timeout=command_timeout,
                )
                break
        keepalive.keep_alive(connection._transport.get_extra_info("socket"))
        if self.pooled:
            # To look up types asyncpg turns jit off for the session, which here is others' too.
            connection._server_caps = connection._server_caps._replace(jit=False)
        return connection

    def connect_sync(
        self, role: str, *, client: bool = False, timeout: float | None = None
    ) -> psycopg.Connection[Any]:
        """Open a psycopg connection in autocommit."""
        startup = self._startup(_CLIENT if client else _ENGINE, role)
        tries = _Tries(self.url, timeout, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                if seconds < LEAST_SECONDS:
                    _knock(host.url, seconds)
                connection = psycopg.connect(
                    autocommit=True,
                    prepare_threshold=None if self.pooled else 2,
                    **_psycopg(host.url, seconds, startup),
                )
                break
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # said at each BEGIN
        return connection

    async def connect_task(self) -> psycopg.AsyncConnection[Any]:
        """Open a psycopg connection that a task's own SQL runs on, in autocommit."""
        startup = self._startup(_CLIENT, "task")
        tries = _Tries(self.url, None, self.private_owner)
        for host, seconds in tries:
            with tries.at(host):
                connection = await psycopg.AsyncConnection.connect(
                    autocommit=True,
                    prepare_threshold=None if self.pooled else 5,
                    **_psycopg(host.url, seconds, startup),
                )
                break
        await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return connection

    def connect_task_sync(self) -> psycopg.Connection[Any]:
        """The same for plain functions."""
        connection = self.connect_sync("task", client=True)
        connection.prepare_threshold = None if self.pooled else 5
        return connection

    def local_settings(self, *, client: bool = False) -> LiteralString | None:
        """What each transaction must set for itself behind a pooler."""
        return (_CLIENT_LOCAL if client else _ENGINE_LOCAL) if self.pooled else None

    @asynccontextmanager
    async def transaction(self, connection: asyncpg.Connection[Any]) -> AsyncIterator[None]:
        """A READ COMMITTED transaction with the engine's settings in force; inside of another, with those
        of the other."""
        is_outer = not connection.is_in_transaction()
        try:
            async with read_committed(connection):
                if self.pooled and is_outer:
                    await connection.execute(_ENGINE_LOCAL)
                yield
        except asyncio.CancelledError:
            # Its BEGIN may still be on its way: what is sent next would be in it, and not be committed.
            connection.terminate()
            raise

    @contextmanager
    def transaction_sync(self, connection: psycopg.Connection[Any]) -> Any:
        """The same for psycopg."""
        with connection.transaction():
            if self.pooled:
                connection.execute(_ENGINE_LOCAL)
            yield connection

    async def fetch(
        self, connection: asyncpg.Connection[Any], statement: Statement, *values: Any
    ) -> list[Any]:
        """Run one statement alone, with the engine's settings in force."""
        if self.pooled and not connection.is_in_transaction():
            async with self.transaction(connection):
                return list(await connection.fetch(statement.numbered, *values))
        return list(await connection.fetch(statement.numbered, *values))


@asynccontextmanager
async def read_committed(connection: Any) -> AsyncIterator[None]:
    """A READ COMMITTED transaction."""
    async with ending(connection, await begin(connection)):
        yield


async def begin(connection: Any) -> Any:
    """Begin one, which `ending` ends."""
    transaction = connection.transaction(isolation="read_committed")
    await transaction.start()
    return transaction


@asynccontextmanager
async def ending(connection: Any, transaction: Any) -> AsyncIterator[None]:
    """The rest of it. When its connection breaks the error says why: asyncpg's own block would complain
    instead that it cannot roll back."""
    try:
        yield
    except asyncio.CancelledError:
        connection.terminate()  # a rollback waits for what was sent before: over a dead network for ever
        raise
    except BaseException:
        if not connection.is_closed():
            await transaction.rollback()
        raise
    await transaction.commit()


def _local(settings: Mapping[str, str]) -> Any:
    kept = {k: v for k, v in settings.items() if k != "default_transaction_isolation"}
    return "; ".join(f"set local {name} = '{value}'" for name, value in kept.items())


_ENGINE_LOCAL: LiteralString = _local(_ENGINE)
_CLIENT_LOCAL: LiteralString = _local(_CLIENT)


class _Tries:
    """The hosts of an address, one after the other, until one lets us in; else the error that says why
    none did."""

    def __init__(self, url: str, timeout: float | None, owner: int | None) -> None:
        self._url = url
        self._timeout = timeout
        self._owner = owner
        self._failed: list[tuple[hosts.ServerHost, Exception]] = []

    def __iter__(self) -> Iterator[tuple[hosts.ServerHost, float]]:
        for host in hosts.to_try(self._url):
            try:
                if host.socket_in is not None:
                    private.refuse_impostor(host.socket_in, self._owner)
            except EmbeddedServerError as error:
                self._failed.append((host, error))
            else:
                yield host, self._timeout or host.patience
        raise _unreachable(self._url, self._failed) from self._failed[-1][1]

    @contextmanager
    def at(self, host: hosts.ServerHost) -> Iterator[None]:
        """Whatever one host says, another may say something else."""
        try:
            yield
        except (*_REFUSALS, psycopg.Error) as error:
            self._failed.append((host, error))
        else:
            hosts.worked(self._url, host)


def _psycopg(url: str, seconds: float, startup: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a psycopg connection: of the address's own only the settings are not let through,
    which are among ours."""
    arguments: dict[str, Any] = {**keepalive.LIBPQ, **conninfo.conninfo_to_dict(url)}
    arguments["connect_timeout"] = max(LEAST_SECONDS, int(seconds))
    if "application_name" in startup:
        arguments["application_name"] = startup["application_name"]
    rest = {name: value for name, value in startup.items() if name != "application_name"}
    arguments["options"] = packed(rest) if rest else None
    return arguments


def _knock(url: str, seconds: float) -> None:
    """Find out whether a host answers at all, sooner than psycopg would."""
    parts = conninfo.conninfo_to_dict(url)
    host = str(parts.get("hostaddr") or parts.get("host") or "")
    if host and not host.startswith(("/", "@")):
        socket.create_connection((host, int(parts.get("port") or 5432)), seconds).close()


def check_url(url: str) -> str:
    """The address, if it can be one. What cannot be read is not shown: it may hold a password."""
    if not isinstance(url, str):
        raise InvalidUrl(
            f"the database address must be a text such as postgresql://user@host/database, got a "
            f"{type(url).__name__}"
        )
    try:
        parts = conninfo.conninfo_to_dict(url)
        ports = [int(port) for port in str(parts.get("port", "5432")).split(",") if port]
        hosts.to_try(url)
    except (psycopg.Error, ValueError):
        ports = []
        parts = {"unreadable": True}
    if not parts:
        raise InvalidUrl("the database address is empty; write postgresql://user@host/database")
    if "unreadable" in parts or not all(0 < port < 65536 for port in ports):
        raise InvalidUrl(
            "cannot read the database address (not shown here, it may hold a password); "
            "write it as postgresql://user:password@host:5432/database"
        )
    check_options(url, _OURS)
    return url


def asyncpg_url(url: str) -> str:
    """The same address in the form that asyncpg reads (it knows fewer parameters than libpq)."""
    parts = conninfo.conninfo_to_dict(url)
    user = quote(str(parts["user"]), safe="") if "user" in parts else ""
    if "password" in parts:
        user += ":" + quote(str(parts["password"]), safe="")
    query = {name: str(parts[name]) for name in _KEPT if name in parts}
    if "host" in parts:
        query["host"] = str(parts["host"])
    if "port" in parts:
        query["port"] = str(parts["port"])
    database = quote(str(parts.get("dbname", "")), safe="")
    return f"postgresql://{user}{'@' if user else ''}/{database}?{urlencode(query)}"


def _shown(url: str) -> str:
    """Where an address leads, without the password that it may hold anywhere."""
    parts = conninfo.conninfo_to_dict(url)
    where = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
    return f"{where}, database {parts.get('dbname') or 'of the user'}"


def _unreachable(url: str, failed: list[tuple[hosts.ServerHost, Exception]]) -> NotDone:
    if len(failed) == 1:
        reasons = _reason(failed[0][1])
    else:
        reasons = "; ".join(f"{host.name}: {_reason(error)}" for host, error in failed)
    found = NotDone(
        f"cannot connect to PostgreSQL at {_shown(url)}: {reasons}; "
        "is the server up and the address right?"
    )
    found.passes = any(_passes(error) for _, error in failed)
    return found


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _passes(error: Exception) -> bool:
    """Whether a server is there and says that it cannot take us just now: too many are there, it starts,
    it ends, or it is still a standby."""
    state = getattr(error, "sqlstate", None) or ""
    return state in _NOT_NOW or isinstance(error, asyncpg.TargetServerAttributeNotMatched)


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
        assert row is not None
        check_server(row["version"], row["name"], row["encoding"])
        pooled = row["pid"] != connection.get_server_pid()
    finally:
        await connection.close()
    return Database(url, pooled=pooled, settings=settings or {}, on_windows=row["on_windows"])


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
