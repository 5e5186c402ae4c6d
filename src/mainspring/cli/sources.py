"""`mainspring sources`: list, show, pause, resume, seek, rejects."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask
from mainspring.errors import InvalidSetting
from mainspring.phrases import counted
from mainspring.sources.operate.operator import PartitionState

group = typer.Typer(
    cls=CommandGroup,
    help="Sources: what is read of brokers; pause, resume, seek.",
    no_args_is_help=True,
)
rejects = typer.Typer(cls=CommandGroup, help="Records that were put aside.", no_args_is_help=True)
group.add_typer(rejects, name="rejects")
Name = Annotated[str, typer.Argument(help="The source.")]
Partition = Annotated[
    str | None, typer.Option(help="One partition, as list shows it: orders/0, ORDERS/orders.*")
]
Offset = Annotated[int | None, typer.Option(min=0, help="One record of the partition.")]


@group.command("list")
def list_sources(
    limit: options.Limit = 100,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """All partitions of all sources: how far they are read, and how far behind."""
    _print(ask(lambda operator: operator.sources.partitions(limit=limit), url, app), json)


@group.command("show")
def show_source(
    name: Name,
    limit: options.Limit = 100,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The partitions of one source."""
    _print(ask(lambda operator: operator.sources.partitions(name, limit=limit), url, app), json)


def _print(found: list[PartitionState], json: bool) -> None:
    if json:
        show.as_json([each._asdict() for each in found])
        return
    show.print_table(
        ("source", "partition", "state", "next", "lag", "looked at", "aside", "error"),
        (
            (
                each.source,
                each.partition,
                each.state,
                each.start or each.next,
                each.lag,
                each.looked_at,
                each.rejects,
                show.first_line(each.error, 300),
            )
            for each in found
        ),
        empty="no partition of a source is known yet: a worker that declares one finds them; "
        "mainspring status says whether its broker is away",
    )


@group.command()
def pause(name: Name, url: options.Url = None, app: options.App = None) -> None:
    """Read nothing of a source until it is resumed."""
    ask(lambda operator: operator.sources.pause(name), url, app)
    show.say(f"source {name!r} is paused; its readers end within seconds")


@group.command()
def resume(
    name: Name, partition: Partition = None, url: options.Url = None, app: options.App = None
) -> None:
    """Undo a pause, and let go on what had stopped."""
    gone_on = ask(lambda operator: operator.sources.resume(name, partition), url, app)
    told = f": {', '.join(gone_on)} had stopped" if gone_on else ""
    show.say(f"source {name!r} goes on{told}")


@group.command()
def seek(
    name: Name,
    to: Annotated[
        str, typer.Option("--to", help="An offset, earliest, latest, or 2026-03-10T01:00:00Z.")
    ],
    partition: Partition = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Read on elsewhere, and let go on what had stopped. The one order that passes records over."""
    place = _place(to)
    moved = ask(lambda operator: operator.sources.seek(name, place, partition), url, app)
    show.say(f"source {name!r} is read from {to} on: {', '.join(moved)}")


def _place(text: str) -> int | str | datetime:
    if text.isdecimal():
        return int(text)
    if text in ("earliest", "latest"):
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSetting(
            f"--to must be an offset, earliest, latest or a time such as 2026-03-10T01:00:00Z, got {text!r}"
        ) from None


@rejects.command("list")
def list_rejects(
    name: Name,
    partition: Partition = None,
    limit: options.Limit = 100,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Records that were put aside, and why; never what is in them."""
    found = ask(lambda operator: operator.sources.rejects(name, partition, limit=limit), url, app)
    if json:
        show.as_json([each._asdict() for each in found])
        return
    show.print_table(
        ("partition", "offset", "bytes", "since", "to be tried", "error"),
        (
            (r.partition, r.offset, r.bytes, r.rejected_at, r.retry_at, show.first_line(r.error))
            for r in found
        ),
        empty="no record was put aside",
    )


@rejects.command()
def retry(
    name: Name,
    partition: Partition = None,
    offset: Offset = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Have records mapped again; a worker does it within half a minute."""
    count = ask(lambda operator: operator.sources.retry_rejects(name, partition, offset), url, app)
    show.say(f"{counted(count, 'record')} of {name!r} to be tried again")


@rejects.command()
def drop(
    name: Name,
    partition: Partition = None,
    offset: Offset = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Forget records that were put aside."""
    count = ask(lambda operator: operator.sources.drop_rejects(name, partition, offset), url, app)
    show.say(f"{counted(count, 'record')} of {name!r} dropped")
