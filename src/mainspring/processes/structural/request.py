"""Requests: the visits by which a process is cancelled, restarted or looked at.

Every structural change is a visit, run by the engine. In a user's transaction a cancel or a restart only
offers it: the change happens after that is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.sql import Steps, rows
from mainspring.errors import InvalidArguments
from mainspring.ids import new_id
from mainspring.kernel import DEFAULT_PRIORITY
from mainspring.processes.commit.visits import QUEUE, NewVisit, engine_visit, offer_steps
from mainspring.processes.statements import SQL


class CancelOrder(msgspec.Struct, frozen=True):
    """How a process is to be cancelled: what its visit says."""

    compensate: bool = True


class ProcessRestart(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a process is to be restarted: from a task, from those of an actor, or from scratch."""

    task: str | None = None
    actor: str | None = None
    fresh_signals: bool = False
    force: bool = False
    priority: int | None = None  # of what is queued at once; None: each task's own

    @classmethod
    def starting(
        cls, task: str | None, *, fresh_signals: bool = False, priority: int | None = None
    ) -> ProcessRestart:
        """From a task by its id, or from those of an actor: whichever the text is."""
        order = cls(fresh_signals=fresh_signals, priority=priority)
        try:
            id = None if task is None else str(UUID(task))
        except ValueError:
            return msgspec.structs.replace(order, actor=task)
        return msgspec.structs.replace(order, task=id)


class PartOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a process: a task by its id, the live ones of an actor, or open scopes by their name."""

    task: str | None = None
    actor: str | None = None
    scope: str | None = None
    why: str = "called off"

    @classmethod
    def named(cls, task: str | None, scope: str | None, why: str) -> PartOrder:
        """By an id or an actor, whichever the text is, or by a scope's name."""
        if task is None:
            return cls(scope=scope, why=why)
        try:
            return cls(task=str(UUID(task)), why=why)
        except ValueError:
            return cls(actor=task, why=why)


class ProcessEngine(NamedTuple):
    """A row of find_engines.sql, find_children.sql and find_children_of.sql."""

    id: str
    engine: str


def request_cancel(
    process_id: str, priority: int = DEFAULT_PRIORITY, *, compensate: bool = True
) -> NewVisit:
    """The visit by which a process is cancelled."""
    return _requested("cancel", process_id, process_id, priority, CancelOrder(compensate))


def part_of(
    task: str | None, scope: str | None, why: str, *, compensate: bool = True
) -> PartOrder | None:
    """The part of a process that is meant; None: all of it."""
    if task is None and scope is None:
        return None
    if task is not None and scope is not None:
        raise InvalidArguments("name a task or a scope to be cancelled, not both")
    if not compensate:
        raise InvalidArguments(
            "compensate=False (--no-compensate) is for a whole process: a scope that is cancelled is "
            "undone, and a task alone undoes nothing"
        )
    return PartOrder.named(task, scope, why)


def request_look(
    process_id: str, priority: int = DEFAULT_PRIORITY, *, source: str | None = None
) -> NewVisit:
    """The visit by which a process is checked now; `source`: who ordered it."""
    return _requested("look", process_id, process_id, priority, source)


def request_call_off(
    process_id: str, part: PartOrder, priority: int = DEFAULT_PRIORITY
) -> NewVisit:
    """The visit by which a part of a process is called off."""
    return _requested("call_off", process_id, new_id(), priority, part)


def request_restart(
    process_id: str, order: ProcessRestart, priority: int = DEFAULT_PRIORITY
) -> NewVisit:
    """The visit by which a process is restarted."""
    return _requested("restart", process_id, new_id(), priority, order)


def _requested(kind: str, process_id: str, subject: str, priority: int, more: object) -> NewVisit:
    text = msgspec.json.encode(more).decode()
    visit = engine_visit(kind, process_id, subject, id=new_id(), engine=QUEUE, more=text)
    return msgspec.structs.replace(visit, priority=priority)


def cancel_of(more: object) -> CancelOrder:
    """The order of a visit; one of the release before says nothing."""
    return CancelOrder() if more is None else msgspec.convert(more, CancelOrder)


def request_steps(visits: Sequence[NewVisit], shard_count: int) -> Steps[None]:
    """Ask for structural changes, in anyone's transaction. The visits go to where the engine works for
    each process."""
    ids = sorted({visit.process_id for visit in visits})
    found = yield from rows(SQL["find_engines"], ProcessEngine, ids=ids)
    engines = {process.id: process.engine for process in found}
    placed = [
        msgspec.structs.replace(visit, queue=engines.get(visit.process_id, visit.queue))
        for visit in visits
    ]
    yield from offer_steps(placed, shard_count)


def cancels_of(children: Sequence[ProcessEngine], *, compensate: bool) -> list[NewVisit]:
    """The visits by which child processes are cancelled, where the engine works for each."""
    return [
        msgspec.structs.replace(request_cancel(child.id, compensate=compensate), queue=child.engine)
        for child in children
    ]
