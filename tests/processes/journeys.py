"""Journeys: processes whose steps can be undone, and note what they did."""

from __future__ import annotations

from typing import Any

import psycopg

from mainspring import Failure, Mainspring, Outcome, Promise, RetryPolicy, scope
from mainspring.testing import run_until_idle

ONCE = RetryPolicy(attempts=1)


class Trip:
    """Journeys whose steps note what they did; `broken` names steps and undos that fail."""

    def __init__(self, app: Mainspring) -> None:
        self.app = app
        self.ran: list[str] = []
        self.broken: set[str] = set()
        self.go = app.signal("go", bool)

        def note(what: str) -> str:
            if what in self.broken:
                raise OSError(f"{what} does not work")
            self.ran.append(what)
            return what

        @app.task(retry=ONCE)
        def book(what: str) -> str:
            return note(what)

        @app.task(retry=ONCE)
        def free(what: str, booked: Outcome[str]) -> None:
            note(f"free {what}" if booked.failure is None else f"free {what} if booked")

        @app.task
        def apologise(failure: Failure) -> str:
            return note("apologise")

        @app.task
        def conclude(parts: list[str], went: bool) -> str:
            return note("conclude")

        self.book, self.free, self.apologise, self.conclude = book, free, apologise, conclude

    def step(self, what: str, *after: Any) -> Any:
        """A booking that can be undone."""
        booked = self.book(what, after=after)
        booked.compensate(self.free, what, booked)
        return booked

    async def started(self, process: Any) -> Any:
        handle = await process.start()
        await run_until_idle(self.app)
        return handle


def saga(trip: Trip, name: str = "journey") -> Any:
    """Two bookings in a scope that waits for a signal."""

    @trip.app.process(name=name)
    def journey() -> Promise[str]:
        with scope() as s:
            s.on_error(trip.apologise)
            hotel = trip.step("hotel")
            car = trip.step("car", hotel)
            s.returns(trip.conclude([hotel, car], trip.go.wait()))
        return s.promise

    return journey


def is_sound(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("select * from mainspring.process_violation").fetchall() == []
        left = "select queue, key from mainspring.visit where payload ? '@'"
        assert connection.execute(left).fetchall() == []
