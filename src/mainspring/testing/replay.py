"""What would have run: a history of params, through other triggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from mainspring.app import Mainspring
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.durations import Duration
from mainspring.reactive.model.values import AnyParam
from mainspring.testing.reactive import ReactiveSimulation
from mainspring.testing.reactive_state import ParamSet
from mainspring.testing.timeline import Timeline


def replay(
    tasks: Mainspring | Iterable[ReactiveTask],
    changes: Iterable[ParamSet],
    *,
    takes: Mapping[str, Duration] | None = None,
    cap: int | None = None,
    start: datetime | None = None,
    until: datetime | None = None,
) -> Timeline:
    """What these tasks would have run on that history. Functions are not called.

    Products are part of the history: they are set when they were set, whoever would have run.
    With a `start`, what was set up to then counts as seen; without, the tasks begin with nothing seen.
    """
    listed = sorted(changes, key=lambda change: change.at)
    if not listed:
        return Timeline()
    begin = start or listed[0].at
    sim = ReactiveSimulation(tasks, start=begin, takes=takes, cap=cap, calls=False)
    if start is not None:
        for change in listed:
            if change.at <= start and change.is_rewind:
                sim.rewind(change.param, change.value, chunks=change.chunks)
            elif change.at <= start:
                sim.set(change.param, change.value, if_greater=True)
        sim.baseline()
        listed = [change for change in listed if change.at > start]
    sim.plan(listed)
    sim.run_until(until or max([begin, *(change.at for change in listed)]))
    return sim.timeline


async def read_changes(
    app: Mainspring, *, since: datetime, until: datetime | None = None
) -> list[ParamSet]:
    """The history of all params that an application's tasks wait for, from its database.

    What each had before `since` comes first, as if it had been set at that moment.
    """
    keys = {param.key: param for task in app.reactive_tasks.values() for param in task.params}
    found: list[ParamSet] = []
    for key, param in sorted(keys.items()):
        found += await _changes_of(app, key, param, since, until)
    return sorted(found, key=lambda change: change.at)


async def _changes_of(
    app: Mainspring, key: str, param: AnyParam, since: datetime, until: datetime | None
) -> list[ParamSet]:
    found: list[ParamSet] = []
    before = None
    while rows := await app.reactive.param_history(key, before=before, limit=1000):
        for row in rows:
            if row.value is None or (until is not None and row.at > until):
                continue
            if row.at <= since:
                return [ParamSet(since, param, row.value), *reversed(found)]
            if row.is_rewind and row.value == row.old and not row.chunks:
                continue  # only chunks were restated, and by now nobody knows which
            chunks = tuple(chunk for chunk in row.chunks if isinstance(chunk, datetime))
            found.append(ParamSet(row.at, param, row.value, row.is_rewind, chunks))
        before = rows[-1].id
    return found[::-1]
