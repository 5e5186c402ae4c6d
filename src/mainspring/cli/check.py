"""`mainspring check`: what can be known to go wrong with reactive tasks before anything runs."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import codes, options, show
from mainspring.cli.target import load_app, named
from mainspring.reactive.checks import Declared, check_tasks


def check(
    app: Annotated[
        str | None, typer.Argument(help="The application, module:name; else MAINSPRING_APP.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Check the triggers of an application: pauses, circles, expectations, producers.

    Needs no database. Exits with 1 if something was found.
    """
    tasks = [
        Declared(task.name, task.settings.when, task.settings.produces, task.settings.expect_within)
        for task in load_app(named(app)).reactive_tasks.values()
    ]
    found = check_tasks(tasks)
    if json:
        show.as_json(found)
    else:
        for finding in found:
            show.say(str(finding))
        if not found:
            show.say(f"{len(tasks)} reactive tasks, nothing to complain about")
    if found:
        raise typer.Exit(codes.PROBLEM)
