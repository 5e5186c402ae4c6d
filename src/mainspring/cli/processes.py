"""`mainspring processes`: start, signal, cancel, restart, list, search, show, why, parked, settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from mainspring.cli import options, show
from mainspring.cli.group import CommandGroup
from mainspring.cli.operations import show_begun
from mainspring.cli.target import ask, ask_app
from mainspring.cli.visible import visible
from mainspring.errors import InvalidArguments, InvalidSetting
from mainspring.jobs.operation import Operation
from mainspring.operator import Operator
from mainspring.processes.declare.handle import ProcessHandle
from mainspring.processes.operate import graph
from mainspring.processes.operate.bulk import LOW_PRIORITY, TaskFilter
from mainspring.processes.operate.search import FoundProcess, ProcessFilter
from mainspring.processes.operate.templates import Template

if TYPE_CHECKING:
    from mainspring.app import Mainspring

group = typer.Typer(cls=CommandGroup, help="Processes: graphs of tasks.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The process's id, or the one you gave it.")]
Type = Annotated[str | None, typer.Option("--type", help="Of this type.")]
Rate = Annotated[float | None, typer.Option("--rate", help="At most so many a second.")]
Priority = Annotated[int, typer.Option("--priority", help="Of what is done; live work has 5.")]
State = Annotated[str | None, typer.Option("--state", help="open, finished or cancelled.")]


@group.command("list")
def list_processes(
    type: Type = None,
    state: State = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Processes, newest first."""
    wanted = ProcessFilter(type=type, state=state)
    _print(ask(lambda operator: operator.processes.search(wanted, limit=limit), url, app), json)


@group.command()
def search(
    type: Type = None,
    state: State = None,
    id: Annotated[str | None, typer.Option("--id", help="With this id.")] = None,
    since: options.Since = None,
    until: options.Until = None,
    attr: Annotated[
        list[str] | None, typer.Option("--attr", help="With this attribute: name=value.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="With a task of this actor.")] = None,
    error: Annotated[
        str | None, typer.Option("--error", help="With a parked task of this error.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="With a parked task of this group.")
    ] = None,
    parked: Annotated[bool, typer.Option("--parked", help="With a parked task.")] = False,
    save: Annotated[
        str | None, typer.Option("--save", help="Keep the filter under this name.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", help="Use the filter kept under this name.")
    ] = None,
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Processes that meet all conditions, newest first."""

    async def question(operator: Operator) -> list[FoundProcess]:
        wanted = ProcessFilter(
            type, state, id,
            await options.moment(operator, "since", since),
            await options.moment(operator, "until", until),
            options.pairs("attr", attr) or None, task, error, fingerprint, parked,
        )  # fmt: skip
        if template is not None:
            wanted = (await find_template(operator, template, wanted)).filter
        if save is not None:
            await operator.processes.save_template(save, wanted, source=options.source())
        return await operator.processes.search(wanted, limit=limit)

    _print(ask(question, url, app), json)


async def find_template(operator: Operator, name: str, given: ProcessFilter) -> Template:
    """The filter of a name. It says all: conditions beside it would be taken for a part of it."""
    if given != ProcessFilter():
        raise InvalidSetting(
            f"--template {name} is a whole filter: leave the other conditions out, or write all of "
            f"them and no template; got {given.encode()} beside it"
        )
    return await operator.processes.template(name)


def _print(found: list[FoundProcess], json: bool) -> None:
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("type", "id", "state", "parked", "started", "ended", "attributes"),
        (
            (p.type, p.key, p.state, p.parked, p.created_at, p.ended_at, p.attrs or None)
            for p in found
        ),
        empty="no process is like that",
    )


@group.command("show")
def show_process(
    id: Id,
    dot: Annotated[bool, typer.Option("--dot", help="As a picture for Graphviz.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a picture for Mermaid.")] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Tasks of earlier generations too.")
    ] = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The graph of a process: as a tree, or as a picture."""
    found = ask(lambda operator: operator.processes.graph(id, superseded=superseded), url, app)
    if json:
        show.as_json(found)
    elif dot:
        print(visible(graph.dot(found), lines=True))
    elif mermaid:
        print(visible(graph.mermaid(found), lines=True))
    else:
        for line in graph.tree(found):
            show.say(line)


@group.command()
def why(
    id: Id, url: options.Url = None, app: options.App = None, json: options.Json = False
) -> None:
    """Say why a process does not go on."""
    found = ask(lambda operator: operator.processes.why(id), url, app)
    if json:
        show.as_json(found)
        return
    for cause in found.causes:
        show.say(f"{cause.name}: {cause.text}")
        show.say(f"  what to do: {cause.remedy}")
    for waiting in found.waiting:
        show.say(str(waiting))


@group.command()
def parked(
    type: Type = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Parked tasks, counted by process type, actor and kind of error."""
    found = ask(lambda operator: operator.processes.parked_groups(type=type), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("type", "task", "count", "error", "fingerprint", "newest"),
        (
            (
                g.type, g.actor, g.count,
                show.first_line(f"{g.error_type}: {g.example}"), g.fingerprint, g.last_at,
            )
            for g in found
        ),
        empty="no task is parked",
    )  # fmt: skip


@group.command()
def start(
    type: Annotated[str, typer.Argument(help="The process type.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments, as a JSON object.")] = "{}",
    id: Annotated[str | None, typer.Option("--id", help="Your id for it.")] = None,
    attr: Annotated[
        list[str] | None, typer.Option("--attr", help="A search attribute: name=value.")
    ] = None,
    refuse: Annotated[
        bool, typer.Option("--refuse", help="Refuse an id in use instead of answering who has it.")
    ] = False,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Start a process of the application (`--app`)."""
    app = _named(app, "a start needs the application that declares the process: --app")
    try:
        given = msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise InvalidArguments(
            f"arguments must be a JSON object by parameter name: {error}; got {arguments!r}"
        ) from None

    async def begin(target: Mainspring) -> ProcessHandle[object]:
        process = target.find_process(type)
        attrs = options.pairs("attr", attr) or None
        if_taken = "refuse" if refuse else "existing"
        return await process.options(id=id, attrs=attrs, if_taken=if_taken).start(**given)

    handle = ask_app(begin, url, app)
    show.say(f"{'started' if handle.is_new else 'it is there:'} {handle.id}")


@group.command()
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(help="The signal's name.")],
    payload: Annotated[str, typer.Argument(help="What it says, as JSON.")] = "null",
    once: Annotated[
        str | None, typer.Option("--once", help="Sent again under this id it is the same one.")
    ] = None,
    url: options.Url = None,
    app: options.App = None,
) -> None:
    """Send a signal that the application (`--app`) declares."""
    app = _named(app, "a signal needs the application that declares it: --app")
    try:
        value = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise InvalidArguments(f"the payload must be JSON: {error}; got {payload!r}") from None

    async def send(target: Mainspring) -> bool:
        process = await target.operator.processes.find(id)
        handle = target.process_handle(process.type, process.id)
        return await handle.signal(name, value, id=once, sent_by=options.source())

    show.say("sent" if ask_app(send, url, app) else "it was sent before")


NoCompensate = Annotated[
    bool, typer.Option("--no-compensate", help="Undo nothing of what was done.")
]


@group.command("restart-tasks")
def restart_tasks(
    type: Type = None,
    task: Annotated[str | None, typer.Option("--task", help="Of this actor.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Whose error has this text.")] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", help="Of this group (processes parked).")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Really all of them.")] = False,
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Let parked tasks go on, by a filter: an operation, which workers carry out."""
    wanted = TaskFilter(type, task, fingerprint, error)

    async def order(operator: Operator) -> Operation:
        return await operator.processes.restart_tasks(
            wanted,
            source=options.source(),
            rate=rate,
            priority=priority,
            dry_run=dry_run,
            everything=everything,
        )

    show_begun(ask(order, url, app), json=json)


@group.command()
def check(
    type: Type = None,
    rate: Rate = None,
    priority: Priority = LOW_PRIORITY,
    dry_run: options.DryRun = False,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Check the open processes: an operation whose failed items are the report.

    What is safe is repaired (`processes repairs`), the rest marks its process.
    """
    wanted = ProcessFilter(type=type, state="open")

    async def order(operator: Operator) -> Operation:
        return await operator.processes.check_all(
            wanted, source=options.source(), rate=rate, priority=priority, dry_run=dry_run
        )

    show_begun(ask(order, url, app), json=json)


@group.command()
def repairs(
    limit: options.Limit = 50,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Defects that were found in processes and repaired, newest first."""
    found = ask(lambda operator: operator.processes.repairs(limit=limit), url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("process", "task", "rule", "what", "by", "when"),
        ((r.process_id, r.task, r.rule, r.detail, r.source, r.repaired_at) for r in found),
        empty="nothing was repaired",
    )


def _named(app: str | None, complaint: str) -> str:
    if not (place := app or os.environ.get("MAINSPRING_APP")):
        raise InvalidSetting(complaint)
    return place


@group.command()
def settings(
    type: Annotated[str | None, typer.Argument(help="The process type to change.")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="name=seconds, as often as you like.")
    ] = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """The settings of process types; with --set, change them while the engine runs."""
    if change and type is None:
        raise InvalidSetting("name the process type whose settings are to change")

    async def question(operator: Operator) -> dict[str, dict[str, object]]:
        if change and type is not None:
            await operator.processes.change_settings(
                type, options.pairs("set", change), source=options.source()
            )
        return options.only("process type", type, await operator.processes.settings())

    found = ask(question, url, app)
    if json:
        show.as_json(found)
        return
    show.print_table(
        ("type", "process timeout, s", "idle timeout, s"),
        ((n, s.get("process_timeout"), s.get("idle_timeout")) for n, s in found.items()),
        empty="no process type is known: start a worker of the application first",
    )
