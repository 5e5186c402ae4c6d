"""Running steps: statements that a generator asks for, sent on a connection of either driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mainspring.db.sql import Statement
from mainspring.db.steps import Step, Steps, run_steps_psycopg, run_steps_psycopg_sync

__all__ = ["Fetch", "Step", "Steps", "run_steps", "run_steps_psycopg", "run_steps_psycopg_sync"]

T = TypeVar("T")


async def run_steps(connection: Any, steps: Steps[T]) -> T:
    """On asyncpg, in the caller's transaction."""
    try:
        statement, values = next(steps)
        while True:
            rows = await connection.fetch(statement.numbered, *statement.arguments(values))
            statement, values = steps.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


Fetch = Callable[[Statement, dict[str, Any]], Any]
