"""The application of the server's tests, its server as a process, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import server_app
from psycopg.conninfo import conninfo_to_dict
from served_process import Served

from mainspring import Mainspring
from mainspring.server.access.tokens import create_token
from mainspring.testing import TestServer

TABLE = "create table sent (id uuid not null, receiver text not null)"


@pytest.fixture(scope="session")
def knowing(mainspring_server: TestServer) -> Iterator[str]:
    """The name of a database that knows what server_app.py declares."""
    with mainspring_server.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TABLE)
        app = server_app.app
        app.redirect(url)

        async def register() -> None:
            await app.migrate()
            async with app:
                await app.reactive_apply()

        asyncio.run(register())
        yield conninfo_to_dict(url)["dbname"]


@pytest.fixture
def mainspring_url(request: pytest.FixtureRequest, mainspring_server: TestServer) -> Iterator[str]:
    """A fresh database; for a test of the application one that knows it."""
    known = "registered" in request.fixturenames
    template = request.getfixturevalue("knowing") if known else None
    with mainspring_server.database(template=template) as url:
        yield url


@pytest.fixture
def registered(database_url: str) -> str:
    """A database that knows what server_app.py declares."""
    server_app.app.redirect(database_url)
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
