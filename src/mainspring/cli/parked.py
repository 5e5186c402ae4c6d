"""`mainspring parked`: list, groups, restart, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.operations import show_begun
from mainspring.cli.target import ask
from mainspring.errors import InvalidSetting
from mainspring.jobs.operation import Operation
from mainspring.operate.parked import ParkedFilter, ParkedGroup, ParkedVisit
from mainspring.operator import Operator

group = typer.Typer(
    cls=CommandGroup, help="Visits that failed for good and wait.", no_args_is_help=True
)

Key = Annotated[str | None, typer.Option("--key", help="This one only.")]
Error = Annotated[str | None, typer.Option("--error", help="Whose error has this text.")]
ErrorType = Annotated[str | None, typer.Option("--error-type", help="Whose error is of this type.")]
Alike = Annotated[
    str | None,
    typer.Option("--fingerprint", help="Whose errors are alike: as `groups` names them."),
]
All = Annotated[bool, typer.Option("--all", help="Really all of them.")]


@group.command("list")
def list_parked(
    queue: options.Queue = None,
    key: Key = None,
    group_name: options.Group = None,
    error: Error = None,
    error_type: ErrorType = None,
    fingerprint: Alike = None,
    since: options.Since = None,
    until: options.Until = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Parked visits, newest first."""

    async def question(operator: Operator) -> list[ParkedVisit]:
        wanted = await _wanted(
            operator, queue, key, group_name, error, error_type, fingerprint, since, until
        )
        return await options.found_in(operator, queue, await operator.parked(wanted, limit=limit))

    found = show.keys_apart(ask(question, url, app))
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("queue", "group", "key", "attempt", "crashes", "parked", "error"),
        (
            (v.queue, v.group, v.key, v.attempt, v.crashes, v.parked_at, show.first_line(v.error))
            for v in found
        ),
        empty="nothing is parked",
    )


@group.command()
def groups(
    queue: options.Queue = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Parked visits counted by queue and what is alike: type of error, text without its values, place."""

    async def question(operator: Operator) -> list[ParkedGroup]:
        found = await operator.parked_groups(ParkedFilter(queue=queue))
        return await options.found_in(operator, queue, found)

    found = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("queue", "error", "count", "first", "last", "fingerprint", "example"),
        (
            (g.queue, g.error_type, g.count, g.first_at, g.last_at, g.fingerprint, _message(g))
            for g in found
        ),
        empty="nothing is parked",
    )


def _message(group: ParkedGroup) -> str:
    """An example of the group without its type, which has a column of its own."""
    return show.first_line((group.example or "").removeprefix(f"{group.error_type}: "))


@group.command()
def restart(
    queue: options.Queue = None,
    key: Key = None,
    group_name: options.Group = None,
    error: Error = None,
    error_type: ErrorType = None,
    fingerprint: Alike = None,
    since: options.Since = None,
    until: options.Until = None,
    everything: All = False,
    fresh_ids: options.FreshIds = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Restart parked visits: one (--queue and --key) at once, several as an operation."""

    async def order(operator: Operator) -> Operation | None:
        wanted = await _wanted(
            operator, queue, key, group_name, error, error_type, fingerprint, since, until
        )
        _refuse_all(wanted, everything)
        await options.found_in(operator, queue, await operator.parked(wanted, limit=1))
        if queue and key and not dry_run:
            await operator.restart(queue, key, group=group_name, fresh_id=fresh_ids)
            return None
        return await operator.restart_parked(
            wanted, source=options.source(), fresh_ids=fresh_ids, dry_run=dry_run
        )

    show_begun(ask(order, url, app), json=json, done=f"visit {key!r} of {queue!r} is due again")


@group.command()
def delete(
    queue: options.Queue = None,
    key: Key = None,
    group_name: options.Group = None,
    error: Error = None,
    error_type: ErrorType = None,
    fingerprint: Alike = None,
    since: options.Since = None,
    until: options.Until = None,
    everything: All = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Delete parked visits; history keeps them as cancelled."""

    async def order(operator: Operator) -> Operation | None:
        wanted = await _wanted(
            operator, queue, key, group_name, error, error_type, fingerprint, since, until
        )
        _refuse_all(wanted, everything)
        await options.found_in(operator, queue, await operator.parked(wanted, limit=1))
        if queue and key and not dry_run:
            await operator.delete(queue, key, group=group_name)
            return None
        return await operator.delete_parked(wanted, source=options.source(), dry_run=dry_run)

    show_begun(ask(order, url, app), json=json, done=f"visit {key!r} of {queue!r} is deleted")


def _refuse_all(wanted: ParkedFilter, everything: bool) -> None:
    if wanted.is_empty and not everything:
        raise InvalidSetting("name which ones (--queue, --error-type, ...), or say --all")


async def _wanted(
    operator: Operator,
    queue: str | None,
    key: str | None,
    group_name: str | None,
    error: str | None,
    error_type: str | None,
    fingerprint: str | None,
    since: str | None,
    until: str | None,
) -> ParkedFilter:
    return ParkedFilter(
        queue=queue,
        key=key,
        group=group_name,
        error=error,
        error_type=error_type,
        fingerprint=fingerprint,
        since=await options.moment(operator, "since", since),
        until=await options.moment(operator, "until", until),
    )
