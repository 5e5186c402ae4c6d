"""The steps of beats: actors elsewhere say that they are still at it, many in one update (P3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from mainspring.db.sql import Steps, rows
from mainspring.kernel import KERNEL_SQL
from mainspring.processes.remote.pulling import look_steps, stored_policy
from mainspring.processes.remote.ticket import Ticket
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.policy import Policy


class Beaten(NamedTuple):
    """Until when a task is yours; or why it counts no longer."""

    held_until: datetime | None
    stop: str | None = None


class BeatVisit(NamedTuple):
    """A row of beat_visits.sql."""

    run: int
    held_until: datetime


class HeldRow(NamedTuple):
    """A row of read_held.sql."""

    n: int
    held_until: datetime | None
    stop: str | None


def beat_steps(tickets: Sequence[Ticket]) -> Steps[dict[int, Beaten]]:
    """Move the recovery times of attempts, by their place; those that are missing were locked or count
    no longer."""
    known = yield from look_steps(ticket.queue for ticket in tickets)
    policies = {name: stored_policy(actor.policy) for name, actor in known.items()}
    moved = yield from rows(
        KERNEL_SQL["beat_visits"],
        BeatVisit,
        shards=[ticket.shard for ticket in tickets],
        keys=[ticket.task for ticket in tickets],
        queues=[ticket.queue for ticket in tickets],
        passes=[ticket.run for ticket in tickets],
        work_timeouts=[policies.get(ticket.queue, Policy()).work_timeout for ticket in tickets],
    )
    times = {beat.run: beat.held_until.astimezone(UTC) for beat in moved}
    return {n: Beaten(times[t.run]) for n, t in enumerate(tickets) if t.run in times}


def held_steps(tickets: Sequence[Ticket]) -> Steps[list[Beaten]]:
    """How attempts stand that no beat moved, whoever has their rows locked."""
    found = yield from rows(
        SQL["read_held"],
        HeldRow,
        shards=[ticket.shard for ticket in tickets],
        keys=[ticket.task for ticket in tickets],
        queues=[ticket.queue for ticket in tickets],
        passes=[ticket.run for ticket in tickets],
        processes=[ticket.process_id for ticket in tickets],
    )
    return [
        Beaten(None if row.held_until is None else row.held_until.astimezone(UTC), row.stop)
        for row in sorted(found)
    ]
