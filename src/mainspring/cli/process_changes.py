"""`mainspring processes cancel|restart`: changes of one process as a whole, or of a part of it."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.processes import Id, NoCompensate
from mainspring.cli.target import ask
from mainspring.operator import Operator
from mainspring.phrases import counted
from mainspring.processes.operate.graph import find_task
from mainspring.processes.structural.change import Answer


def cancel(
    id: Id,
    no_compensate: NoCompensate = False,
    task: Annotated[
        str | None,
        typer.Option("--task", help="This task alone: its number in `show`, its actor, or its id."),
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="The scope of this name.")] = None,
    why: Annotated[str | None, typer.Option("--why", help="The reason that is given.")] = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Cancel a process and its child processes, or a part of it; what was done is undone first."""

    async def order(operator: Operator) -> Answer:
        processes, named = operator.processes, task
        if task is not None and scope is None:
            named = find_task(await processes.graph(id), task)
        reason = why or f"called off by {options.source()}"
        return await processes.cancel(
            id, compensate=not no_compensate, task=named, scope=scope, why=reason
        )

    answer = ask(order, url, app)
    undone = f", {answer.compensations} compensations begin" if answer.compensations else ""
    undone += f", {counted(answer.scopes, 'scope', 'ends', 'end')}" if answer.scopes else ""
    show.say(f"cancelled: {answer.tasks} tasks, {answer.stopped} runs told to stop{undone}")


def restart(
    id: Id,
    task: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Redo only from this task on: its number in `show`, its actor, or its id.",
        ),
    ] = None,
    fresh_signals: Annotated[
        bool, typer.Option("--fresh-signals", help="Ask for the signals again.")
    ] = False,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Redo a process from scratch, or what one task made and what depends on it."""

    async def order(operator: Operator) -> str:
        processes, start = operator.processes, None
        if task is not None:
            start = find_task(await processes.graph(id), task)
        if dry_run:
            return str(await processes.preview_restart(id, start))
        answer = await processes.restart(id, start, fresh_signals=fresh_signals)
        return f"restarted: {answer.tasks} tasks, {answer.stopped} runs told to stop"

    show.say(ask(order, url, app))
