"""An application of a module, in a test's database: its address, and the parts that the test needs.

A real project has one `app`, with all its tasks, kinds and tables. A test of two tasks need not make the
tables of the rest: kinds whose tables are not there are left out while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from mainspring.app import Mainspring
from mainspring.entities.kind import AnyKind


@contextmanager
def placed(app: Mainspring, url: str) -> Iterator[Mainspring]:
    """Let an application use this database; its connections must be closed before the end.

    With pytest: the fixture `mainspring_use`.
    """
    with app.redirected(url):
        yield app


def install(app: Mainspring) -> None:
    """Put triggers on the tables of its kinds that are there, and make its tasks known, as `migrate` does.

    After the test has made its tables, and before it writes to them.
    """
    with only_present(app):
        app.migrate_sync()


@contextmanager
def only_present(app: Mainspring) -> Iterator[None]:
    """Leave out kinds whose tables are not there."""
    absent = _absent(app)
    for name in absent:
        del app.kinds[name]
    try:
        yield
    finally:
        app.kinds.update(absent)


def _absent(app: Mainspring) -> dict[str, AnyKind]:
    tables = {name: kind.settings.table for name, kind in app.kinds.items() if kind.settings.table}
    if not tables:
        return {}
    with psycopg.connect(app.database_sync().url, application_name="mainspring:test") as found:
        rows = found.execute(
            "select name from unnest(%s::text[], %s::text[]) as t(name, place)"
            " where to_regclass(place) is null",
            (list(tables), list(tables.values())),
        ).fetchall()
    return {name: app.kinds[name] for (name,) in rows}
