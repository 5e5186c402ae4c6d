"""Settings in the address (`options`) are kept beside ours, by both drivers, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mainspring import Mainspring
from mainspring.db.connect.options import options_of, packed
from mainspring.db.database import Database, probe
from mainspring.errors import InvalidUrl


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-crole=owner", {"role": "owner"}),
        ("-c role=owner --search-path=a,b", {"role": "owner", "search_path": "a,b"}),
        ("-c app.tenant=a\\ b\\\\c", {"app.tenant": "a b\\c"}),
        ("-c geqo=", {"geqo": ""}),
        ("", {}),
    ],
)
def test_options_are_read_as_the_server_reads_them(text: str, found: dict[str, str]) -> None:
    assert options_of(f"postgresql:///shop?options={quote(text)}") == found
    assert options_of(f"postgresql:///shop?options={quote(packed(found))}") == found


@pytest.mark.parametrize("text", ["-e", "role=owner", "-c role", "-c", "-B 100"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl, match="cannot read the options of the database address at '"):
        Mainspring(f"postgresql:///shop?options={quote(text)}")


def test_what_mainspring_sets_itself_is_refused_by_name() -> None:
    text = quote("-c statement_timeout=1 -c Synchronous_Commit=off -c role=x")
    with pytest.raises(InvalidUrl, match="set statement_timeout, synchronous_commit, which Mains"):
        Mainspring(f"postgresql:///shop?options={text}")


async def test_every_connection_has_them_beside_ours(database_url: str) -> None:
    database = Database(make_conninfo(database_url, options="-c app.tenant=a\\ b"))
    asked = "select current_setting('app.tenant'), current_setting('lock_timeout')"
    plain = await database.connect("reader")
    heart, task = database.connect_sync("heart"), database.connect_task_sync()
    other = await database.connect_task()
    found = [tuple(await plain.fetchrow(asked)), heart.execute(asked).fetchone()]
    found += [task.execute(asked).fetchone(), await (await other.execute(asked)).fetchone()]
    await plain.close()
    await other.close()
    heart.close()
    task.close()

    assert found == [("a b", "200ms")] * 2 + [("a b", "10s")] * 2


@pytest.fixture
def bare_url(database_url: str) -> Iterator[str]:
    """A database without our schema, and a role that may log in and become its owner, who may not."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role options_owner nologin")
        connection.execute("create role options_deployer login noinherit in role options_owner")
        connection.execute("create database options_bare owner options_owner")
    yield make_conninfo(database_url, dbname="options_bare", user="options_deployer")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop database options_bare with (force)")
        connection.execute("drop role options_deployer")
        connection.execute("drop role options_owner")


async def test_an_owner_who_may_not_log_in_migrates_by_the_role_in_the_address(
    bare_url: str,
) -> None:
    """docs/operate/rights.md: all that `migrate` makes belongs to the owner."""
    app = Mainspring(make_conninfo(bare_url, options="-crole=options_owner"))
    await app.migrate()
    await app.close()

    with psycopg.connect(bare_url) as connection:
        owners = connection.execute(
            "select distinct pg_get_userbyid(relowner) from pg_class"
            " where relnamespace = 'mainspring'::regnamespace"
        ).fetchall()
    assert owners == [("options_owner",)]
    assert (await probe(bare_url)).pooled is False
