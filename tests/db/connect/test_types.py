"""What asyncpg asks the catalog of types."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from mainspring.db.connect import types
from mainspring.db.database import Connection, Database


async def asked(connection: Connection, query: str, value: object) -> tuple[Any, int]:
    """What a query answers, and how many lookups of types it made."""
    lookups: list[str] = []

    def note(record: Any) -> None:
        if "typeinfo_tree" in record.query:
            lookups.append(record.query)

    with connection.query_logger(note):
        answer = await connection.fetchval(query, value)
    return answer, len(lookups)


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_a_built_in_type_is_looked_up_once_a_process(
    database_url: str, pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(types, "_known", {})
    database = Database(database_url, pooled=pooled)
    ids = [uuid4(), uuid4()]
    counts = []
    for _ in range(3):
        connection = await database.connect("test")
        answer, count = await asked(connection, "select $1::uuid[]", ids)
        assert answer == ids
        assert all(type(id) is not str and isinstance(id, UUID) for id in answer)
        again, more = await asked(connection, "select $1::uuid[]", ids[:1])
        assert (again, more) == (ids[:1], 0)
        counts.append(count)
        await connection.close()
    assert counts == [1, 0, 0]


async def test_a_type_that_was_made_is_looked_up_on_each_connection(database_url: str) -> None:
    """Its number may mean another one in the next database."""
    database = Database(database_url)
    for values in ("'a'", "'b', 'a'"):
        connection = await database.connect("test")
        await connection.execute(
            f"drop type if exists colour; create type colour as enum ({values})"
        )
        answer, count = await asked(connection, "select $1::colour[]", ["a"])
        assert (answer, count) == (["a"], 1)
        await connection.close()


async def test_a_type_that_a_release_numbers_in_its_order_is_looked_up_on_each_connection(
    database_url: str,
) -> None:
    """One process may talk to servers of two releases, and to one before and after its upgrade."""
    database = Database(database_url)
    for _ in range(2):
        connection = await database.connect("test")
        query = "select $1::information_schema.sql_identifier[]"
        assert await asked(connection, query, ["a"]) == (["a"], 1)
        await connection.close()
