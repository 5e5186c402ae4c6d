"""What the tables of reactive tasks say, and moments to set params to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row


def day(number: int, hour: int = 0) -> datetime:
    """A moment in March 2026."""
    return datetime(2026, 3, number, hour, tzinfo=UTC)


class Base:
    """What the tables say."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def rows(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *values: Any) -> Any:
        return next(iter(self.rows(text, *values)[0].values()))

    def state(self, task: str) -> dict[str, Any]:
        return self.rows("select * from mainspring.reactive_task where task = %s", task)[0]

    def visits(self, queue: str = "mainspring.") -> list[tuple[str, str]]:
        rows = self.rows(
            "select queue, key from mainspring.visit where starts_with(queue, %s) order by 1, 2",
            queue,
        )
        return [(row["queue"], row["key"]) for row in rows]
