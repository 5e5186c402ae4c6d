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
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel import Again, Done, Offer, Outcome, offer_visits, token
from mainspring.reactive.queues import CHECK, FIRST, Offered, nobody
from mainspring.reactive.schedule.check import Check, read_tasks
from mainspring.reactive.statements import ask

JUDGED = 1000  # consumers that are judged at once; a param that has more is spread
PAGE = 1000


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

    async def __call__(self, connection: Any, params: Sequence[str]) -> list[Outcome]:
        """Have all consumers of these params checked, or to be checked, before this answers."""
        await self._serve(connection, sorted(set(params)))
        return [Done() for _ in params]

    async def _serve(self, connection: Any, params: Sequence[str]) -> None:
        most = self._judged + 1
        rows = await read_tasks(self._database, connection, users_of=params, most=most)
        if len(rows) <= self._judged:
            await self.judge(connection, rows)
        elif len(params) > 1:
            middle = len(params) // 2
            await self._serve(connection, params[:middle])
            await self._serve(connection, params[middle:])
        else:
            await self._spread(connection, params[0])

    async def judge(self, connection: Any, rows: Sequence[Any]) -> None:
        """Check these tasks now; where time or another look is wanted, offer that."""
        outcomes = await self._check.judge(connection, rows)
        later = [
            Offer(CHECK, row["task"], _due(outcome, row["now"]), FIRST)
            for row in rows
            if isinstance(outcome := outcomes[row["task"]], Again)
        ]
        if later:
            await offer_visits(self._database, connection, later)
            self._offered(CHECK, min(o.due_at for o in later if o.due_at is not None))

    async def _spread(self, connection: Any, param: str) -> None:
        """Offer checks to all consumers of a param, one transaction a page."""
        after = ""
        while True:
            rows = await ask(
                self._database,
                connection,
                "spread",
                params=[param],
                after=after,
                most=PAGE,
                token=token() >> 1,
            )
            if rows[0]["looked"] < PAGE:
                return
            after = rows[0]["last"]


def _due(outcome: Again, now: datetime) -> datetime:
    return outcome.at or now + timedelta(seconds=outcome.after)
