"""The errors of `on=`: what was given, what is taken, and what to do."""

from __future__ import annotations

from mainspring.errors import InvalidSetting

SYNC_TAKEN = (
    "a psycopg Connection, a SQLAlchemy Session or Connection, or Django's connection or its alias"
)
ASYNC_TAKEN = (
    "an asyncpg Connection, a psycopg AsyncConnection, "
    "or a SQLAlchemy AsyncSession or AsyncConnection"
)
# By the package and the name of a class: what somebody probably wanted to give.
_MEANT = {
    ("psycopg", "Cursor"): "give its connection (cursor.connection)",
    ("psycopg", "AsyncCursor"): "give its connection (cursor.connection)",
    ("psycopg_pool", "ConnectionPool"): "take a connection from it (with pool.connection() as ...)",
    ("psycopg_pool", "AsyncConnectionPool"): (
        "take a connection from it (async with pool.connection() as ...)"
    ),
    ("asyncpg", "Pool"): "take a connection from it (async with pool.acquire() as ...)",
    ("sqlalchemy", "Engine"): "begin a transaction on it (with engine.begin() as connection)",
    ("sqlalchemy", "AsyncEngine"): (
        "begin a transaction on it (async with engine.begin() as connection)"
    ),
    ("sqlalchemy", "sessionmaker"): "call it, and give the session",
    ("sqlalchemy", "async_sessionmaker"): "call it, and give the session",
    ("psycopg2", "connection"): "psycopg2 is not served: use psycopg 3",
}


def named(on: object) -> str:
    """What it is, without a value of it: an address may hold a password."""
    kind = type(on)
    package = kind.__module__.split(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}'s {kind.__name__}"


def not_taken(on: object, taken: str) -> InvalidSetting:
    """It is no connection of a library that is known."""
    parts = {(base.__module__.split(".")[0], base.__name__) for base in type(on).__mro__}
    meant = next((remedy for key, remedy in _MEANT.items() if key in parts), None)
    return InvalidSetting(
        f"on= takes {taken}, got {named(on)}{'' if meant is None else f': {meant}'}"
    )


def other_side(on: object, verb: str, instead: str | None, *, is_async: bool) -> InvalidSetting:
    """A sync object was given to an async verb, or the reverse."""
    if is_async:
        use = f"use {instead}, or give" if instead else "give"
        return InvalidSetting(
            f"a sync connection ({named(on)}) was given to {verb}, which is async; {use} {ASYNC_TAKEN}"
        )
    use = f"await {instead} instead, or give" if instead else "give"
    return InvalidSetting(
        f"an async connection ({named(on)}) was given to {verb}; {use} {SYNC_TAKEN}"
    )


def wrong_driver(what: str, driver: str) -> InvalidSetting:
    """A library that is known, over a driver that is not."""
    return InvalidSetting(
        f"{what} given as on= speaks by {driver}, which cannot be used; taken are postgresql+psycopg "
        "(psycopg 3) and postgresql+asyncpg"
    )


def unusable(on: object, why: str) -> InvalidSetting:
    """It is taken, but not as it is."""
    return InvalidSetting(f"{named(on)} given as on= {why}")


def failed(on: object) -> InvalidSetting:
    """Nothing can be written in its transaction any more."""
    return unusable(
        on,
        "is in a transaction that has failed, so nothing was written; roll it back, or to a savepoint, "
        "and begin anew",
    )


def two_phase(on: object) -> InvalidSetting:
    return unusable(
        on,
        "is in a two-phase transaction: PostgreSQL cannot prepare one that announces work (NOTIFY); "
        "use a plain transaction, or write after the commit",
    )
