"""The graph of a process, laid out in columns: who waits stands to the right of whom it waits for. Pure.

Many calls of one actor that one task made are one node with their number, so 10,000 of them are read as
easily as three. What is left beyond `MOST` nodes is not drawn, and said.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mainspring.processes.operate.graph import GraphTask

MOST = 300
MANY = 8  # calls of one actor by one task that become one node
COLUMN, ROW, WIDTH, HEIGHT, EDGE = 216, 58, 176, 42, 12
LONGEST = 20


@dataclass(frozen=True, slots=True)
class Box:
    """A task, or many of one actor, at its place."""

    x: int
    y: int
    text: str
    status: str
    note: str
    task: str | None  # its id; None: many

    @property
    def title(self) -> str:
        return f"{self.text}, {self.status}" + (f", {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """Boxes, the paths between them, and how large it is."""

    boxes: Sequence[Box]
    paths: Sequence[str]
    width: int
    height: int
    left_out: int


def draw(tasks: Sequence[GraphTask]) -> GraphDrawing:
    """Tasks, oldest first, as a picture."""
    members = _members(tasks)
    left_out = sum(len(found) for found in list(members.values())[MOST:])
    nodes = dict(list(members.items())[:MOST])
    node_of = {task.id: name for name, found in nodes.items() for task in found}
    before = _before(nodes, node_of)
    column = _columns(nodes, before)
    places = _places(nodes, before, column)
    boxes = [_box(places[name], found) for name, found in nodes.items()]
    paths = [
        _path(places[source], places[target])
        for target, sources in before.items()
        for source in sources
        if column[source] < column[target]
    ]
    width = EDGE * 2 + COLUMN * max(column.values(), default=0) + WIDTH
    height = EDGE * 2 + max((y for _, y in places.values()), default=0) + HEIGHT
    return GraphDrawing(boxes, paths, width, height, left_out)


def _members(tasks: Sequence[GraphTask]) -> dict[str, list[GraphTask]]:
    """The tasks of each node, by its name: the first one's id."""
    alike: dict[tuple[str | None, str], list[GraphTask]] = defaultdict(list)
    for task in tasks:
        alike[task.created_by, task.actor].append(task)
    found: dict[str, list[GraphTask]] = {}
    for task in tasks:
        same = alike[task.created_by, task.actor]
        if len(same) < MANY:
            found[task.id] = [task]
        else:
            found.setdefault(same[0].id, same)
    return found


def _before(
    nodes: Mapping[str, Sequence[GraphTask]], node_of: Mapping[str, str]
) -> dict[str, list[str]]:
    """Of each node those that it waits for; if there are none, whoever made it."""
    fulfilled: dict[str, list[str]] = defaultdict(list)
    for name, found in nodes.items():
        for task in found:
            fulfilled[task.promise].append(name)
    before = {}
    for name, found in nodes.items():
        sources = {
            source for task in found for promise, _ in task.inputs for source in fulfilled[promise]
        }
        if not sources:
            makers = {t.created_by for t in found if t.created_by is not None}
            sources = {node_of[maker] for maker in makers if maker in node_of}
        before[name] = [source for source in nodes if source in sources and source != name]
    return before


def _columns(nodes: Iterable[str], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The length of the longest way to each node. A loop, which a tail call can make, is cut."""
    column: dict[str, int] = {}
    for start in nodes:
        under_way, todo = set[str](), [start]
        while todo:
            name = todo[-1]
            under_way.add(name)
            missing = [s for s in before[name] if s not in column and s not in under_way]
            if missing:
                todo.append(missing[0])
                continue
            known = [column[s] for s in before[name] if s in column]
            column[name] = max(known, default=-1) + 1
            under_way.discard(name)
            todo.pop()
    return column


def _places(
    nodes: Iterable[str], before: Mapping[str, Sequence[str]], column: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Column by column, each node as near to those before it as there is room."""
    rows: dict[str, float] = {}
    found = {}
    by_column: dict[int, list[str]] = defaultdict(list)
    for name in nodes:
        by_column[column[name]].append(name)
    for number in sorted(by_column):
        wished = {}
        for n, name in enumerate(by_column[number]):
            heights = [rows[source] for source in before[name] if source in rows]
            wished[name] = sum(heights) / len(heights) if heights else float(n)
        row = -1.0
        for name in sorted(wished, key=wished.__getitem__):
            row = max(row + 1, wished[name])
            rows[name] = row
            found[name] = (EDGE + number * COLUMN, EDGE + round(row * ROW))
    return found


def _box(place: tuple[int, int], found: Sequence[GraphTask]) -> Box:
    first = found[0]
    if len(found) == 1:
        note = f"signal {first.signal}" if first.signal else ""
        return Box(*place, _cut(first.actor), first.status, _cut(note), first.id)
    counts = Counter(task.status for task in found)
    worst = (
        next(s for s in WORST_FIRST if s in counts) if counts.keys() & set(WORST_FIRST) else "done"
    )
    note = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    return Box(*place, _cut(f"{first.actor} x {len(found):,}"), worst, _cut(note, 26), None)


WORST_FIRST = (
    "parked",
    "failed",
    "running",
    "queued",
    "waiting",
    "done",
    "cancelled",
    "superseded",
)


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _path(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = source[0] + WIDTH, source[1] + HEIGHT // 2
    x2, y2 = target[0], target[1] + HEIGHT // 2
    bend = max(20, (x2 - x1) // 2)
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
