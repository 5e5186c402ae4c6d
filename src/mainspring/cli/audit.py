"""`mainspring audit`: what operators ordered."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.target import ask
from mainspring.operate.audit import PastOrder

COLUMNS = ("at", "who", "by", "order", "of what", "result")


def audit(
    actor: Annotated[str | None, typer.Option("--by", help="Of this person only.")] = None,
    action: Annotated[
        str | None, typer.Option("--order", help="One, or its group: queues, queues.pause.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--of", help="Of this queue, task, ... only.")
    ] = None,
    before: Annotated[int | None, typer.Option(help="Older than this number.")] = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """What operators ordered, newest first: from the command line, Python, a server or the console."""
    found = ask(
        lambda operator: operator.orders(
            actor=actor, action=action, target=target, before=before, limit=limit
        ),
        url,
        app,
    )
    if json:
        show.as_json(found)
        return
    show.print_table(COLUMNS, map(_row, found), empty="nothing was ordered yet")
    if len(found) == limit:
        show.say(f"--before {found[-1].id} shows older ones")


def _row(order: PastOrder) -> tuple[object, ...]:
    return (
        order.at,
        order.actor,
        order.via,
        order.action,
        order.target,
        order.result or order.reason or "",
    )
