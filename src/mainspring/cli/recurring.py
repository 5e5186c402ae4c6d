"""`mainspring recurring`: list, show, add, change, pause, resume, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask
from mainspring.phrases import instant

if TYPE_CHECKING:
    from datetime import datetime

    from mainspring.jobs.schedule import Recurring, ScheduleSettings
    from mainspring.operator import Operator

group = typer.Typer(
    cls=CommandGroup, help="Schedules: what comes again by a cron line.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="The schedule: that of a task has the task's name.")]
Cron = Annotated[
    str | None, typer.Option(help="'[second] minute hour day-of-month month day-of-week'.")
]
Zone = Annotated[str | None, typer.Option(help="The time zone of the line, as Europe/Berlin.")]
Arguments = Annotated[
    list[str] | None, typer.Option("--arg", help="An argument, as field=value; many times.")
]
CatchUp = Annotated[
    str | None, typer.Option(help="Of ticks that were missed: 'skip' all, make 'one' or 'all'.")
]
CatchUpMax = Annotated[int | None, typer.Option(help="With 'all': the latest so many.")]
TickArgument = Annotated[str | None, typer.Option(help="The argument that gets the tick's time.")]
Priority = Annotated[int | None, typer.Option(help="0 to 9, greater is sooner.")]


@group.command("list")
def list_recurring(
    url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """All schedules, with their last and next tick."""
    found = ask(lambda operator: operator.recurring(), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("name", "starts", "cron", "zone", "last", "next", "paused"),
        ((r.name, r.target, r.cron, r.zone, r.last_at, r.next_at, r.paused_at) for r in found),
        empty="nothing recurs",
    )


@group.command("show")
def show_recurring(
    name: Name,
    count: Annotated[int, typer.Option(min=1, max=100, help="How many ticks to tell.")] = 5,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """A schedule whole: what it starts, whether it is paused, its next ticks."""

    async def question(operator: Operator) -> tuple[Recurring, list[datetime]]:
        return await operator.schedule(name), await operator.next_ticks(name, count)

    found, ticks = ask(question, url, app)
    if json:
        show.as_json({"schedule": found, "ticks": ticks})
        return
    origin = "declared in code" if found.is_declared else "made at run time"
    by = f", changed by {found.changed_by}" if found.changed_by and found.is_declared else ""
    show.say(f"{found.name}: starts {found.target} by '{found.cron}' in {found.zone}")
    show.say(f"  {origin}{by}; missed ticks: {found.catch_up}")
    if found.paused_at is not None:
        until = "" if found.paused_until is None else f" until {instant(found.paused_until)}"
        reason = "" if found.pause_reason is None else f": {found.pause_reason}"
        show.say(f"  paused since {instant(found.paused_at)}{until}{reason}")
    show.say(f"  last tick: {'none' if found.last_at is None else instant(found.last_at)}")
    show.say(f"  next ticks: {', '.join(map(instant, ticks))}")


@group.command()
def add(
    name: Name,
    target: Annotated[str, typer.Argument(help="The task or process type that it starts.")],
    cron: Annotated[str, typer.Option(help="'[second] minute hour day month day-of-week'.")],
    zone: Zone = None,
    arguments: Arguments = None,
    catch_up: CatchUp = None,
    catch_up_max: CatchUpMax = None,
    tick_argument: TickArgument = None,
    priority: Priority = None,
    group: options.Group = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Make a schedule. Whether its arguments fit is known when it ticks."""
    given = _given(
        cron=cron,
        zone=zone,
        catch_up=catch_up,
        catch_up_max=catch_up_max,
        tick_argument=tick_argument,
        priority=priority,
        group=group,
    )

    async def order(operator: Operator) -> datetime:
        await operator.schedule_by_name(
            name, target, options.pairs("arg", arguments), source=options.source(), **given
        )
        return (await operator.next_ticks(name, 1))[0]

    show.say(f"schedule {name!r} ticks first at {instant(ask(order, url, app))}")


@group.command()
def change(
    name: Name,
    cron: Cron = None,
    zone: Zone = None,
    catch_up: CatchUp = None,
    catch_up_max: CatchUpMax = None,
    tick_argument: TickArgument = None,
    priority: Priority = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Change what is named; a new line holds from now on. Stands until the code declares another."""
    wishes = _given(
        cron=cron,
        zone=zone,
        catch_up=catch_up,
        catch_up_max=catch_up_max,
        tick_argument=tick_argument,
        priority=priority,
    )

    async def order(operator: Operator) -> datetime:
        await operator.change_schedule(name, wishes, source=options.source())
        return (await operator.next_ticks(name, 1))[0]

    show.say(f"schedule {name!r} ticks next at {instant(ask(order, url, app))}")


def _given(**values: object) -> ScheduleSettings:
    given = {name: value for name, value in values.items() if value is not None}
    return cast("ScheduleSettings", given)


@group.command()
def pause(
    name: Name,
    reason: options.Reason = None,
    until: options.PauseUntil = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Make no tick until it is resumed, or until a time."""

    async def order(operator: Operator) -> datetime | None:
        at = await options.later(operator, "until", until)
        await operator.pause_recurring(name, reason=reason, until=at, source=options.source())
        return at

    at = ask(order, url, app)
    show.say(f"schedule {name!r} is paused{'' if at is None else f' until {instant(at)}'}")


@group.command()
def resume(
    name: Name,
    catch_up: Annotated[
        str, typer.Option(help="Of the ticks of the pause: 'skip' all, make 'one' or 'all'.")
    ] = "skip",
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Go on with the next tick."""
    ask(
        lambda operator: operator.resume_recurring(
            name, catch_up=catch_up, source=options.source()
        ),
        url,
        app,
    )
    show.say(f"schedule {name!r} goes on")


@group.command()
def remove(name: Name, url: options.Url = None, app: options.App = None) -> None:
    """Remove a schedule; one that code declares is back when a worker starts."""
    ask(lambda operator: operator.remove_recurring(name, source=options.source()), url, app)
    show.say(f"schedule {name!r} is removed")
