"""`mainspring why`: why a visit has not run, what is known of an entity or of a reactive task."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer

from mainspring.cli import codes, options, show
from mainspring.cli.entity import print_entity
from mainspring.cli.target import ask, ask_host
from mainspring.cli.tasks import ID
from mainspring.declaring import OWN
from mainspring.entities.operate.why import EntityWhy
from mainspring.errors import InvalidSetting, NotFound, UnknownReactiveTask
from mainspring.host import DatabaseHost
from mainspring.operate.history import HistoryFilter
from mainspring.operate.why import Why
from mainspring.operator import Operator
from mainspring.phrases import nearest
from mainspring.reactive.decide.explain import ReactiveWhy, lines_of
from mainspring.reactive.operate.why import why as why_reactive


def why(
    queue: Annotated[
        str, typer.Argument(help="Its queue: the task's name, or a kind; or a call's id.")
    ],
    key: Annotated[
        str | None,
        typer.Argument(
            help="Its key: the task's id, its key, an entity's id. None: a reactive task."
        ),
    ] = None,
    group: options.Group = None,
    url: options.Url = None,
    app: options.App = None,
    json: options.Json = False,
) -> None:
    """Say why something has not run, and what to do.

    Of a task: a future time, a pause, a busy group, no worker, parked...
    Of an entity (`mainspring why listing 42`): its queues, timers, states, and who changed what.
    With the name of a reactive task alone: its trigger with values and verdicts, and the next fact
    that would change it.
    """
    if key is None and not ID.fullmatch(queue):
        _reactive(queue, url, app, json)
        return

    async def question(operator: Operator) -> EntityWhy | Why:
        if key is None:
            return await _of_id(operator, queue)
        if queue in [kind.name for kind in await operator.entities.kinds()]:
            return await operator.entities.why(queue, key)
        found = await operator.why(queue, key, group=group)
        is_gone = found.causes[0].name == "not_found" and not found.last_runs
        if is_gone and queue in await operator.processes.settings():
            raise NotFound(
                f"{queue!r} is a process type: ask mainspring processes why {shlex.quote(key)}"
            )
        return found

    found = ask(question, url, app)
    if isinstance(found, EntityWhy):
        print_entity(found, json=json)
        return
    if json:
        show.as_json(replace(found, last_runs=show.keys_apart(found.last_runs)))
    else:
        show.say(str(replace(found, last_runs=[])))
        if found.last_runs:
            show.print_table(
                ("ended", "attempt", "outcome", "ms", "error"),
                (
                    (r.ended_at, r.attempt, r.outcome, r.duration_ms, show.first_line(r.error))
                    for r in found.last_runs
                ),
                empty="",
            )
    if found.causes[0].name == "not_found" and not found.last_runs:
        raise typer.Exit(codes.NOT_FOUND)


async def _of_id(operator: Operator, id: str) -> Why:
    """Of a call whose id alone was given."""
    queues = [visit.queue for visit in await operator.find(id)]
    if not queues:
        queues = [run.queue for run in await operator.history(HistoryFilter(key=id), limit=1)]
    if not queues:
        raise NotFound(
            f"no call has the id {id!r}, nor had one; of a process: mainspring processes why {id}"
        )
    return await operator.why(queues[0], id)


def _reactive(task: str, url: str | None, app: str | None, json: bool) -> None:
    async def question(target: DatabaseHost) -> ReactiveWhy:
        try:
            return await why_reactive(target.reactive, task)
        except UnknownReactiveTask:
            if hint := await _needs_key(target.operator, task):
                raise InvalidSetting(hint) from None
            known = [state.task for state in await target.reactive.tasks(limit=1000)]
            raise await _nothing(target.operator, task, known) from None

    told = ask_host(question, url, app)
    if json:
        show.as_json(told)
        return
    for line in lines_of(told):
        show.say(line)


async def _needs_key(operator: Operator, name: str) -> str:
    """What to ask instead, of something that is not one reactive task but has many visits."""
    if name in [kind.name for kind in await operator.entities.kinds()]:
        return f"{name!r} is a kind of entities: name one by its id, mainspring why {name} <id>"
    if name in await operator.processes.settings():
        return f"{name!r} is a process type: name one by its id, mainspring processes why <id>"
    if await operator.queues(name=name):
        return (
            f"{name!r} is not a reactive task: name one of its calls by its key or id, mainspring "
            f"why {name} <key>; those that wait: mainspring tasks list --queue {name}"
        )
    with suppress(NotFound):
        await operator.processes.find(name)
        return f"{name!r} is a process: mainspring processes why {shlex.quote(name)}"
    return ""


async def _nothing(operator: Operator, name: str, reactive: list[str]) -> NotFound:
    """The error for what is neither a reactive task nor anything else, with the nearest that is."""
    known = {
        *reactive,
        *(kind.name for kind in await operator.entities.kinds()),
        *await operator.processes.settings(),
        *(queue.name for queue in await operator.queues()),
    }
    near = nearest(name, sorted(other for other in known if not other.startswith(OWN)))
    return NotFound(f"nothing is named {name!r}: no reactive task, task, kind or process{near}")
