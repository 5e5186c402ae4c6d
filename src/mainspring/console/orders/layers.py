"""Orders on entities, processes, reactive tasks, params and sources."""

from __future__ import annotations

import msgspec

from mainspring.console.look import Crumb, Page, Visitor
from mainspring.console.orders.form import PREVIEW, Form, Order, Ordered, Plan, needed
from mainspring.console.orders.work import begun, shown
from mainspring.console.pages.processes import process_filter
from mainspring.console.words import link
from mainspring.errors import InvalidArguments, InvalidSetting
from mainspring.phrases import counted
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.reactive.declare.params import Affected
from mainspring.reactive.model.values import parse_value

PROCESSES = (Crumb("Processes", "/processes"),)
PARAMS = (Crumb("Params", "/params"),)


async def _ask_entity(look: Visitor, form: Form) -> str:
    await look.operator.entities.offer(needed(form, "kind"), needed(form, "id"))
    return "run"


async def _skip_event(look: Visitor, form: Form) -> str:
    kind, id, consumer = needed(form, "kind"), needed(form, "id"), needed(form, "consumer")
    await look.operator.entities.skip(kind, id, consumer)
    return "resolved"


async def _crawl(look: Visitor, form: Form) -> Page:
    kind, is_tried = needed(form, "kind"), PREVIEW in form
    done = await look.operator.entities.crawl(kind, source=look.viewer.name, dry_run=is_tried)
    if not is_tried:
        raise begun(done)
    crumbs = (Crumb("Entities", "/entities"), Crumb(kind, link("/entities/kind", name=kind)))
    return Plan(
        *("operations.crawl", "Crawl", f"entities of {kind}", done.total or 0, form),
        facts=[("asks", "every stage about every entity, behind live changes")],
        name=kind,
        crumbs=crumbs,
    ).page()


async def _resend(look: Visitor, form: Form) -> Page:
    kind, consumer, is_tried = needed(form, "kind"), needed(form, "consumer"), PREVIEW in form
    done = await look.operator.entities.resend(
        kind, consumer, rate=None, source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    return Plan(
        *("operations.resend", "Send", f"entities of {kind} to {consumer}", done.total or 0, form),
        facts=[("sends", "what each entity is now, as a snapshot with a new number")],
        name=kind,
        crumbs=(Crumb("Services", "/services"),),
    ).page()


# -- processes


async def _cancel_process(look: Visitor, form: Form) -> str:
    is_undone = form.get("compensate", "yes") == "yes"
    await look.operator.processes.cancel(needed(form, "id"), compensate=is_undone)
    return "cancelled"


async def _restart_process(look: Visitor, form: Form) -> Page | str:
    id, task = needed(form, "id"), form.get("task")
    if PREVIEW not in form:
        await look.operator.processes.restart(id, task)
        return "restarted"
    plan = await look.operator.processes.preview_restart(id, task)
    graph = await look.operator.processes.graph(id)
    names = {each.id: each.actor for each in graph.tasks}

    def named(ids: list[str]) -> str:
        listed = ", ".join(names.get(each, each) for each in ids[:12])
        return f"{len(ids):,}" + (f": {listed}" if listed else "") + (", …" if ids[12:] else "")

    facts = [
        ("redone", named(plan.redone)),
        ("made by these, and dropped", named(plan.superseded)),
        ("not ended, and stopped", named(plan.stopped)),
        ("child processes cancelled", f"{plan.children:,}"),
        ("kept", counted(plan.kept, "task")),
    ]
    process = graph.process
    crumb = Crumb(process.key, link("/processes/one", id=process.id))
    return Plan(
        *("processes.restart", "Redo", "tasks", len(plan.redone) + len(plan.superseded), form),
        facts=[] if plan.why else facts,
        refusal=plan.why,
        name=process.key,
        is_operation=False,
        crumbs=(*PROCESSES, crumb),
    ).page()


def _json(form: Form, name: str) -> object:
    text = form.get(name) or "null"
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArguments(f"{name} must be JSON: {error}") from None


async def _signal(look: Visitor, form: Form) -> str:
    id, name = needed(form, "id"), needed(form, "name")
    await look.operator.processes.signal(id, name, _json(form, "payload"))
    return "sent"


async def _resolve(look: Visitor, form: Form) -> str:
    id, task = needed(form, "id"), needed(form, "task")
    await look.operator.processes.resolve(id, task, _json(form, "value"))
    return "resolved"


async def _fail(look: Visitor, form: Form) -> str:
    message = form.get("reason") or f"given up by {look.viewer.name}"
    await look.operator.processes.fail(needed(form, "id"), needed(form, "task"), message)
    return "resolved"


async def _restart_tasks(look: Visitor, form: Form) -> Page:
    wanted = TaskFilter(
        form.get("type"), form.get("actor"), form.get("fingerprint"), form.get("error")
    )
    is_tried = PREVIEW in form
    done = await look.operator.processes.restart_tasks(
        wanted, source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "type", "actor", "error")
    return Plan(
        *("operations.restart_tasks", "Restart", "parked tasks", done.total or 0, form, facts),
        name=form.get("actor", "all"),
        crumbs=PROCESSES,
    ).page()


async def _restart_processes(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.processes.restart_all(
        process_filter(form.get), task=form.get("from"), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "type", "state", "id", "error", "attrs", "parked")
    return Plan(
        *("operations.restart_processes", "Restart", "processes", done.total or 0, form, facts),
        name=form.get("type", "all"),
        is_danger=True,
        crumbs=PROCESSES,
    ).page()


async def _cancel_processes(look: Visitor, form: Form) -> Page:
    is_tried = PREVIEW in form
    done = await look.operator.processes.cancel_all(
        process_filter(form.get), source=look.viewer.name, dry_run=is_tried
    )
    if not is_tried:
        raise begun(done)
    facts = shown(form, "type", "state", "id", "error", "attrs", "parked")
    return Plan(
        *("operations.cancel_processes", "Cancel", "processes", done.total or 0, form, facts),
        name=form.get("type", "all"),
        is_danger=True,
        crumbs=PROCESSES,
    ).page()


# -- reactive tasks and params


async def _run_reactive(look: Visitor, form: Form) -> str:
    record = "record" in form
    await look.app.reactive.run(needed(form, "task"), record=record, by=look.viewer.name)
    return "run"


async def _pause_reactive(look: Visitor, form: Form) -> str:
    await look.app.reactive.pause(needed(form, "task"))
    return "paused"


async def _resume_reactive(look: Visitor, form: Form) -> str:
    await look.app.reactive.resume(needed(form, "task"))
    return "resumed"


async def _move_seen(look: Visitor, form: Form) -> str:
    task, name = needed(form, "task"), needed(form, "param")
    param = (await look.app.reactive.params(name=name))[0].param
    await look.app.reactive.seen_move(task, name, parse_value(param, needed(form, "value")))
    return "seen"


async def _delete_seen(look: Visitor, form: Form) -> str:
    await look.app.reactive.seen_delete(needed(form, "task"), needed(form, "param"))
    return "seen"


async def _cap(look: Visitor, form: Form) -> str:
    text = form.get("cap", "")
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidSetting(f"cap must be a whole number, or nothing, got {text!r}")
    await look.app.reactive.set_cap(needed(form, "pool"), int(text) if text else None)
    return "set"


async def _rewind(look: Visitor, form: Form) -> Page:
    name, text = needed(form, "name"), needed(form, "to")
    param = (await look.app.reactive.params(name=name))[0].param
    value = parse_value(param, text)
    is_tried = PREVIEW in form
    found = await look.app.reactive.rewind(name, value, why=form.get("reason"), dry_run=is_tried)
    if not is_tried:
        raise Ordered(link("/params/one", name=name), "rewound")
    return Plan(
        *("params.rewind", "Rewind", f"{name} to {text}; affected tasks", len(found), form),
        facts=[(task.task, _repair(task)) for task in found],
        name=name,
        is_operation=False,
        crumbs=(*PARAMS, Crumb(name, link("/params/one", name=name))),
    ).page()


def _repair(task: Affected) -> str:
    """What becomes of an affected task, and what repairs it (R13)."""
    seen = f"has seen {task.seen}" + (", and runs on the old value" if task.running else "")
    return f"{seen}; " + REPAIRS[task.repair]


REPAIRS = {
    "rerun": "it does that again by itself, as soon as its trigger is true",
    "held": "it is held until what it has seen is moved or deleted, or a run is recorded",
    "move or delete": "move or delete what it has seen",
    "run and record": "run it by hand and record the run",
}


# -- sources


async def _pause_source(look: Visitor, form: Form) -> str:
    await look.operator.sources.pause(needed(form, "source"))
    return "paused"


async def _resume_source(look: Visitor, form: Form) -> str:
    await look.operator.sources.resume(needed(form, "source"), form.get("partition"))
    return "resumed"


LAYERS: dict[str, Order] = {
    "entities.offer": _ask_entity,
    "entities.skip": _skip_event,
    "processes.cancel": _cancel_process,
    "processes.signal": _signal,
    "processes.resolve": _resolve,
    "processes.fail": _fail,
    "reactive.run": _run_reactive,
    "reactive.pause": _pause_reactive,
    "reactive.resume": _resume_reactive,
    "reactive.seen_move": _move_seen,
    "reactive.seen_delete": _delete_seen,
    "reactive.set_cap": _cap,
    "sources.pause": _pause_source,
    "sources.resume": _resume_source,
}
# Those that are shown as a plan before they are given.
PLANNED_LAYERS: dict[str, Order] = {
    "operations.crawl": _crawl,
    "operations.resend": _resend,
    "processes.restart": _restart_process,
    "operations.restart_tasks": _restart_tasks,
    "operations.restart_processes": _restart_processes,
    "operations.cancel_processes": _cancel_processes,
    "params.rewind": _rewind,
}
