"""`mainspring history`: what was run; `mainspring put-back`: run it again."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.operations import show_begun
from mainspring.cli.target import ask
from mainspring.jobs.operation import Operation
from mainspring.operate.history import HistoryFilter, PastRun
from mainspring.operator import Operator

Key = Annotated[str | None, typer.Option("--key", help="Of this key.")]
Outcomes = Annotated[
    list[str] | None,
    typer.Option("--outcome", help="done, again, retry, parked, cancelled, expired; may repeat."),
]
Error = Annotated[str | None, typer.Option("--error", help="Whose error has this text.")]
ErrorType = Annotated[str | None, typer.Option("--error-type", help="Whose error is of this type.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="field=value of the payload; needs --queue, and --since unless it is searchable.",
    ),
]


def history(
    queue: options.Queue = None,
    key: Key = None,
    group_name: options.Group = None,
    since: options.Since = None,
    until: options.Until = None,
    outcome: Outcomes = None,
    error: Error = None,
    error_type: ErrorType = None,
    field: Fields = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Search past runs, newest first."""

    async def question(operator: Operator) -> list[PastRun]:
        wanted = HistoryFilter(
            queue=queue,
            key=key,
            group=group_name,
            since=await options.moment(operator, "since", since),
            until=await options.moment(operator, "until", until),
            outcomes=outcome or None,
            error=error,
            error_type=error_type,
            fields=options.pairs("field", field),
        )
        found = await operator.history(wanted, limit=limit)
        return await options.found_in(operator, queue, found, or_reactive=True)

    found = show.keys_apart(ask(question, url, app))
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("ended", "queue", "group", "key", "attempt", "outcome", "ms", "error"),
        (
            (
                r.ended_at,
                r.queue,
                r.group,
                r.key,
                r.attempt,
                r.outcome,
                r.duration_ms,
                show.first_line(r.error),
            )
            for r in found
        ),
        empty="nothing was found",
    )


def put_back(
    queue: options.Queue = None,
    key: Key = None,
    group_name: options.Group = None,
    since: options.Since = None,
    until: options.Until = None,
    outcome: Outcomes = None,
    field: Fields = None,
    fresh_ids: options.FreshIds = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Put past tasks back to run again.

    Those whose key is live are left.
    """

    async def order(operator: Operator) -> Operation:
        wanted = HistoryFilter(
            queue=queue,
            key=key,
            group=group_name,
            since=await options.moment(operator, "since", since),
            until=await options.moment(operator, "until", until),
            outcomes=outcome or None,
            fields=options.pairs("field", field),
        )
        await options.found_in(operator, queue, await operator.history(wanted, limit=1))
        return await operator.put_back(
            wanted, source=options.source(), fresh_ids=fresh_ids, dry_run=dry_run
        )

    show_begun(ask(order, url, app), json=json)
