"""Judges what runs come to: when a queue or a group is halted, and how its breaker stands. No I/O.

What goes well writes nothing. A worker that has seen the last failure that a breaker waits for starts
nothing more of it (it *halts*) until the database has said how things stand: so a trial is one run, and no
failure more than it takes comes from this worker. Of one worker, in its event loop. tests/model has an
explorer that walks it (breaker_protocol.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import msgspec

from mainspring import clock
from mainspring.breakers.breaker import Breaker
from mainspring.breakers.counts import Count, Key, Tally, has_failed
from mainspring.endpoint import REASON_BYTES
from mainspring.failure_text import clean_text
from mainspring.kernel import MOST_SHUT, QueueState, Respite, Run

log = logging.getLogger("mainspring")


@dataclass(frozen=True, slots=True)
class BreakerTuning:
    """The constants, each with its reason. Times are seconds."""

    # What could not be told of runs that failed is told again after so long.
    again: float = 1.0
    # From so many runs at once on, one that was open is closed.
    trusted: int = 256
    # Of one of which nobody has heard for so long nothing is kept in mind: its row is gone after a day.
    known: float = 90_000.0


DEFAULT = BreakerTuning()


class Counted(NamedTuple):
    """How a breaker stands after its failures were counted."""

    queue: str
    group: str
    failures: int
    is_open: bool
    pg_notify: None


class Row(NamedTuple):
    """A breaker as the settings of its queue show it."""

    group: str
    failures: int
    is_open: bool
    left: float | None  # seconds until it is tried
    at_once: int | None


_rows = msgspec.json.Decoder(list[Row]).decode


class Judgement:
    """The breakers of one worker's queues, as far as it knows them."""

    def __init__(
        self,
        queues: Mapping[str, QueueState],
        *,
        look: Callable[[], None],
        tuning: BreakerTuning = DEFAULT,
    ) -> None:
        self._queues = queues
        self._look = look  # the heart reads the settings now
        self._tuning = tuning
        self._tally = Tally()
        self._telling: dict[Key, Count] = {}  # on their way
        # Breakers that count or are not closed, as far as is known here: their failures. Of a group only
        # its owner knows, unless it was opened. And when that was heard: the longest ago in front.
        self._known: dict[Key, tuple[int, float]] = {}
        self._open: set[Key] = set()  # of these
        # An answer said how these stand: a read of the settings that was on its way may be older.
        self._fresh: set[Key] = set()
        self._crowded: set[str] = set()  # queues with more open groups than are read
        self._limits = {name: _failures_of(queue) for name, queue in queues.items()}
        # Whether every run has to be looked at: no queue has a breaker otherwise.
        self.on = any(limit is not None for limit in self._limits.values())

    # -- what runs come to

    def ended(self, runs: Sequence[Run]) -> None:
        """Runs have their outcomes. One that was told when to come back opens a breaker, though its queue
        may declare none."""
        self.on = True
        for run in runs:
            failed = has_failed(run)
            if run.rest is not None:
                self._rest(run, run.rest)
            elif failed is not None:
                for key in self._concerned(run):
                    self._count(key, run, failed=failed)

    def _concerned(self, run: Run) -> Iterator[Key]:
        """The breakers that count this run: its queue's or its group's, and any that is not closed."""
        visit = run.visit
        breaker = self._queues[visit.queue].settings.breaker
        per = None
        if self._limits[visit.queue] is not None:
            per = breaker.per if isinstance(breaker, Breaker) else "queue"
        whole = (visit.queue, "")
        if per == "queue" or self._is_counted(whole):
            yield whole
        if visit.group:
            group = (visit.queue, visit.group)
            if per == "group" or self._is_counted(group):
                yield group

    def _is_counted(self, key: Key) -> bool:
        """Whether failures of it are known: in the database, on their way, or to be told."""
        return key in self._known or key in self._telling or key in self._tally

    def _count(self, key: Key, run: Run, *, failed: bool) -> None:
        if not failed and not self._is_counted(key):
            return  # all is well, and nobody has to know
        reason = _line(run.outcome.error) if failed else ""
        count = self._tally.of(key)
        count.add(run.started, failed=failed, reason=reason)
        limit = self._limits[key[0]]
        if failed and (
            key in self._open or (limit is not None and self._failures_of(key) >= limit)
        ):
            self._halt(key)

    def _failures_of(self, key: Key) -> int:
        """In a row, as far as is known here: in the database, on their way, and to be told."""
        count, telling = self._tally.of(key), self._telling.get(key)
        found = count.failures
        if not count.succeeded and telling is not None:
            found += telling.failures
        if not count.succeeded and not (telling is not None and telling.succeeded):
            found += self._known.get(key, (0, 0.0))[0]
        return found

    def _rest(self, run: Run, rest: Respite) -> None:
        """The other side says when to come back."""
        visit = run.visit
        group = visit.group if rest.pauses == "group" else ""
        if group is None:
            return  # it has no group: only this call waits
        key = (visit.queue, group)
        self._tally.of(key).rests(run.started, rest._replace(reason=_line(rest.reason)))
        self._halt(key)

    def _halt(self, key: Key, reads: int | None = None) -> None:
        queue, group = self._queues[key[0]], key[1]
        if group:
            queue.groups.halt(group, reads)
        else:
            queue.halt(reads)

    def _is_halted(self, key: Key) -> bool:
        queue, group = self._queues[key[0]], key[1]
        return group in queue.groups.halted if group else bool(queue.halted)

    # -- telling

    def take(self) -> list[tuple[Key, Count]]:
        """What is to be told now."""
        taken = self._tally.take()
        self._telling = dict(taken)
        return taken

    def not_told(self, taken: Sequence[tuple[Key, Count]]) -> None:
        """The database could not be told: later, with what has come since."""
        self._telling = {}
        self._tally.put_back(taken)

    def answered(self, taken: Sequence[tuple[Key, Count]], answers: Sequence[Counted]) -> None:
        """The database was told, and says how breakers stand that had failures."""
        self._telling = {}
        told = {(answer.queue, answer.group): answer for answer in answers}
        looks = False
        for key, _ in taken:
            answer = told.get(key)
            if answer is not None:
                self._know(key, answer.failures)
                self._fresh.add(key)
            elif key not in self._open:
                self._known.pop(key, None)  # only a success was told, or there is no row
            opens = answer is not None and answer.is_open
            if opens:
                self._open.add(key)
                log.warning("breaker.open", extra={"queue": key[0], "group": key[1] or None})
            halted = self._is_halted(key)
            if halted and key in self._tally:
                continue  # it is told once more
            # Answer or not: what it was halted for is known now. A read that is on its way may be older
            # than that; the one after it is not.
            if opens or halted:
                self._halt(key, 2)
                looks = True
        if looks:
            self._look()

    def _know(self, key: Key, failures: int) -> None:
        self._known.pop(key, None)
        self._known[key] = (failures, clock.local())

    def _forget_old(self) -> None:
        """Drop what nobody has heard of for as long as its row is kept."""
        least = clock.local() - self._tuning.known
        old = takewhile(lambda item: item[1][1] < least, self._known.items())
        for key in [key for key, _ in old]:
            del self._known[key]
            self._open.discard(key)

    # -- what the database says

    def read(self, queue: QueueState, failures: int | None, breakers: str | None) -> bool:
        """A queue's breakers as its settings show them. Whether its groups may have more room now."""
        name = queue.name
        self._limits[name] = failures
        rows = [] if breakers is None else _rows(breakers)
        if rows or failures is not None:
            self.on = True
        fresh = {key for key in self._fresh if key[0] == name}
        self._fresh -= fresh
        shown = {(name, row.group): row for row in rows if (name, row.group) not in fresh}
        crowded = self._is_crowded(name, rows)
        for key in [k for k in self._open - fresh if k[0] == name and k not in shown]:
            self._open.discard(key)
            if not crowded:  # else it may be open: its next success is told
                self._known.pop(key, None)
        if (name, "") not in shown.keys() | fresh:
            self._known.pop((name, ""), None)
        for key, row in shown.items():
            self._know(key, row.failures)
            if row.is_open:
                self._open.add(key)
            else:
                self._open.discard(key)
        self._forget_old()
        if queue.halted:
            queue.halted_read()
        now = clock.local()
        shut = {
            row.group: (now + (row.left or 0.0), row.at_once or 1)
            for row in rows
            if row.group and row.is_open
        }
        changed = queue.groups.shut_by_breakers(shut)
        # Until a read is surely newer than what is known here. What waits to be told has it read then.
        if any(0 < reads < math.inf for reads in (queue.halted, *queue.groups.halted.values())):
            self._look()
        return changed

    def _is_crowded(self, name: str, rows: Sequence[Row]) -> bool:
        """Whether a queue may have more open groups than these; it is said once."""
        if sum(bool(row.group) for row in rows) < MOST_SHUT:
            self._crowded.discard(name)
            return False
        if name not in self._crowded:
            self._crowded.add(name)
            facts = {"queue": name, "read": MOST_SHUT}
            log.warning("breaker.crowded", extra=facts)
        return True


def _failures_of(queue: QueueState) -> int | None:
    """After how many in a row it stops, as the code declares it."""
    breaker = queue.settings.breaker
    return breaker.failures if isinstance(breaker, Breaker) else None


def _line(text: str) -> str:
    """The first line of a reason, not too long."""
    return clean_text(text.partition("\n")[0], REASON_BYTES)
