"""`mainspring migrate` with kinds: triggers installed, or printed as SQL."""

from __future__ import annotations

import psycopg

APP = """
from mainspring import Mainspring

app = Mainspring({url!r})
listing = app.entities("listing", table="listing")
"""


def test_migrate_installs_the_triggers_of_kinds_or_prints_them(
    cli, module, database_url: str
) -> None:
    """S21: triggers are installed and upgraded by migrate, or printed as SQL."""
    module("ads", APP.format(url=database_url))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "create table listing (id integer primary key, version bigint default 1)"
        )

        printed = cli("migrate", "--sql", "--from", "2", "ads:app")
        applied = cli("migrate", "ads:app")

        found = connection.execute(
            "select tgname from pg_trigger where tgrelid = 'listing'::regclass"
        ).fetchall()
    assert (printed.code, applied.code) == (0, 0), printed.err + applied.err
    assert 'create trigger "zz_mainspring_listing_update" after update' in printed.out
    assert ("zz_mainspring_listing_update",) in found


STAGED = """
from mainspring import Mainspring

app = Mainspring({url!r})
listing = app.entities("listing", table="listing")

@listing.stage(reads=["titel"], writes=["price"])
def predict(listing): ...
"""


def test_columns_that_are_not_there_are_found_before_a_worker_starts(
    cli, module, database_url: str
) -> None:
    """S2: migrate and check refuse them, as a worker does."""
    module("ads", STAGED.format(url=database_url))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "create table listing (id integer primary key, version bigint, title text, price int)"
        )

    applied, checked = cli("migrate", "ads:app"), cli("check", "ads:app")

    assert (applied.code, checked.code) == (1, 1)
    assert checked.out.startswith("MS201 listing: ")
    for answer in (applied.err, checked.out):
        assert "has no column 'titel'" in answer
        assert "reads of stage 'predict'" in answer
