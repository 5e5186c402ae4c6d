"""`mainspring processes restart-all|cancel-all`: orders on all processes that meet some conditions."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options
from mainspring.cli.operations import show_begun
from mainspring.cli.processes import Priority, Rate, State, Type
from mainspring.cli.target import ask
from mainspring.kernel.operation import Operation
from mainspring.operator import Operator
from mainspring.processes.mass import LOW_PRIORITY
from mainspring.processes.search import ProcessFilter

Attr = Annotated[list[str] | None, typer.Option("--attr", help="With this attribute: name=value.")]
Error = Annotated[str | None, typer.Option("--error", help="With a parked task of this error.")]
Template = Annotated[
    str | None, typer.Option("--template", help="Those of the filter kept under this name.")
]
Everything = Annotated[bool, typer.Option("--all", help="Really all of them.")]


async def _wanted(
    operator: Operator,
    template: str | None,
    type: str | None,
    state: str | None,
    attr: list[str] | None,
    error: str | None,
) -> ProcessFilter:
    if template is not None:
        return (await operator.processes.template(template)).filter
    return ProcessFilter(
        type=type, state=state, attrs=options.pairs("attr", attr) or None, error=error
    )


def restart_all(
    type: Type = None,
    state: State = None,
    attr: Attr = None,
    error: Error = None,
    template: Template = None,
    task: Annotated[
        str | None,
        typer.Option("--from", help="Redo only from their tasks of this actor on."),
    ] = None,
    fresh_signals: Annotated[
        bool, typer.Option("--fresh-signals", help="Ask for the signals again.")
    ] = False,
    everything: Everything = False,
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Redo processes by a filter, from scratch or from a task on: an operation."""

    async def order(operator: Operator) -> Operation:
        return await operator.processes.restart_all(
            await _wanted(operator, template, type, state, attr, error),
            task=task,
            fresh_signals=fresh_signals,
            source=options.source(),
            rate=rate,
            priority=priority,
            dry_run=dry_run,
            everything=everything,
        )

    show_begun(ask(order, url, app), json=json)


def cancel_all(
    type: Type = None,
    state: State = None,
    attr: Attr = None,
    error: Error = None,
    template: Template = None,
    everything: Everything = False,
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Cancel processes by a filter: an operation."""

    async def order(operator: Operator) -> Operation:
        return await operator.processes.cancel_all(
            await _wanted(operator, template, type, state, attr, error),
            source=options.source(),
            rate=rate,
            priority=priority,
            dry_run=dry_run,
            everything=everything,
        )

    show_begun(ask(order, url, app), json=json)
