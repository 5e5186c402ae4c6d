"""`mainspring check`: what can be known to go wrong before anything runs."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from mainspring.app import Mainspring
from mainspring.cli import codes, options, show
from mainspring.cli.target import named, resolve
from mainspring.errors import DatabaseUnavailable
from mainspring.phrases import counted
from mainspring.processes.operate.keys import unreadable_steps
from mainspring.reactive.decide.lint import Declared, LintFinding, check_tasks
from mainspring.tasks.enqueue.keys import unreadable


def check(
    app: Annotated[
        str | None, typer.Argument(help="The application, module:name; else MAINSPRING_APP.")
    ] = None,
    url: options.Url = None,
    json: options.Json = False,
) -> None:
    """Check an application before it runs.

    Triggers (pauses, circles, expectations, producers) need no database; the columns that stages name
    are looked for where one is named. Exits with 1 if something was found.
    """
    # What declaring warns of is said below, once.
    logging.getLogger("mainspring").setLevel(logging.ERROR)
    declared = resolve(url, named(app))
    tasks = [
        Declared(task.name, task.settings.when, task.settings.produces, task.settings.expect_within)
        for task in declared.reactive_tasks.values()
    ]
    found = [*check_tasks(tasks), *_tables(declared), *_keys(declared)]
    if json:
        show.as_json(found)
    else:
        for finding in found:
            show.say(str(finding))
        if not found:
            show.say(f"{_shown(declared)}, nothing to complain about")
    if found:
        raise typer.Exit(codes.PROBLEM)


def _shown(app: Mainspring) -> str:
    """What was looked at: only what there is."""
    processes = len(app.processes)
    there = (
        (len(app.tasks), counted(len(app.tasks), "task")),
        (processes, "1 process" if processes == 1 else f"{processes} processes"),
        (len(app.reactive_tasks), counted(len(app.reactive_tasks), "reactive task")),
        (len(app.kinds), counted(len(app.kinds), "kind")),
    )
    return ", ".join(told for number, told in there if number) or "no tasks"


def _keys(app: Mainspring) -> list[LintFinding]:
    """Calls that are encrypted with a key which the cipher of the application does not have."""
    if app.sealing is None or not app.is_placed:
        return []
    try:
        unread = unreadable(app.sealing, app.sync_pool())
        steps = unreadable_steps(app.sealing, app.sync_pool()) if app.processes else []
    except DatabaseUnavailable as error:
        show.complain(f"the keys of waiting calls were not looked at: {error}")
        return []
    finally:
        app.close_sync()
    return [
        LintFinding(
            "MS202",
            row.queue,
            f"{counted(row.calls, 'call')} encrypted with key {row.key!r}, which the cipher lacks: "
            "give it that key, or they park",
        )
        for row in unread
    ] + [
        LintFinding(
            "MS202",
            row.actor,
            f"{counted(row.steps, 'step')} of open processes encrypted with key {row.key!r}, which the "
            "cipher lacks: give it that key, or they park",
        )
        for row in steps
    ]


def _tables(app: Mainspring) -> list[LintFinding]:
    """What the stages of kinds name and their tables do not have."""
    if not app.kinds or not app.is_placed:
        return []
    try:
        wrong = app.examine_kinds_sync()
    except DatabaseUnavailable as error:
        show.complain(f"the tables of kinds were not looked at: {error}")
        return []
    finally:
        app.close_sync()
    return [LintFinding("MS201", name, text) for name, text in wrong.items()]
