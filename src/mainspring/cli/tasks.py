"""`mainspring tasks`: list, show, watch, cancel, run-now, enqueue, enqueue-many."""

from __future__ import annotations

import asyncio
import json as jsonlib
import re
from typing import TYPE_CHECKING, Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.lines import bar, json_lines, opened
from mainspring.cli.operations import show_begun
from mainspring.cli.target import ask, ask_app
from mainspring.errors import InvalidArguments, InvalidSetting, NotFound
from mainspring.jobs.operation import Operation
from mainspring.operate.calls import CallFilter
from mainspring.operate.history import HistoryFilter, PastRun
from mainspring.operate.visits import LiveVisit
from mainspring.operator import Operator
from mainspring.tasks.declare.progress import Progress

if TYPE_CHECKING:
    from mainspring.app import Mainspring

group = typer.Typer(
    cls=CommandGroup, help="Tasks that wait, run or are scheduled.", no_args_is_help=True
)
OneKey = Annotated[
    str | None, typer.Argument(help="This one: its id, or its uniqueness key; else all that fit.")
]
Key = Annotated[str | None, typer.Argument(help="Its id, or its uniqueness key.")]
Name = Annotated[str | None, typer.Argument(help="The task's name, or a call's id alone.")]
NameOrKey = Annotated[str, typer.Argument(help="The task's name; or an id or a key alone.")]
State = Annotated[
    str | None, typer.Option(help="Only what is waiting, scheduled, running or parked.")
]
Field = Annotated[
    list[str] | None, typer.Option("--field", help="Whose argument has this value: name=value.")
]
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST = 500  # that are asked for at once
_LOOK_EVERY = 0.5  # seconds
All = Annotated[bool, typer.Option("--all", help="Really all of them.")]


@group.command("list")
def list_tasks(
    queue: options.Queue = None,
    state: Annotated[str | None, typer.Option(help="waiting, scheduled or running.")] = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Running tasks, then those that wait, in the order in which they will run."""

    async def question(operator: Operator) -> list[LiveVisit]:
        found = await operator.visits(queue=queue, state=state, limit=min(limit + 1, _MOST))
        return await options.found_in(operator, queue, found)

    found = show.keys_apart(ask(question, url, app))
    if json:
        show.as_json(found[:limit])
        return
    show.print_table(
        ("queue", "group", "key", "state", "priority", "due", "attempt"),
        (
            (v.queue, v.group, v.key, v.state, v.priority, v.due_at, v.attempt)
            for v in found[:limit]
        ),
        empty="nothing waits",
    )
    if len(found) > limit:
        show.say(f"and more than these {limit}: --limit; how many, mainspring status")


@group.command("show")
def show_task(
    name: NameOrKey,
    one: Key = None,
    queue: options.Queue = None,
    group_name: options.Group = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """One call: where it is, and its runs so far. By a task's name and a key, or by its id alone."""
    key = name if one is None else one
    queue = queue if one is None else name

    async def question(
        operator: Operator,
    ) -> tuple[list[LiveVisit], list[PastRun], dict[str, Progress]]:
        live = await operator.find(key, queue=queue, group=group_name)
        wanted = HistoryFilter(key=key, queue=queue, group=group_name)
        words = await operator.progress([str(visit.id) for visit in live]) if live else {}
        return live, await operator.history(wanted, limit=20), words

    found, past, words = ask(question, url, app)
    live, runs = show.keys_apart(found), show.keys_apart(past)
    if not live and not runs:
        hint = "" if group_name else "; if it is in a group, give --group"
        raise NotFound(f"no task {key!r} is live or in history{hint}")
    if json:
        show.as_json({"live": live, "runs": runs, "progress": words})
        return
    for visit in live:
        show.facts([*_facts(visit), ("progress", _said(words.get(str(visit.id))))])
    show.print_table(
        ("started", "ended", "queue", "attempt", "outcome", "ms", "error", "result"),
        (
            (
                r.started_at,
                r.ended_at,
                r.queue,
                r.attempt,
                r.outcome,
                r.duration_ms,
                show.first_line(r.error),
                r.result,
            )
            for r in runs
        ),
        empty="it has not run yet",
    )


def _facts(visit: LiveVisit) -> list[tuple[str, object]]:
    names = ("queue", "group", "key", "id", "state", "priority", "due_at", "attempt", "crashes")
    more = ("holder", "started_at", "held_until", "called_off", "expires_at", "parked_at", "error")
    return [
        (name, getattr(visit, name))
        for name in (*names, *more, "payload", "created_at", "changed_at")
    ]


def _said(word: Progress | None) -> str | None:
    """How far a call is, in words."""
    if word is None:
        return None
    return f"{word.done:4.0%}" + ("" if word.note is None else f"  {word.note}")


@group.command()
def watch(
    name: NameOrKey,
    one: Key = None,
    group_name: options.Group = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Follow one call: a line for each word of its progress, until it has ended."""
    key, queue = (name, None) if one is None else (one, name)

    async def follow(operator: Operator) -> None:
        said: Progress | None = None
        while live := await operator.find(key, queue=queue, group=group_name):
            id = str(live[0].id)
            word = (await operator.progress([id])).get(id)
            if word is not None and word != said:
                said = word
                show.as_json_line(word._asdict()) if json else show.say(_said(word) or "")
            if live[0].state == "parked":
                _over(live[0].state, live[0].error, json)
                return
            await asyncio.sleep(_LOOK_EVERY)
        runs = await operator.history(
            HistoryFilter(key=key, queue=queue, group=group_name), limit=1
        )
        if not runs:
            of = "" if queue is None else f"{queue!r} "
            raise NotFound(f"no task {of}{key!r} is live or in history")
        _over(runs[0].outcome, runs[0].error, json)

    ask(follow, url, app)


def _over(state: str, error: str | None, json: bool) -> None:
    if json:
        show.as_json_line({"state": state, "error": error})
    else:
        show.say(state + (f": {show.first_line(error)}" if error else ""))


@group.command()
def cancel(
    queue: Name = None,
    key: OneKey = None,
    group_name: options.Group = None,
    state: State = None,
    field: Field = None,
    since: options.Since = None,
    until: options.Until = None,
    reason: Annotated[str | None, typer.Option(help="What history says.")] = None,
    everything: All = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Cancel tasks, waiting or running: one (a name and a key) at once, several as an operation."""

    async def order(operator: Operator) -> Operation | str:
        name, one = await _named(operator, queue, key)
        if name and one and not dry_run:
            return await operator.tasks.cancel(name, one, group=group_name, reason=reason)
        wanted = await _wanted(operator, name, one, group_name, state, field, since, until)
        await _check(operator, wanted, everything)
        return await operator.tasks.cancel_all(
            wanted, source=options.source(), reason=reason, dry_run=dry_run
        )

    done = ask(order, url, app)
    ends = "is told to end" if done == "cancelling" else "is cancelled"
    _show(done, json, f"{_called(queue, key)} {ends}")


@group.command("run-now")
def run_now(
    queue: Name = None,
    key: OneKey = None,
    group_name: options.Group = None,
    field: Field = None,
    since: options.Since = None,
    until: options.Until = None,
    everything: All = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Run tasks now that are for later or wait for a retry: one at once, several as an operation."""

    async def order(operator: Operator) -> Operation | str:
        name, one = await _named(operator, queue, key)
        if name and one and not dry_run:
            return await operator.tasks.run_now(name, one, group=group_name)
        wanted = await _wanted(operator, name, one, group_name, None, field, since, until)
        await _check(operator, wanted, everything)
        return await operator.tasks.run_all_now(wanted, source=options.source(), dry_run=dry_run)

    done = ask(order, url, app)
    _show(done, json, f"{_called(queue, key)} is {done}")


async def _named(
    operator: Operator, name: str | None, key: str | None
) -> tuple[str | None, str | None]:
    """The task's name and the call's key, also where an id alone was given."""
    if name is None or key is not None or not ID.fullmatch(name):
        return name, key
    if not (live := await operator.find(name)):
        raise NotFound(f"no call {name!r} is live: it has ended, or was never made")
    return live[0].queue, name


def _called(name: str | None, key: str | None) -> str:
    return f"task {name!r}" + ("" if key is None else f" {key!r}")


def _show(done: Operation | str, json: bool, said: str) -> None:
    if not isinstance(done, str):
        show_begun(done, json=json)
    elif json:
        show.as_json({"state": done})
    else:
        show.say(said)


async def _wanted(
    operator: Operator,
    queue: str | None,
    key: str | None,
    group_name: str | None,
    state: str | None,
    fields: list[str] | None,
    since: str | None,
    until: str | None,
) -> CallFilter:
    parts = [(given, *given.partition("=")) for given in fields or ()]
    for given, name, equals, _ in parts:
        if not (name and equals):
            raise InvalidSetting(f"--field must be name=value, got {given!r}")
    return CallFilter(
        queue=queue,
        key=key,
        group=group_name,
        state=state,
        fields={name: value for _, name, _, value in parts},
        since=await options.moment(operator, "since", since),
        until=await options.moment(operator, "until", until),
    )


async def _check(operator: Operator, wanted: CallFilter, everything: bool) -> None:
    if wanted.is_empty and not everything:
        raise InvalidSetting("name which ones (a task's name, --group, --field ...), or say --all")
    if wanted.queue is not None:
        await operator.check_queue(wanted.queue)


@group.command()
def enqueue(
    name: Annotated[str, typer.Argument(help="The task's name.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments, a JSON object.")] = "{}",
    at: Annotated[str | None, typer.Option(help="Not before this time.")] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="Greater is sooner.")] = None,
    group_name: Annotated[str | None, typer.Option("--group", help="In this group.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="At most one such at a time.")] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Enqueue a task by its name.

    Its arguments are checked now where the application is named (`--app`), else when it runs.
    """
    given = _object(arguments)

    async def order(target: Mainspring) -> tuple[str, bool]:
        due_at = await options.moment(target.operator, "at", at)
        if (task := target.tasks.get(name)) is not None:
            how = task.options(at=due_at, priority=priority, group=group_name, key=key)
            return str((await how.enqueue(**given)).id), True
        id = await target.operator.enqueue(
            name, given, due_at=due_at, priority=priority, group=group_name, key=key
        )
        return id, False

    id, checked = ask_app(order, url, app)
    if json:
        show.as_json({"task": name, "id": id})
    else:
        unchecked = "" if checked else "; its arguments are checked when it runs (--app: now)"
        show.say(f"task {name!r} {id} is enqueued{unchecked}")


@group.command("enqueue-many")
def enqueue_many(
    name: Annotated[str, typer.Argument(help="The task's name.")],
    source: Annotated[
        str, typer.Option("--from", help="A file with a JSON object a line; -: standard input.")
    ],
    chunk: Annotated[int, typer.Option(min=1, max=100_000, help="Committed at a time.")] = 5_000,
    skip: Annotated[int, typer.Option(min=0, help="Lines that are in already.")] = 0,
    priority: Annotated[int | None, typer.Option(min=0, max=9, help="Greater is sooner.")] = None,
    group_name: Annotated[str | None, typer.Option("--group", help="In this group.")] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Enqueue a task for each line of a file: arguments by name, checked by the application.

    A chunk is enqueued whole or not at all. After an error --skip goes on behind what is in.
    """

    async def order(target: Mainspring) -> int:
        how = target.find_task(name).options(priority=priority, group=group_name)
        with opened(source) as lines, bar(source, on=not json) as advance:
            calls = json_lines(lines, skip, advance)
            return await how.enqueue_from(calls, chunk=chunk)

    count = ask_app(order, url, app)
    if json:
        show.as_json({"task": name, "enqueued": count})
    else:
        show.say(f"{count} calls of task {name!r} are enqueued")


def _object(text: str) -> dict[str, object]:
    try:
        value = jsonlib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"arguments must be JSON, got {text[:200]!r}: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"arguments must be a JSON object, got {text[:200]!r}")
    return value
