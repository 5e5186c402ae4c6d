"""Running steps: statements that a generator asks for, sent on a psycopg connection of either kind."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

from mainspring.db.sql import Statement

T = TypeVar("T")
Step = tuple[Statement, dict[str, Any]]
Steps = Generator[Step, list[Any], T]


async def run_steps_psycopg(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    """On an async connection, in its transaction."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    try:
        statement, values = next(steps)
        while True:
            await cursor.execute(statement.text, values)
            statement, values = steps.send(await cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def run_steps_psycopg_sync(connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
    """On a plain connection, in its transaction."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    try:
        statement, values = next(steps)
        while True:
            cursor.execute(statement.text, values)
            statement, values = steps.send(cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
