"""`mainspring reactive`: list, run, pause, resume, seen, checks, cap, apply."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.target import ask_host, named, resolve
from mainspring.host import DatabaseHost
from mainspring.reactive.decide.evaluate import show_value
from mainspring.reactive.model.values import load_value, parse_value
from mainspring.reactive.operate.states import TaskState

group = typer.Typer(
    cls=CommandGroup,
    help="Tasks that run when the state of the data says so.",
    no_args_is_help=True,
)
seen = typer.Typer(
    cls=CommandGroup, help="What a task saw at its last recorded success.", no_args_is_help=True
)
group.add_typer(seen, name="seen")
Task = Annotated[str, typer.Argument(help="The task's name.")]
Param = Annotated[str, typer.Argument(help="The param's full name.")]


@group.command("list")
def list_tasks(
    missed: Annotated[
        bool, typer.Option("--missed", help="Only those that missed their expectation.")
    ] = False,
    after: Annotated[str, typer.Option(help="Begin after this name.")] = "",
    limit: options.Limit = 100,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """All reactive tasks as they stand, retired ones too."""
    found = ask_host(
        lambda target: target.reactive.tasks(after=after, missed_only=missed, limit=limit), url, app
    )
    if json:
        show.as_json([_described(task) for task in found])
        return
    show.print_table(
        ("task", "state", "priority", "pool", "last success", "missed", "failures", "trigger"),
        (
            (
                t.task,
                t.state,
                t.priority,
                t.pool,
                t.succeeded_at,
                t.missed_at,
                t.failures,
                str(t.trigger),
            )
            for t in found
        ),
        empty="no task missed its expectation" if missed else "there are no reactive tasks",
    )


def _described(task: TaskState) -> dict[str, object]:
    names = [name for name in TaskState.__slots__ if name != "trigger"]
    return {**{name: getattr(task, name) for name in names}, "trigger": str(task.trigger)}


@group.command()
def run(
    task: Task,
    record: Annotated[
        bool, typer.Option("--record", help="Its success replaces what the task has seen.")
    ] = False,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Ask for a manual run, whatever the trigger says."""
    waits = ask_host(
        lambda target: target.reactive.run(task, record=record, by=options.source()), url, app
    )
    shown = "its success will be recorded" if record else "nothing will be recorded"
    show.say(f"task {task!r} will run{' after the run in flight' if waits else ''}; {shown}")


@group.command()
def pause(task: Task, url: options.Url = None, app: options.App = None) -> None:
    """Check the task no more until it is resumed; a run in flight goes on."""
    ask_host(lambda target: target.reactive.pause(task), url, app)
    show.say(f"task {task!r} is paused")


@group.command()
def resume(task: Task, url: options.Url = None, app: options.App = None) -> None:
    """Check the task again, at once."""
    ask_host(lambda target: target.reactive.resume(task), url, app)
    show.say(f"task {task!r} goes on")


@group.command()
def checks(
    task: Task,
    limit: options.Limit = 20,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Past checks of a task, those whose outcome differed from the one before."""

    async def read(target: DatabaseHost) -> object:
        await target.reactive.tasks(task=task)  # an unknown one is named with the nearest
        return await target.reactive.evaluations(task, limit=limit)

    found = ask_host(read, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("at", "trigger", "fired", "true leaves", "cause"),
        (
            (e.at, e.verdict, e.fired, _leaves(e.leaves), e.cause)
            for e in found  # type: ignore[attr-defined]
        ),
        empty="it was not checked yet",
    )


def _leaves(leaves: list[dict[str, object]]) -> str:
    return ", ".join(str(leaf["leaf"]) for leaf in leaves if leaf["true"]) or "-"


@group.command()
def cap(
    pool: Annotated[str, typer.Argument(help="The pool.")],
    most: Annotated[str, typer.Argument(help="How many run at once, or 'none'.")],
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Limit how many reactive tasks of a pool run at once; stands until the code's word changes."""
    if most != "none" and not most.isdigit():
        raise typer.BadParameter(f"a cap is a number or 'none', got {most!r}")
    number = None if most == "none" else int(most)
    ask_host(lambda target: target.reactive.set_cap(pool, number), url, app)
    show.say(f"pool {pool!r} has {'no cap' if number is None else f'a cap of {number}'}")


@group.command()
def apply(
    app: Annotated[
        str | None, typer.Argument(help="The application, module:name; else MAINSPRING_APP.")
    ] = None,
    url: options.Url = None,
) -> None:
    """Make the application's params and triggers known, as the start of a worker does."""
    declared = resolve(url, named(app))

    async def register() -> list[str]:
        async with declared:
            return await declared.reactive_apply()

    refused = asyncio.run(register())
    show.say(f"{len(declared.reactive_tasks)} reactive tasks are known")
    if refused:
        show.say(f"left alone, a newer release has them: {', '.join(refused)}")


@seen.command("show")
def show_seen(
    task: Task, url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """The values that the task saw, and the current ones."""

    async def read(target: DatabaseHost) -> list[tuple[str, str, str]]:
        state = (await target.reactive.tasks(task=task))[0]
        rows = []
        for key, stored in sorted(state.seen.items()):
            param = (await target.reactive.params(name=key))[0]
            was = None if stored is None else load_value(param.param.kind, stored[0])
            rows.append((key, show_value(was), show_value(param.value)))
        return rows

    found = ask_host(read, url, app)
    if json:
        show.as_json([{"param": key, "seen": was, "now": value} for key, was, value in found])
        return
    show.print_table(("param", "seen", "now"), found, empty="it has seen nothing yet")


@seen.command()
def move(
    task: Task,
    param: Param,
    value: Annotated[str, typer.Argument(help="What it is to have seen.")],
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Let a task have seen a param up to a value: what is above it is new."""

    async def repair(target: DatabaseHost) -> None:
        known = (await target.reactive.params(name=param))[0].param
        await target.reactive.seen_move(task, param, parse_value(known, value))

    ask_host(repair, url, app)
    show.say(f"task {task!r} has seen {param!r} up to {value}; it is checked now")


@seen.command()
def delete(task: Task, param: Param, url: options.Url = None, app: options.App = None) -> None:
    """Let a task not have seen a param at all: its Delta is true at once."""
    ask_host(lambda target: target.reactive.seen_delete(task, param), url, app)
    show.say(f"task {task!r} has not seen {param!r}; it is checked now")
