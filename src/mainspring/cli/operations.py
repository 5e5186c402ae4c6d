"""`mainspring operations`: list, show, pause, resume, cancel."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask
from mainspring.jobs.operation import Operation, OperationItem
from mainspring.operator import Operator
from mainspring.phrases import counted

group = typer.Typer(
    cls=CommandGroup, help="Bulk jobs: their progress; pause, resume, cancel.", no_args_is_help=True
)
FOLLOW_SECONDS = 0.5
Id = Annotated[int, typer.Argument(help="The operation's number.")]


@group.command("list")
def list_operations(
    state: Annotated[str | None, typer.Option(help="Only those in this state.")] = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Operations, newest first."""
    found = ask(lambda operator: operator.operations(state=state, limit=limit), url, app)
    if json:
        show.as_json(found)
        return
    columns = ("kind", "state", "progress", "done", "failed", "total", "source")
    show.print_table(
        ("id", *columns, "started", "ended"),
        ((o.id, *(_value(o, name) for name in columns), o.created_at, o.ended_at) for o in found),
        empty="there are no operations",
    )


@group.command("show")
def show_operation(
    id: Id,
    failed: Annotated[bool, typer.Option("--failed", help="Only items that failed.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Draw its progress until it stops or ends.")
    ] = False,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """One operation, with its items."""

    async def question(operator: Operator) -> tuple[Operation, list[OperationItem]]:
        found = await (_followed(operator, id) if follow else operator.operation(id))
        return found, await operator.operation_items(id, failed_only=failed, limit=limit)

    found, items = ask(question, url, app)
    items = show.keys_apart(items)
    if json:
        show.as_json({"operation": found, "items": items})
        return
    show.facts(_facts(found))
    show.print_table(
        ("number", "queue", "key", "error"),
        ((i.number, i.queue, i.key, i.error) for i in items),
        empty="no items yet",
    )


async def _followed(operator: Operator, id: int) -> Operation:
    """The operation as it is when it no longer runs; its bar is drawn meanwhile, on a terminal."""
    with show.live(transient=True) as live:
        while (found := await operator.operation(id)).state == "running":
            live.update(f"operation {id}  {_progress(found)}", refresh=True)
            await asyncio.sleep(FOLLOW_SECONDS)
    return found


def _progress(found: Operation) -> str:
    """Ended is all there was, whatever the estimate of the total said."""
    done = found.done + found.failed
    return show.bar(done, done if found.state == "done" else found.total)


def _value(found: Operation, name: str) -> object:
    return _progress(found) if name == "progress" else getattr(found, name)


def _facts(found: Operation) -> list[tuple[str, object]]:
    names = ("id", "kind", "state", "progress", "done", "failed", "total", "source", "order")
    return [(n, _value(found, n)) for n in (*names, "error", "created_at", "ended_at")]


def show_begun(found: Operation | None, *, json: bool, done: str = "") -> None:
    """Say what an order has begun; None: it was carried out at once."""
    if json:
        show.as_json({"done": True} if found is None else found)
    elif found is None:
        show.say(done)
    elif found.id is None:
        show.say(f"dry run: {found.total} would be touched")
    else:
        show.say(
            f"operation {found.id} begins ({counted(found.total or 0, 'item')}); "
            f"mainspring operations show {found.id}"
        )


@group.command()
def pause(id: Id, url: options.Url = None, app: options.App = None) -> None:
    """Stop an operation after the step that is under way."""
    ask(lambda operator: operator.pause_operation(id), url, app)
    show.say(f"operation {id} is paused")


@group.command()
def resume(id: Id, url: options.Url = None, app: options.App = None) -> None:
    """Let an operation go on that is paused, failed or parked."""
    ask(lambda operator: operator.resume_operation(id), url, app)
    show.say(f"operation {id} goes on")


@group.command()
def cancel(id: Id, url: options.Url = None, app: options.App = None) -> None:
    """End an operation; what was done stays done."""
    ask(lambda operator: operator.cancel_operation(id), url, app)
    show.say(f"operation {id} is cancelled")
