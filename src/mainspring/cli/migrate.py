"""`mainspring migrate`: create or upgrade the schema."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.target import resolve
from mainspring.db.schema.migrate import script


def migrate(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:APP",
            help="Register its tasks and kinds too, and install the triggers of its kinds.",
        ),
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, change nothing.")] = False,
    start: Annotated[
        int, typer.Option("--from", min=0, help="With --sql: from this migration on.")
    ] = 0,
    url: options.Url = None,
    json: options.Json = False,
) -> None:
    """Create or upgrade the schema.

    It is safe while workers of the previous release run.
    """
    if sql and place is None:
        sys.stdout.write(script(start))
        return
    app = resolve(url, place)
    if sql:
        try:
            sys.stdout.write(app.script_sync(start))
        finally:
            app.close_sync()
        return
    try:
        applied = app.migrate_sync()
        database = app.database_sync().shown
    finally:
        app.close_sync()
    if json:
        show.as_json({"applied": applied, "database": database})
    elif applied:
        show.say(f"{database}: applied migrations {', '.join(map(str, applied))}")
    else:
        show.say(f"{database}: the schema is up to date")
