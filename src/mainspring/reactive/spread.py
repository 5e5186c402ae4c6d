"""Spreading a change: a param was set, so its consumers are to be checked.

The setter writes one visit, keyed by the param, whatever depends on it: so two loaders never wait for
each other, and a burst leaves one visit. Here the consumers are read from the index, after the visit
was, and offered a check each, page by page. A change that comes meanwhile supersedes the visit, which
then comes again; the list that was begun is walked to its end all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.db.connect import Database
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.visit import token
from mainspring.reactive.store import ask

PAGE = 1000


class Spread:
    """Serves the change visits of a worker."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, connection: Any, params: Sequence[str]) -> list[Outcome]:
        """Offer checks to all consumers of these params, one transaction a page."""
        after = ""
        while True:
            rows = await ask(
                self._database,
                connection,
                "spread",
                params=sorted(set(params)),
                after=after,
                most=PAGE,
                token=token() >> 1,
            )
            if rows[0]["looked"] < PAGE:
                return [Done() for _ in params]
            after = rows[0]["last"]
