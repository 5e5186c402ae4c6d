"""Walking steps: statements that a generator asks for, sent on a connection of either driver."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg

from mainspring.db.sql import Statement

T = TypeVar("T")
Step = tuple[Statement, dict[str, Any]]
Walk = Generator[Step, list[Any], T]


async def drive(connection: Any, steps: Walk[T]) -> T:
    """On asyncpg, in the caller's transaction."""
    try:
        statement, values = next(steps)
        while True:
            rows = await connection.fetch(statement.numbered, *statement.arguments(values))
            statement, values = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_psycopg(connection: psycopg.AsyncConnection[Any], steps: Walk[T]) -> T:
    """On an async psycopg connection, in its transaction."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    try:
        statement, values = next(steps)
        while True:
            await cursor.execute(statement.text, values)
            statement, values = steps.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def drive_psycopg_sync(connection: psycopg.Connection[Any], steps: Walk[T]) -> T:
    """On a plain psycopg connection, in its transaction."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    try:
        statement, values = next(steps)
        while True:
            cursor.execute(statement.text, values)
            statement, values = steps.send(cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


Fetch = Callable[[Statement, dict[str, Any]], Any]
