"""Addresses of several hosts: every connection of the engine goes to one that can be written to."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mainspring.db.connect import Database, asyncpg_url
from mainspring.errors import DatabaseUnavailable


async def test_no_connection_goes_to_a_server_that_cannot_be_written_to(database_url: str) -> None:
    """T1: after a failover the first host is a standby; a worker that stayed there would read nothing."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        text = f"alter database {name} set default_transaction_read_only = on"
        connection.execute(text.encode())
    database = Database(make_conninfo(database_url, target_session_attrs="read-write"))

    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        database.connect_sync("heart")
    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        await database.connect("reader")


def test_all_hosts_are_passed_on() -> None:
    url = asyncpg_url("postgresql://ann@h1:5432,h2:5433/shop?target_session_attrs=primary")

    assert "host=h1%2Ch2&port=5432%2C5433" in url
    assert "target_session_attrs=primary" in url
