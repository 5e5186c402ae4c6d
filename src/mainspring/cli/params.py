"""`mainspring params`: list, show, create, set, rewind, affected."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask_app, ask_host
from mainspring.host import DatabaseHost
from mainspring.reactive.decide.evaluate import show_value
from mainspring.reactive.declare.params import Affected
from mainspring.reactive.model.values import AnyParam, Param, parse_value, split_key

if TYPE_CHECKING:
    from mainspring.app import Mainspring


group = typer.Typer(
    cls=CommandGroup, help="Params of the data: what is loaded up to where.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="Its full name, such as dwh.orders.loaded_to.")]
Value = Annotated[
    str, typer.Argument(help="2026-03-10T01:00:00+00:00, a number, or a version's text.")
]
By = Annotated[str | None, typer.Option("--by", help="Who sets it; else you.")]
Reason = Annotated[str | None, typer.Option("--why", help="Why, for its history.")]


@group.command("list")
def list_params(
    after: Annotated[str, typer.Option(help="Begin after this name.")] = "",
    limit: options.Limit = 100,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """All params, with their values and who uses and produces them."""
    found = ask_host(lambda target: target.reactive.params(after=after, limit=limit), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("param", "kind", "value", "set", "by", "rewinds", "used by", "produced by"),
        (
            (
                p.param.key,
                p.param.kind,
                show_value(p.value) + (" (far ahead)" if p.ahead else ""),
                p.changed_at,
                p.changed_by,
                p.rewinds,
                ", ".join(p.consumers) or "-",
                ", ".join(p.producers) or "-",
            )
            for p in found
        ),
        empty="there are no params",
    )


@group.command("show")
def show_param(
    name: Name,
    limit: options.Limit = 20,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """What was set of a param, by whom and why, newest first."""

    async def read(target: DatabaseHost) -> object:
        await target.reactive.params(name=name)  # an unknown one is named with the nearest
        return await target.reactive.param_history(name, limit=limit)

    found = ask_host(read, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("set", "value", "before", "rewind", "by", "why"),
        (
            (c.at, show_value(c.value), show_value(c.old), c.is_rewind, c.changed_by, c.why)
            for c in found  # type: ignore[attr-defined]
        ),
        empty="it was never set",
    )


@group.command()
def create(
    name: Name,
    kind: Annotated[str, typer.Option(help="instant, integer or version.")] = "instant",
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Make a param, so that SQL can set it before any release declares it."""
    param: AnyParam = Param(*split_key(name), kind)  # type: ignore[arg-type]
    ask_host(lambda target: target.reactive.create_param(param), url, app)
    show.say(f"param {name!r} is there, of kind {kind!r} if it is new")


@group.command("set")
def set_param(
    name: Name,
    value: Value,
    if_greater: Annotated[
        bool, typer.Option("--if-greater", help="Leave it alone where it is ahead.")
    ] = False,
    by: By = None,
    why: Reason = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Set a param forward. What goes back is refused: that is `rewind`."""

    async def advance(target: Mainspring) -> bool:
        param = (await target.reactive.params(name=name))[0].param
        given = parse_value(param, value)
        setter = by or options.source()
        return await target.advance(param, given, if_greater=if_greater, by=setter, why=why)

    moved = ask_app(advance, url, app)
    show.say(f"param {name!r} is set" if moved else f"param {name!r} is left as it is")


@group.command()
def rewind(
    name: Name,
    to: Value,
    chunk: Annotated[
        list[str] | None, typer.Option("--chunk", help="Start of a restated chunk; repeatable.")
    ] = None,
    by: By = None,
    why: Reason = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the tasks that it would affect.")
    ] = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Move a param back: its data was restated. Lists the affected tasks and their repairs."""

    async def move(target: Mainspring) -> tuple[AnyParam, list[Affected]]:
        param = (await target.reactive.params(name=name))[0].param
        starts = [parse_value(param, text) for text in chunk or []]
        setter = by or options.source()
        given = parse_value(param, to)
        if dry_run:
            tried = await target.reactive.rewind(name, given, chunks=starts, dry_run=True)
            return param, tried
        return param, await target.rewind(param, given, chunks=starts, by=setter, why=why)

    param, found = ask_app(move, url, app)
    if json:
        show.as_json(found)
        return
    would = "would be" if dry_run else "is"
    show.say(f"param {name!r} {would} at {show_value(parse_value(param, to))}")
    _print_affected(param, found)


@group.command()
def affected(
    name: Name, url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """Tasks that have seen more of a param than it has since its last rewind, and their repairs."""

    async def read(target: DatabaseHost) -> tuple[AnyParam, list[Affected]]:
        param = (await target.reactive.params(name=name))[0].param
        return param, await target.reactive.affected(name)

    param, found = ask_host(read, url, app)
    if json:
        show.as_json(found)
    else:
        _print_affected(param, found)


def _print_affected(param: AnyParam, found: list[Affected]) -> None:
    if not found:
        show.say("no task is affected")
        return
    for task in found:
        busy = (
            ", running on the old value" if task.running else ", queued" if task.in_flight else ""
        )
        show.say(f"{task.task}: has seen {show_value(task.seen)}{busy}")
        for line in repairs(param, task):
            show.say(f"  {line}")


def repairs(param: AnyParam, task: Affected) -> list[str]:
    """What repairs an affected task, as commands to paste (R13)."""
    name = shlex.quote(task.task)
    move = f"mainspring reactive seen move {name} {param.key} <value>"
    delete = f"mainspring reactive seen delete {name} {param.key}"
    record = f"mainspring reactive run {name} --record"
    match task.repair:
        case "rerun":
            why = f"mainspring why {name}"
            return [
                "does it again when its whole trigger is true (on_rewind='rerun'): it counts from there, "
                f"and a second Delta still waits for news of its own; {why} says for what",
                f"at once: {record}",
            ]
        case "held":
            return ["is held (on_rewind='hold') until one of these:", move, delete, record]
        case "run and record":
            return [record]
    return [move, delete]
