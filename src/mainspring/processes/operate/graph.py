"""The graph of a process as an operator sees it, and how it is drawn. Drawing is pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.phrases import counted, instant
from mainspring.processes.operate.search import FoundProcess, find_process
from mainspring.processes.record.race import SOME_OF, terms_of
from mainspring.processes.statements import SQL
from mainspring.redact import Rules, read_rules

MOST_TASKS = 2_000
DEEPEST = 20  # levels of a tree that are drawn as such
_MARKS = {"done": "✓", "failed": "✗", "parked": "■", "running": "▶", "queued": "●", "waiting": "…"}
_COLOURS = {
    "done": "palegreen",
    "failed": "salmon",
    "parked": "orange",
    "running": "lightskyblue",
    "queued": "lightblue",
    "waiting": "white",
}


class GraphTask(msgspec.Struct, frozen=True):
    """A task and what it waits for: promise and kind, in the order of its inputs."""

    id: str
    created_by: str | None
    promise: str
    actor: str
    state: str
    outcome: str | None
    generation: int
    scope_id: str | None
    created_at: datetime
    changed_at: datetime
    error: dict[str, object] | None
    external: str | None
    signal: str | None
    due_at: datetime | None
    child: str | None
    queue: str | None
    visit_due_at: datetime | None
    running: bool
    parked_at: datetime | None
    attempt: int | None  # failures of its visit so far
    visit_error: str | None  # the last of them
    inputs: list[tuple[str, str]]
    # Of a signal that it has taken.
    sent_by: str | None = None
    sent_at: datetime | None = None
    about: str | None = None  # of a task of the engine's own, what `label` adds: JSON

    @property
    def status(self) -> str:
        """In a word: done, failed, parked, running, queued, waiting, cancelled, superseded."""
        if self.state == "done":
            return "failed" if self.outcome == "err" else "done"
        if self.state == "open":
            if self.queue is None:
                return "waiting"
            return "running" if self.running else "queued"
        return "waiting" if self.state == "external" else self.state


class GraphRow(NamedTuple):
    """A row of read_graph.sql."""

    id: str
    created_by: str | None
    promise: str
    actor: str
    state: str
    outcome: str | None
    generation: int
    scope_id: str | None
    created_at: datetime
    changed_at: datetime
    error: str | None  # JSON
    external: str | None
    signal: str | None
    due_at: datetime | None
    child: str | None
    queue: str | None
    visit_due_at: datetime | None
    running: bool
    parked_at: datetime | None
    attempt: int | None
    visit_error: str | None
    inputs: str | None  # JSON
    sent_by: str | None
    sent_at: datetime | None
    about: str | None

    def task(self, rules: Rules) -> GraphTask:
        """With its error and its inputs read. What it was given is not at hand, so a text of before
        something was hidden is not told."""
        error = msgspec.json.decode(self.error or "null", type=dict[str, object] | None)
        said = rules.told(self.actor, self.visit_error, self.changed_at)
        if error is not None:
            queues = {self.actor, str(error.get("actor") or self.actor)}
            message = str(error.get("message", ""))
            if (shown := rules.message(queues, message, self.changed_at)) != message:
                error |= {"message": shown, "trace": ""}
        inputs = msgspec.json.decode(self.inputs or "[]", type=list[tuple[str, str]])
        return GraphTask(
            **{**self._asdict(), "error": error, "visit_error": said, "inputs": inputs}
        )


class Graph(msgspec.Struct, frozen=True):
    """A process with its tasks, oldest first. `cut`: there are more than are shown."""

    process: FoundProcess
    tasks: list[GraphTask]
    cut: bool = False


async def read_graph(
    tx: Tx,
    id: str,
    *,
    superseded: bool = False,
    most: int = MOST_TASKS,
) -> Graph:
    """The graph of a process, by its id or the user's."""
    process = await find_process(tx, id)
    rows = await tx.rows(
        SQL["read_graph"], GraphRow, id=process.id, superseded=superseded, limit=most + 1
    )
    rules = await read_rules(tx)
    return Graph(process, [row.task(rules) for row in rows[:most]], cut=len(rows) > most)


def find_task(graph: Graph, named: str) -> str:
    """The id of a task: given as such, by its number in the tree, or by an actor that has one task."""
    number = named.removeprefix("#")
    if number.isdecimal() and len(number) < 10:
        if not 1 <= int(number) <= len(graph.tasks):
            raise NotFound(
                f"process {graph.process.key} has no task {named}: `show` numbers them from #1 to "
                f"#{len(graph.tasks)}"
            )
        return graph.tasks[int(number) - 1].id
    same = [n for n, task in enumerate(graph.tasks, 1) if task.actor == named]
    if len(same) > 1:
        numbers = ", ".join(f"#{n}" for n in same[:6])
        raise InvalidSetting(
            f"process {graph.process.key} has {len(same)} tasks of {named!r}: name one by its number "
            f"({numbers}{', ...' if len(same) > 6 else ''})"
        )
    return graph.tasks[same[0] - 1].id if same else named


def label(task: GraphTask) -> str:
    """A task in a few words."""
    text = f"{task.actor} [{task.status}]"
    if task.actor == SOME_OF:
        terms = terms_of(task.actor, task.about)
        text += f" for {terms.need} of {len(task.inputs)}"
    if task.actor == "@leave" and task.about is not None:
        text += f" of scope {task.about!r}"
    if task.actor == "@lock":
        text += f" {task.about!r}"
    elif task.external == "signal":
        now = " from now on" if task.about is not None else ""
        text += f" for signal {task.signal!r}{now}"
    if task.sent_at is not None and task.actor != "@lock":
        by = f" by {task.sent_by}" if task.sent_by else ""
        text += f" {task.signal!r} sent{by} at {task.sent_at:%Y-%m-%d %H:%M:%S}Z"
    if task.external == "child":
        text += f" for process {task.child}"
    if task.external is not None and task.due_at is not None:
        text += f" until {instant(task.due_at)}"
    if task.error is not None and task.status in ("failed", "parked"):
        text += f" {task.error.get('type', '')}: {str(task.error.get('message', ''))[:80]}"
    if task.visit_error and task.status in ("queued", "running"):
        reason = task.visit_error.splitlines()[0][:80]
        text += f" failed {counted(task.attempt or 0, 'time')}: {reason}"
    return text


def tree(graph: Graph) -> list[str]:
    """Lines of a tree by who created whom; a task names those before it that it waits for."""
    numbers = {task.id: n for n, task in enumerate(graph.tasks, 1)}
    fulfilled = {task.promise: task.id for task in graph.tasks}  # the newest fulfiller wins
    children: dict[str | None, list[GraphTask]] = {}
    for task in graph.tasks:
        parent = task.created_by if task.created_by in numbers else None
        children.setdefault(parent, []).append(task)
    process = graph.process
    lines = [f"{process.type} {process.key} [{process.state}]"]
    if process.inconsistent:
        lines[0] += f" inconsistent: {process.inconsistent}"

    def line(task: GraphTask, by: str) -> str:
        waits = [
            f"#{numbers[fulfilled.get(promise, promise)]}"
            for promise, kind in task.inputs
            if kind != "handle" and fulfilled.get(promise, promise) in numbers
        ]
        after = f" after {', '.join(waits[:6])}" if waits else ""
        more = " ..." if len(waits) > 6 else ""
        mark = _MARKS.get(task.status, "-")
        return f"{mark} #{numbers[task.id]} {label(task)}{by}{after}{more}"

    # Not by recursion: a loop is as deep as it has steps. Past DEEPEST they stand below each other.
    waiting = [(task, "", 0) for task in reversed(children.get(None, []))]
    while waiting:
        task, indent, depth = waiting.pop()
        is_last = not (waiting and waiting[-1][1:] == (indent, depth))
        by = f" by #{numbers[task.created_by]}" if depth > DEEPEST and task.created_by else ""
        lines.append(f"{indent}{'└─' if is_last else '├─'} {line(task, by)}")
        inner = indent if depth >= DEEPEST else indent + ("   " if is_last else "│  ")
        waiting += [(child, inner, depth + 1) for child in reversed(children.get(task.id, []))]
    if graph.cut:
        lines.append(f"... and more: only the first {len(graph.tasks)} tasks are shown")
    return lines


def _links(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """(from, to, kind) between tasks: created by, and inputs."""
    known = {task.id for task in graph.tasks}
    fulfilled = {task.promise: task.id for task in graph.tasks}
    for task in graph.tasks:
        if task.created_by in known:
            yield str(task.created_by), task.id, "creates"
        for promise, kind in task.inputs:
            if (source := fulfilled.get(promise, promise)) in known:
                yield source, task.id, kind


def dot(graph: Graph) -> str:
    """The graph for Graphviz: dashed lines create, full ones carry values."""
    names = {task.id: f"t{n}" for n, task in enumerate(graph.tasks, 1)}
    lines = ["digraph process {", "  rankdir=LR; node [shape=box, style=filled];"]
    for task in graph.tasks:
        colour = _COLOURS.get(task.status, "lightgrey")
        lines.append(f'  {names[task.id]} [label="{_quoted(label(task))}", fillcolor={colour}];')
    styles = {"creates": "dashed", "order": "dotted", "handle": "dotted"}
    for source, target, kind in _links(graph):
        style = styles.get(kind, "solid")
        named = "" if kind in ("creates", "value") else f', label="{kind}"'
        lines.append(f"  {names[source]} -> {names[target]} [style={style}{named}];")
    return "\n".join([*lines, "}"])


def mermaid(graph: Graph) -> str:
    """The graph for Mermaid, as Markdown viewers draw it."""
    names = {task.id: f"t{n}" for n, task in enumerate(graph.tasks, 1)}
    lines = ["flowchart LR"]
    lines += [f'  {names[task.id]}["{_entities(label(task))}"]' for task in graph.tasks]
    for source, target, kind in _links(graph):
        arrow = {"creates": "-.->", "value": "-->"}.get(kind, f"-- {kind} -->")
        lines.append(f"  {names[source]} {arrow} {names[target]}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("\n", " ")
