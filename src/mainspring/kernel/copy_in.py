"""Copying visits in: many at once, under fresh keys that nobody can have, so nothing can be met.

The rows come in COPY's binary form; a column that they do not have is left to its default.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, LiteralString

import psycopg


async def copy_asyncpg(connection: Any, columns: Sequence[str], chunks: Iterator[bytes]) -> None:
    """On a connection of the application."""
    await connection.copy_to_table(
        "visit",
        schema_name="mainspring",
        columns=columns,
        source=_each(chunks),
        format="binary",
    )


async def copy_psycopg(
    cursor: psycopg.AsyncCursor[Any], columns: Sequence[str], chunks: Iterator[bytes]
) -> None:
    """On the caller's async psycopg connection, in its transaction."""
    async with cursor.copy(_copy(columns)) as copy:
        for chunk in chunks:
            await copy.write(chunk)


def copy_sync(cursor: psycopg.Cursor[Any], columns: Sequence[str], chunks: Iterator[bytes]) -> None:
    """On the caller's psycopg connection, in its transaction."""
    with cursor.copy(_copy(columns)) as copy:
        for chunk in chunks:
            copy.write(chunk)


def _copy(columns: Sequence[str]) -> LiteralString:
    # Columns are ours, from a fixed list; values never enter the text.
    return f"copy mainspring.visit ({', '.join(columns)}) from stdin (format binary)"


async def _each(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
