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
