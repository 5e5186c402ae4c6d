"""Acknowledged: what a consumer has is deleted from the outbox, in the transaction that settles its run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainspring.db.database import Connection
from mainspring.db.tx import Tx
from mainspring.entities.statements import SQL
from mainspring.kernel import Run, Verdict, crash_points, lock_visits


class Delivery(NamedTuple):
    """An event of an entity for one consumer."""

    shard: int
    kind: str
    key: str
    number: int
    consumer: str


class Acknowledge:
    """The writer of relays. A run's change is the list of its deliveries."""

    most = 500
    overlaps = True  # events are locked in one order: as well two lines of a worker as two workers
    stands = True  # an event that came meanwhile has its own delivery, and the visit stays due

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        answers = await lock_visits(connection, runs)
        counted = [run for run, at in zip(runs, answers, strict=True) if at in ("same", "moved")]
        if counted:
            await acknowledge(connection, (item for run in counted for item in run.change))
            crash_points.passed("relay.acknowledged")
        verdicts = {"locked": "locked", "gone": "gone"}
        return [verdicts.get(answer) for answer in answers]


async def acknowledge(tx: Tx, deliveries: Iterable[Delivery]) -> None:
    """Delete deliveries, and events nobody waits for any more."""
    items = sorted(deliveries)
    values = {
        "shards": [item.shard for item in items],
        "kinds": [item.kind for item in items],
        "keys": [item.key for item in items],
        "numbers": [item.number for item in items],
        "consumers": [item.consumer for item in items],
    }
    for name in ("acknowledge", "forget_events"):
        await tx.run(SQL[name], **values)
