"""A change: a param was set, so its consumers are to be checked.

The setter writes one visit, keyed by the param, whatever depends on it: so two loaders never wait for
each other, and a burst leaves one visit. Here the consumers are read from the index, after the visit
was, and judged on the spot, those of many params together: a visit for each check would cost more than
the check. What cannot be decided now (a gate, a state that moved meanwhile) is left to a check visit,
and so are all consumers of a param that has very many: then other workers share them, page by page.
A change that comes meanwhile supersedes the visit, which then comes again; the list that was begun is
walked to its end all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.ids import token
from mainspring.kernel import Again, Done, Offer, Outcome, offer_visits
from mainspring.reactive.queues import CHECK, FIRST, Offered, nobody
from mainspring.reactive.schedule.check import Check, TaskRow, read_tasks
from mainspring.reactive.statements import SQL

JUDGED = 1000  # consumers that are judged at once; a param that has more is spread
PAGE = 1000


class SpreadPage(NamedTuple):
    """A page of a param's consumers: the last of it, how many it has, how many were offered a check."""

    last: str
    looked: int
    offered: int


class Spread:
    """Serves the change visits of a worker."""

    def __init__(
        self,
        database: Database,
        check: Check,
        *,
        judged: int = JUDGED,
        offered: Offered = nobody,
    ) -> None:
        self._database = database
        self._check = check
        self._offered = offered
        self._judged = judged

    async def __call__(self, tx: Tx, params: Sequence[str]) -> list[Outcome]:
        """Have all consumers of these params checked, or to be checked, before this answers."""
        await self._serve(tx, sorted(set(params)))
        return [Done() for _ in params]

    async def _serve(self, tx: Tx, params: Sequence[str]) -> None:
        most = self._judged + 1
        rows = await read_tasks(tx, users_of=params, most=most)
        if len(rows) <= self._judged:
            await self.judge(tx, rows)
        elif len(params) > 1:
            middle = len(params) // 2
            await self._serve(tx, params[:middle])
            await self._serve(tx, params[middle:])
        else:
            await self._spread(tx, params[0])

    async def judge(self, tx: Tx, rows: Sequence[TaskRow]) -> None:
        """Check these tasks now; where time or another look is wanted, offer that."""
        outcomes = await self._check.judge(tx, rows)
        later = [
            Offer(CHECK, row.task, _due(outcome, row.now), FIRST)
            for row in rows
            if isinstance(outcome := outcomes[row.task], Again)
        ]
        if later:
            await offer_visits(self._database, tx, later)
            self._offered(CHECK, min(o.due_at for o in later if o.due_at is not None))

    async def _spread(self, tx: Tx, param: str) -> None:
        """Offer checks to all consumers of a param, one transaction a page."""
        after = ""
        while True:
            page = await tx.one(
                SQL["spread"],
                SpreadPage,
                params=[param],
                after=after,
                most=PAGE,
                token=token() >> 1,
            )
            if page.looked < PAGE:
                return
            after = page.last


def _due(outcome: Again, now: datetime) -> datetime:
    return outcome.at or now + timedelta(seconds=outcome.after)
