"""`mainspring why`: why a visit has not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from mainspring.cli import codes, options, show
from mainspring.cli.target import ask


def why(
    queue: Annotated[str, typer.Argument(help="Its queue: the task's name.")],
    key: Annotated[str, typer.Argument(help="Its key: the task's id, or its uniqueness key.")],
    group: options.Group = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Say why a visit has not run: a future time, a pause, a busy group, no worker, parked..."""
    found = ask(lambda operator: operator.why(queue, key, group=group), url, app)
    if json:
        show.as_json(replace(found, last_runs=show.keys_apart(found.last_runs)))
    else:
        for cause in found.causes:
            show.say(f"{cause.name}: {cause.text}")
            show.say(f"  what to do: {cause.remedy}")
        if found.last_runs:
            show.print_table(
                ("ended", "attempt", "outcome", "ms", "error"),
                (
                    (r.ended_at, r.attempt, r.outcome, r.duration_ms, show.first_line(r.error))
                    for r in found.last_runs
                ),
                empty="",
            )
    if found.causes[0].name == "not_found" and not found.last_runs:
        raise typer.Exit(codes.NOT_FOUND)
