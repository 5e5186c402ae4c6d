"""`mainspring processes restart-all|cancel-all|templates`: orders on all processes that meet some
conditions, and the conditions that are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.operations import show_begun
from mainspring.cli.processes import NoCompensate, Priority, Rate, State, Type, find_template
from mainspring.cli.target import ask
from mainspring.errors import InvalidSetting
from mainspring.jobs.operation import Operation
from mainspring.operator import Operator
from mainspring.processes.operate.bulk import LOW_PRIORITY
from mainspring.processes.operate.search import ProcessFilter
from mainspring.processes.operate.templates import TemplateTerms

Attr = Annotated[list[str] | None, typer.Option("--attr", help="With this attribute: name=value.")]
Error = Annotated[str | None, typer.Option("--error", help="With a parked task of this error.")]
Template = Annotated[
    str | None, typer.Option("--template", help="Those of the filter kept under this name.")
]
Save = Annotated[
    str | None, typer.Option("--save", help="Keep the filter with this action under this name.")
]
Everything = Annotated[bool, typer.Option("--all", help="Really all of them.")]


async def _wanted(
    operator: Operator,
    action: str,
    template: str | None,
    save: str | None,
    given: ProcessFilter,
    terms: TemplateTerms,
) -> ProcessFilter:
    """The conditions that were given, or those that are kept for this action."""
    wanted = given
    if template is not None:
        kept = await find_template(operator, template, given)
        if kept.action not in ("search", action):
            raise InvalidSetting(
                f"template {template!r} is kept for {kept.action}, not for {action}: keep its filter "
                "under another name, with --save"
            )
        wanted = kept.filter
    if save is not None:
        await operator.processes.save_template(
            save, wanted, action=action, terms=terms, source=options.source()
        )
    return wanted


def _given(
    type: str | None, state: str | None, attr: list[str] | None, error: str | None
) -> ProcessFilter:
    return ProcessFilter(
        type=type, state=state, attrs=options.pairs("attr", attr) or None, error=error
    )


def restart_all(
    type: Type = None,
    state: State = None,
    attr: Attr = None,
    error: Error = None,
    template: Template = None,
    save: Save = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Redo only from their tasks of this actor (or this id) on.",
        ),
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
    given = _given(type, state, attr, error)

    async def order(operator: Operator) -> Operation:
        return await operator.processes.restart_all(
            await _wanted(
                operator, "restart", template, save, given, TemplateTerms(task, fresh_signals)
            ),
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
    save: Save = None,
    everything: Everything = False,
    no_compensate: NoCompensate = False,
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Cancel processes by a filter: an operation."""
    given = _given(type, state, attr, error)

    async def order(operator: Operator) -> Operation:
        return await operator.processes.cancel_all(
            await _wanted(
                operator,
                "cancel",
                template,
                save,
                given,
                TemplateTerms(compensate=not no_compensate),
            ),
            compensate=not no_compensate,
            source=options.source(),
            rate=rate,
            priority=priority,
            dry_run=dry_run,
            everything=everything,
        )

    show_begun(ask(order, url, app), json=json)


templates = typer.Typer(
    cls=CommandGroup,
    invoke_without_command=True,
    help="The filters that are kept, each with its action; `templates run NAME` does it.",
)


@templates.callback()
def list_templates(
    context: typer.Context,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The filters that are kept, each with its action; `templates run NAME` does it."""
    if context.invoked_subcommand is not None:
        return
    found = ask(lambda operator: operator.processes.templates(), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("name", "action", "filter", "by", "when"),
        ((t.name, t.action, t.filter.encode(), t.created_by, t.created_at) for t in found),
        empty="no filter is kept: search --save NAME keeps one",
    )


@templates.command("run")
def run_template(
    name: Annotated[str, typer.Argument(help="The name under which the filter is kept.")],
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Do with the processes that fit now what the filter is kept for: an operation."""

    async def order(operator: Operator) -> Operation:
        return await operator.processes.run_template(
            name, source=options.source(), rate=rate, priority=priority, dry_run=dry_run
        )

    show_begun(ask(order, url, app), json=json)
