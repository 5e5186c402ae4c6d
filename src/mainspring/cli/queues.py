"""`mainspring queues`: list, pause, resume, limit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask
from mainspring.declaring import OWN
from mainspring.errors import InvalidSetting
from mainspring.operate.queues import QueueLoad
from mainspring.operator import Operator
from mainspring.phrases import counted, instant

group = typer.Typer(
    cls=CommandGroup, help="Queues: their load, pause and resume, limits.", no_args_is_help=True
)
COLUMNS = (
    "queue",
    "pool",
    "workers",
    "waiting",
    "scheduled",
    "running",
    "parked",
    "lag s",
    "limits",
    "paused",
)
SHOWN = 50  # rows that a look is given; more of them tell nobody anything
Name = Annotated[str, typer.Argument(help="The queue.")]
OneName = Annotated[str | None, typer.Argument(help="The queue; none with --all.")]


@group.command("list")
def list_queues(
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = SHOWN,
    exact: options.Exact = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Queues with what lies in them: of the engine's own those at work (--json: all)."""
    found = ask(lambda operator: operator.queues(exact=exact), url, app)
    if json:
        show.as_json(found)
        return
    listed = shown_queues(found)
    show.print_table(COLUMNS, map(queue_row, listed[:limit]), empty="there are no queues yet")
    if left := left_out(listed, limit):
        show.say(f"{left}; --limit {len(listed)} shows all")


def shown_queues(found: Iterable[QueueLoad]) -> list[QueueLoad]:
    """Queues to show: the engine's own only while they have something to do. By name while all can be
    shown, else those that need somebody first: unserved, late, parked, full."""
    listed = [queue for queue in found if not _is_idle_own(queue)]
    if len(listed) > SHOWN:
        listed.sort(key=lambda q: (not q.unserved, -q.lag_seconds, -q.parked, -q.waiting, q.name))
    return listed


def left_out(listed: list[QueueLoad], most: int) -> str:
    """How many queues are not shown, in words, or nothing."""
    more = len(listed) - most
    return f"and {counted(more, 'more queue')}" if more > 0 else ""


def _is_idle_own(queue: QueueLoad) -> bool:
    busy = (
        queue.waiting + queue.running + queue.parked
    )  # what is only scheduled is nobody's concern
    return queue.name.startswith(OWN) and not busy and queue.paused_at is None


def queue_row(queue: QueueLoad) -> tuple[object, ...]:
    """A queue as a row of COLUMNS."""
    limits = {
        "breaker after": queue.breaker_failures,
        "concurrency": queue.concurrency,
        "rate": queue.rate,
        "burst": queue.burst,
        "group burst": queue.group_burst,
        "group concurrency": queue.group_concurrency,
        "group rate": queue.group_rate,
        "full at" if queue.is_full else "waiting max": queue.waiting_max,
    }
    shown = ", ".join(f"{name} {value:g}" for name, value in limits.items() if value is not None)
    return (
        queue.name if queue.known else f"{queue.name} (unknown)",
        queue.pool,
        queue.workers,
        _count(queue, "waiting"),
        _count(queue, "scheduled"),
        queue.running,
        _count(queue, "parked"),
        queue.lag_seconds,
        shown or None,
        queue.pause or None,
    )


def _count(queue: QueueLoad, name: str) -> int | str:
    """A number where it is one: tables set numbers right."""
    return queue.count(name) if name in queue.capped else int(getattr(queue, name))


@group.command()
def pause(
    name: OneName = None,
    every: Annotated[bool, typer.Option("--all", help="All queues, the engine's too.")] = False,
    reason: options.Reason = None,
    until: options.PauseUntil = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Start nothing of a queue, or of any, until it is resumed or until a time; what runs goes on."""
    one = _one(name, every)

    async def order(operator: Operator) -> tuple[datetime | None, list[str]]:
        at = await options.later(operator, "until", until)
        if one:
            await operator.pause(str(name), reason=reason, until=at)
            return at, []
        return at, await operator.pause_all(reason=reason, until=at)

    at, before = ask(order, url, app)
    end = "" if at is None else f" until {instant(at)}"
    show.say(f"queue {name!r} is paused{end}" if one else f"every queue is paused{end}")
    if before:
        kept = " ".join(f"--keep {queue}" for queue in before)
        show.say(f"paused before: {', '.join(before)}; to leave them so, resume --all {kept}")


@group.command()
def resume(
    name: OneName = None,
    every: Annotated[bool, typer.Option("--all", help="All queues, the engine's too.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="With --all: a queue to leave paused; many times.")
    ] = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Undo a pause."""
    if _one(name, every):
        if keep:
            raise InvalidSetting("--keep goes with --all")
        ask(lambda operator: operator.resume(str(name)), url, app)
        show.say(f"queue {name!r} goes on")
        return
    ask(lambda operator: operator.resume_all(keep=keep or ()), url, app)
    show.say(f"every queue goes on, except {', '.join(keep)}" if keep else "every queue goes on")


def _one(name: str | None, every: bool) -> bool:
    if (name is None) is not every:
        raise InvalidSetting("name one queue, or give --all")
    return not every


@group.command()
def limit(
    name: Name,
    concurrency: Annotated[str | None, typer.Option(help="Runs at once, or 'none'.")] = None,
    rate: Annotated[str | None, typer.Option(help="Starts a second, or 'none'.")] = None,
    group_concurrency: Annotated[str | None, typer.Option(help="The same per group.")] = None,
    group_rate: Annotated[str | None, typer.Option(help="The same per group.")] = None,
    burst: Annotated[
        str | None, typer.Option(help="Starts at once after a quiet time, or 'none'.")
    ] = None,
    group_burst: Annotated[str | None, typer.Option(help="The same per group.")] = None,
    waiting_max: Annotated[
        str | None,
        typer.Option(
            help="Visits that may wait before roles that only enqueue are refused, or 'none'."
        ),
    ] = None,
    breaker_failures: Annotated[
        str | None, typer.Option(help="Failures in a row that open its breaker, or 'none'.")
    ] = None,
    breaker_pause: Annotated[
        str | None, typer.Option(help="Seconds for which it starts nothing then.")
    ] = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Set limits over all workers; they stand until the code declares others."""
    given = {
        "concurrency": concurrency,
        "rate": rate,
        "group_concurrency": group_concurrency,
        "group_rate": group_rate,
        "burst": burst,
        "group_burst": group_burst,
        "waiting_max": waiting_max,
        "breaker_failures": breaker_failures,
        "breaker_pause": breaker_pause,
    }
    limits = {key: _number(key, text) for key, text in given.items() if text is not None}
    if not limits:
        raise InvalidSetting("name a limit: --concurrency, --rate, --group-concurrency, ...")
    ask(lambda operator: operator.limit(name, source=options.source(), **limits), url, app)
    shown = (f"{key} {'lifted' if to is None else f'{to:g}'}" for key, to in limits.items())
    show.say(f"queue {name!r}: {', '.join(shown)}")


def _number(name: str, text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text) if name.endswith(("rate", "pause")) else int(text)
    except ValueError:
        raise InvalidSetting(f"{name} must be a number or 'none', got {text!r}") from None


@group.command()
def breakers(
    name: OneName = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Breakers of queues and groups that are not closed."""
    found = ask(lambda operator: operator.breakers(queue=name), url, app)
    if json:
        show.as_json(found)
        return
    rows = (
        (
            b.queue,
            b.group,
            b.opened_at,
            b.until,
            b.failures,
            None if b.is_open else b.at_once,
            b.reason,
        )
        for b in found
    )
    columns = ("queue", "group", "open since", "until", "failures", "tried with", "reason")
    show.print_table(columns, rows, empty="every breaker is closed")


Group = Annotated[str | None, typer.Option("--group", help="Of this group alone.")]


@group.command()
def open_breaker(
    name: Name,
    until: Annotated[str, typer.Option("--until", help="A time with zone, or in 90s, 2h, 3d.")],
    of_group: Group = None,
    reason: options.Reason = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Start nothing of a queue, or of one of its groups, until a time; then it is tried."""

    async def order(operator: Operator) -> datetime:
        at = await options.later(operator, "until", until)
        assert at is not None
        await operator.open_breaker(name, until=at, group=of_group, reason=reason)
        return at

    at = ask(order, url, app)
    show.say(f"the breaker of {_whose(name, of_group)} is open until {instant(at)}")


@group.command()
def close_breaker(
    name: Name,
    of_group: Group = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Let a queue, or one of its groups, run on at once."""
    ask(lambda operator: operator.close_breaker(name, group=of_group), url, app)
    show.say(f"the breaker of {_whose(name, of_group)} is closed")


def _whose(name: str, of_group: str | None) -> str:
    return f"queue {name!r}" if of_group is None else f"group {of_group!r} of queue {name!r}"
