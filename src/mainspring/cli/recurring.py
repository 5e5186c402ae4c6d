"""`mainspring recurring`: list, pause, resume, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask

group = typer.Typer(cls=CommandGroup, help="What comes again by a cron line.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Its name: that of its task.")]


@group.command("list")
def list_recurring(
    url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """All recurring visits, with their last and next tick."""
    found = ask(lambda operator: operator.recurring(), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("name", "queue", "cron", "zone", "last", "next", "paused"),
        ((r.name, r.queue, r.cron, r.zone, r.last_at, r.next_at, r.paused_at) for r in found),
        empty="nothing recurs",
    )


@group.command()
def pause(name: Name, url: options.Url = None, app: options.App = None) -> None:
    """Make no tick until it is resumed."""
    ask(lambda operator: operator.pause_recurring(name), url, app)
    show.say(f"recurring {name!r} is paused")


@group.command()
def resume(name: Name, url: options.Url = None, app: options.App = None) -> None:
    """Go on with the next tick; those of the pause are skipped."""
    ask(lambda operator: operator.resume_recurring(name), url, app)
    show.say(f"recurring {name!r} goes on")


@group.command()
def remove(name: Name, url: options.Url = None, app: options.App = None) -> None:
    """Remove a schedule that no code declares any more."""
    ask(lambda operator: operator.remove_recurring(name), url, app)
    show.say(f"recurring {name!r} is removed")
