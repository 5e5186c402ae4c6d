"""The application of the server's tests, its server as a process, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import server_app
from served_process import Served

from mainspring import Mainspring
from mainspring.server.access.tokens import create_token

TABLE = "create table sent (id uuid not null, receiver text not null)"


@pytest.fixture
def registered(database_url: str) -> str:
    """A database that knows what server_app.py declares."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(TABLE)
    app = server_app.app
    app.redirect(database_url)

    async def register() -> None:
        await app.migrate()
        async with app:
            await app.reactive_apply()

    asyncio.run(register())
    return database_url


@pytest.fixture
def served(registered: str, tmp_path: Path) -> Iterator[Served]:
    """The server is started by the test."""
    found = Served(registered, tmp_path)
    yield found
    found.close()


@pytest.fixture
def new_token(database_url: str) -> Callable[..., str]:
    """Make a token with scopes."""

    def make(*scopes: str, name: str = "test", **options: Any) -> str:
        async def create() -> str:
            async with Mainspring(database_url) as app:
                pool = await app.pool()
                async with pool.connection(transaction=True) as connection:
                    made = await create_token(connection, name, scopes, **options)
            return made.text or made.row.id

        return asyncio.run(create())

    return make
