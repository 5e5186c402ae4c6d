"""Tickets as only the installation makes them: for tests of who may use them."""

from __future__ import annotations

import contextlib
from uuid import uuid4

import psycopg

from mainspring.processes.remote.seal import Seals, Secret
from mainspring.processes.remote.ticket import Ticket, sealed


class TicketMaker:
    """Makes tickets under the secret of one database."""

    def __init__(self) -> None:
        self._seals = Seals()

    def read(self, url: str) -> None:
        """From now on tickets of this database are made."""
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "select number, secret from mainspring.secret order by number desc"
            ).fetchall()
        steps = self._seals.read(url, believed=-1.0)
        next(steps)
        with contextlib.suppress(StopIteration):
            steps.send([Secret(*row) for row in rows])

    def ticket(self, actor: str) -> str:
        """A ticket of an attempt that never was."""
        key = str(uuid4())
        return sealed(Ticket(actor, 1, "", key, key, 7, 7, 1.0), self._seals)


tickets = TicketMaker()
