"""Offers of the layer: the kernel's, with a payload, a time and a lane."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from mainspring.db.database import Connection
from mainspring.db.sql import numbers, texts, words
from mainspring.db.tx import Tx
from mainspring.ids import new_ids, tokens
from mainspring.kernel import DEFAULT_PRIORITY, KERNEL_SQL, Done, Run, Verdict, lock_visits

_encode = msgspec.json.Encoder().encode
# Visits of the crawl lane: below every live one.
CRAWL_PRIORITY = 2


class StageOffer(msgspec.Struct, gc=False):
    """A wish that a queue looks at an entity, now, at a time or after some seconds."""

    queue: str
    shard: int
    key: str
    due_at: datetime | None = None
    after: float | None = None
    payload: dict[str, object] = {}
    priority: int = DEFAULT_PRIORITY


class Offering:
    """The kernel's writer for runs that come to nothing but offers."""

    most = 1000
    overlaps = True
    stands = True

    def done(self, run: Run, offers: Sequence[StageOffer], result: str) -> Done:
        """The outcome of such a run. Its offers wait as its change."""
        run.leave_to_writer(offers)
        return Done(result=result, writer=self if offers else None)

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        """Offers and settle in one transaction. The visits are locked first: a delete that comes
        meanwhile then finds the offers, too."""
        stood = await lock_visits(connection, runs)
        offers = [
            wish
            for run, how in zip(runs, stood, strict=True)
            if how in ("same", "moved")
            for wish in run.change
        ]
        await offer(connection, offers)
        return [how if how in ("locked", "gone") else None for how in stood]


async def offer(tx: Tx, offers: Sequence[StageOffer]) -> None:
    """Offer visits; always writes, so that a run under way is followed by another."""
    if offers:
        await tx.run(KERNEL_SQL["offer_many"], **offer_values(offers))


def offer_values(offers: Sequence[StageOffer]) -> dict[str, object]:
    """The arguments of the kernel's offer_many.sql."""
    due_ats = [None if o.due_at is None else o.due_at.isoformat() for o in offers]
    afters = [o.after for o in offers]
    return {
        "shards": numbers([o.shard for o in offers]),
        "keys": texts([o.key for o in offers]),
        "queues": texts([o.queue for o in offers]),
        "ids": words(new_ids(len(offers))),
        "priorities": numbers([o.priority for o in offers]),
        "versions": numbers(tokens(len(offers))),
        "payloads": texts(_encoded(offers)),
        "due_ats": texts(due_ats) if any(due_ats) else None,
        "afters": numbers(afters) if any(after is not None for after in afters) else None,
    }


def _encoded(offers: Sequence[StageOffer]) -> list[str]:
    """The payloads as JSON; the offers of one system visit share theirs."""
    found: list[str] = []
    last: dict[str, object] | None = None
    for wish in offers:
        if wish.payload is not last:
            last, text = wish.payload, _encode(wish.payload).decode()
        found.append(text)
    return found
