"""Tasks that wait, run or are scheduled; one of them, with why it has not run."""

from __future__ import annotations

from shlex import quote

from mainspring.console.look import PAGE, Crumb, Moved, Page, Visitor, read_pairs
from mainspring.console.remedies import standing
from mainspring.console.words import link
from mainspring.errors import MainspringError, NotFound
from mainspring.operate.history import HistoryFilter
from mainspring.operate.visits import LOOKED

STATES = ("waiting", "scheduled", "running")


async def found(look: Visitor) -> Page:
    """The next ones of all queues or of one; or those of a key."""
    queue, state, key = look.text("queue"), look.text("state"), look.text("key")
    fields = read_pairs("field", look.text("field"))
    if key is not None:
        visits = await look.operator.find(key, queue=queue, group=look.text("group"))
    else:
        visits = await look.operator.visits(
            queue=queue, state=state, limit=PAGE, fields=fields or None
        )
    values = {
        "visits": visits,
        "queue": queue or "",
        "state_": state or "",
        "key": key or "",
        "field": look.text("field") or "",
        "looked": LOOKED,
        "states": STATES,
        "most": PAGE,
    }
    command = "mainspring tasks list" + (f" --queue {quote(queue)}" if queue else "")
    return Page("tasks.html", "Tasks", values, command=command)


async def one(look: Visitor) -> Page:
    """A task: why first, then what is known, what it was given, and its runs."""
    queue, key, group = look.needed("queue"), look.needed("key"), look.text("group")
    why = await look.operator.why(queue, key, group=group)
    live = await look.operator.find(key, queue=queue, group=group)
    past = await look.operator.history(HistoryFilter(queue=queue, key=key, group=group), limit=PAGE)
    if not live and not past:
        raise NotFound(f"queue {queue!r} has no visit {key!r}, and history has no run of it")
    visit = live[0] if live else None
    id = str(visit.id if visit else past[0].id)
    progress = (await look.operator.progress([id])).get(id)
    values = {
        "visit": visit,
        "standing": standing(why),
        "past": past,
        "queue": queue,
        "key": key,
        "group": group,
        "progress": progress,
    }
    crumbs = (Crumb("Queues", "/queues"), Crumb(queue, link("/queues/one", name=queue)))
    return Page(
        "task.html",
        key,
        values,
        crumbs,
        command=f"mainspring why {quote(queue)} {quote(key)}",
        live="poll" if visit else "",
    )


async def jump(look: Visitor) -> Page:
    """Whatever has this name: a queue, a task's id or key, a process, a kind, a reactive task, a param."""
    text = look.needed("q")
    operator = look.operator
    if any(queue.name == text for queue in await operator.queues(name=text)):
        raise Moved(link("/queues/one", name=text))
    if visits := await operator.find(text):
        first = visits[0]
        raise Moved(link("/tasks/one", queue=first.queue, key=first.key, group=first.group))
    if past := await operator.history(HistoryFilter(key=text), limit=1):
        raise Moved(link("/tasks/one", queue=past[0].queue, key=past[0].key, group=past[0].group))
    if text in [kind.name for kind in await operator.entities.kinds()]:
        raise Moved(link("/entities/kind", name=text))
    for look_up, path in (
        (lambda: operator.processes.find(text), link("/processes/one", id=text)),
        (lambda: look.app.reactive.tasks(task=text), link("/reactive/one", task=text)),
        (lambda: look.app.reactive.params(name=text), link("/params/one", name=text)),
    ):
        try:
            await look_up()
        except MainspringError:
            continue
        raise Moved(path)
    raise NotFound(
        f"nothing is named {text!r}: no queue, task, key, id, kind, process, reactive task or param"
    )
