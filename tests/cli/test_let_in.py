"""A worker whose server takes nobody just now waits for it; one whose address is wrong ends at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mainspring.cli import codes

APP = """
    from mainspring import Mainspring
    app = Mainspring()

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b
"""


@pytest.fixture
def server(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A role that the server has no connection for: it says so by 53300, as a full server does."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role let_in login connection limit 0 in role postgres")
        yield connection
        connection.execute("drop role let_in")


def test_a_worker_that_is_refused_at_its_start_insists(
    server: psycopg.Connection[Any], database_url: str, module: Any, spawn: Any
) -> None:
    """T13: 53300; a supervisor that gives up after a few starts would make an outage of it."""
    module("work", APP)
    url = make_conninfo(database_url, user="let_in")
    worker = spawn("worker", "work:app", "--drain", "--log-json", MAINSPRING_URL=url)
    while (line := json.loads(worker.stderr.readline()))["event"] != "worker.waiting":
        pass
    assert "too many connections for role" in line["error"]
    assert worker.poll() is None

    server.execute("alter role let_in connection limit -1")

    assert worker.wait(30) == codes.OK
    known = server.execute("select name from mainspring.queue where name = 'add'").fetchall()
    assert known == [("add",)]


def test_an_address_where_nobody_answers_ends_it_at_once(
    module: Any, spawn: Any, database_url: str
) -> None:
    module("work", APP)
    worker = spawn("worker", "work:app", MAINSPRING_URL="postgresql://postgres@127.0.0.1:1/shop")

    _, err = worker.communicate(timeout=30)
    assert worker.returncode == codes.UNAVAILABLE
    assert "cannot connect to PostgreSQL at 127.0.0.1:1" in err
