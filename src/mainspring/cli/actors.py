"""`mainspring processes actors|counters|changes`: settings of actors, their counters, who changed what."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.target import ask
from mainspring.errors import InvalidSetting
from mainspring.operator import Operator
from mainspring.processes.operate.actors import COUNTERS, Counts
from mainspring.processes.operate.settings import SettingChange

Actor = Annotated[str | None, typer.Option("--actor", help="Of this task or decider.")]


def actors(
    actor: Annotated[str | None, typer.Argument(help="The actor to show or change.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value, as often as you like; null lifts a limit."),
    ] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The settings of actors; with --set, change them while the engine runs."""
    if change and actor is None:
        raise InvalidSetting("name the actor whose settings are to change")

    async def question(operator: Operator) -> dict[str, dict[str, object]]:
        if change and actor is not None:
            changes = options.pairs("set", change)
            await operator.processes.change_actor(actor, changes, source=options.source())
        return options.only("actor", actor, await operator.processes.actors())

    found = ask(question, url, app)
    if json:
        show.as_json(found)
    else:
        show.print_table(
            (
                "actor", "work timeout, s", "then", "accept", "task timeout, s", "then", "retry",
                "at once", "a second",
            ),
            (
                (
                    name, s["work_timeout"], s["on_work_timeout"], s["accept"], s["task_timeout"],
                    s["on_task_timeout"], s["retry"] or None, s["concurrency"], s["rate"],
                )
                for name, s in found.items()
            ),
            empty="no actor is known: start a worker of the application first",
        )  # fmt: skip


def counters(
    actor: Actor = None,
    since: options.Since = "1h",
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """What recovery did, of each actor and in all: work and task timeouts, deaths, late results."""

    async def question(operator: Operator) -> list[Counts]:
        at = await options.moment(operator, "since", since or "1h")
        assert at is not None
        return await operator.processes.counters(since=at, actor=actor)

    found = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    total = Counts("all", {n: sum(c.counts.get(n, 0) for c in found) for n in COUNTERS})
    show.print_table(
        ("actor", *(name.replace("_", " ") + "s" for name in COUNTERS)),
        ((c.actor, *(c.counts.get(n, 0) for n in COUNTERS)) for c in [*found, total] if found),
        empty="nothing was counted",
    )


def changes(
    actor: Actor = None,
    type: Annotated[str | None, typer.Option("--type", help="Of this process type.")] = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Changes of settings, newest first: who made them, from what to what."""

    async def question(operator: Operator) -> list[SettingChange]:
        return await operator.processes.setting_changes(type, actor=actor, limit=limit)

    found = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("what", "by", "when", "changed"),
        ((c.subject, c.source, c.changed_at, _difference(c)) for c in found),
        empty="no setting was changed",
    )


def _difference(change: SettingChange) -> str:
    names = sorted(change.before.keys() | change.after.keys())
    return ", ".join(
        f"{name}: {change.before.get(name)} -> {change.after.get(name)}"
        for name in names
        if change.before.get(name) != change.after.get(name)
    )
