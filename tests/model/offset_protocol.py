"""The offset of one partition: readers, late commits, take-overs, an operator, a broker that drops.

Leases are not modelled: any reader may begin at any moment, as if none were ever kept. A commit is on its
way from when it is sent, and may arrive after its reader has died. A transaction is one step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from explorer import Invariant

ONCE = "a call is made once"
WHOLE = "what is behind the offset has its effects"
ORDER = "effects come in the order of their records"
ORDERS = "an order in words stands until it is followed"


@dataclass(frozen=True)
class Rules:
    """The rules of the protocol; each can be switched off."""

    compare_and_set: bool = True  # an offset that is not what the reader began at refuses its batch
    one_transaction: bool = True  # effects and offset are committed together
    look_when_read_again: bool = (
        True  # below the greatest offset there was, known calls are looked up
    )
    reached_under_lock: bool = (
        True  # and that is read in the transaction, not when the reader began
    )
    order_fences: bool = True  # an order in words, not found out yet, refuses batches
    gone_stops: bool = True  # an offset that the broker dropped is not passed over
    batch_ends_before_bad: bool = True  # the offset stops at a record that cannot be mapped


@dataclass(frozen=True)
class Bounds:
    """How much may happen."""

    records: int = 2
    readers: int = 2
    most: int = 2  # records of a batch
    deaths: int = 1
    seeks: int = 1
    drops: int = 1
    bad: int = -1  # a record that cannot be mapped


class Batch(NamedTuple):
    """A commit that is on its way: records from `first` up to `upto`."""

    reader: int
    first: int
    upto: int
    reached: int  # as the reader had it when it began
    start: int  # the first record that it has: later than `first` where the broker had dropped some
    half: bool = False  # its effects are there, its offset is on the way


class State(NamedTuple):
    """The row, what was committed, who reads, and what is on its way."""

    next: int = 0
    reached: int = 0
    ordered: bool = False  # the row says "earliest", and nobody has found out yet where that is
    low: int = 0  # the broker's first record
    calls: tuple[int, ...] = (0, 0, 0, 0, 0)
    document: int = -1  # the record that last wrote it
    passed: frozenset[int] = frozenset()  # records that an order of the operator passed over
    reading: tuple[tuple[int, int] | None, ...] = (
        None,
        None,
        None,
    )  # offset and `reached`, by reader
    sent: frozenset[Batch] = frozenset()
    deaths: int = 0
    seeks: int = 0
    drops: int = 0
    broken: str = ""
    disorder: str = ""


class OffsetProtocol:
    """All steps from a state."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules, self.bounds = rules, bounds

    def steps(self, s: State) -> Iterable[tuple[str, State]]:
        for reader in range(self.bounds.readers):
            yield from self._reader(s, reader)
        for batch in s.sent:
            yield from self._arrival(s, batch)
        if s.seeks < self.bounds.seeks:
            later = s._replace(seeks=s.seeks + 1)
            for to in range(self.bounds.records + 1):
                passed = s.passed | set(range(s.next, to))
                yield f"the operator moves it to {to}", later._replace(next=to, passed=passed)
            yield "the operator orders earliest", later._replace(ordered=True)
        if s.drops < self.bounds.drops and s.low < self.bounds.records:
            yield f"the broker drops {s.low}", s._replace(low=s.low + 1, drops=s.drops + 1)

    def _reader(self, s: State, reader: int) -> Iterable[tuple[str, State]]:
        at = s.reading[reader]
        who = f"reader {reader}"
        if at is None:
            if s.ordered:
                found = s._replace(next=s.low, ordered=False)
                passed = s.passed | set(range(s.next, s.low))
                yield f"{who} finds out that earliest is {s.low}", found._replace(passed=passed)
            else:
                yield f"{who} begins at {s.next}", _with(s, reader, (s.next, s.reached))
            return
        offset, reached = at
        if s.deaths < self.bounds.deaths:
            yield f"{who} dies", _with(s, reader, None)._replace(deaths=s.deaths + 1)
        first = offset
        if offset < s.low:
            if self.rules.gone_stops:
                yield f"{who} stops: {offset} is gone", _with(s, reader, None)
                return
            first = s.low
        for upto in range(first + 1, min(first + self.bounds.most, self.bounds.records) + 1):
            end = upto
            if self.rules.batch_ends_before_bad and first <= self.bounds.bad < upto:
                end = self.bounds.bad
            if end > first:
                batch = Batch(reader, offset, end, reached, first)
                if batch not in s.sent and len(s.sent) < self.bounds.readers:
                    yield f"{who} sends {offset} to {end}", s._replace(sent=s.sent | {batch})

    def _arrival(self, s: State, batch: Batch) -> Iterable[tuple[str, State]]:
        name = f"the batch {batch.first} to {batch.upto} of reader {batch.reader} arrives"
        rest = s._replace(sent=s.sent - {batch})
        fits = s.next == batch.first and not (s.ordered and self.rules.order_fences)
        if self.rules.compare_and_set and not fits:
            yield f"{name} and is refused", _ended(rest, batch)
            return
        if batch.half:
            yield f"{name}: its offset", _went_on(rest, batch, s.ordered)
            yield f"{name}: its offset never does", _ended(rest, batch)
            return
        known = s.reached if self.rules.reached_under_lock else batch.reached
        again = self.rules.look_when_read_again and batch.first < known
        calls = list(s.calls)
        document, disorder = s.document, s.disorder
        for record in range(batch.start, batch.upto):
            if record == self.bounds.bad:
                continue  # it has no effect
            if not (again and calls[record]):
                calls[record] += 1
            if record <= document and not s.seeks:
                disorder = f"{record} after {document}"
            document = record
        wrote = rest._replace(calls=tuple(calls), document=document, disorder=disorder)
        if not self.rules.one_transaction:
            half = batch._replace(half=True)
            yield f"{name}: its effects", wrote._replace(sent=wrote.sent | {half})
            return
        yield name, _went_on(wrote, batch, s.ordered)
        yield f"{name}, and its answer is lost", _ended(_went_on(wrote, batch, s.ordered), batch)

    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            ONCE: self._once,
            WHOLE: self._whole,
            ORDERS: lambda s: s.broken or None,
            ORDER: lambda s: s.disorder or None,
        }

    def _once(self, s: State) -> str | None:
        twice = [n for n, count in enumerate(s.calls) if count > 1]
        return f"not that of {twice[0]}" if twice else None

    def _whole(self, s: State) -> str | None:
        for record in range(s.next):
            if not s.calls[record] and record not in s.passed:
                return f"not {record}"
        return None


def _with(s: State, reader: int, at: tuple[int, int] | None) -> State:
    reading = list(s.reading)
    reading[reader] = at
    return s._replace(reading=tuple(reading))


def _went_on(s: State, batch: Batch, was_ordered: bool) -> State:
    """The offset is set, and its reader, if it lives, reads on from there."""
    broken = "somebody has read on" if was_ordered else ""
    moved = s._replace(next=batch.upto, reached=max(s.reached, batch.upto), broken=broken)
    if s.reading[batch.reader] is None:
        return moved
    return _with(moved, batch.reader, (batch.upto, batch.reached))


def _ended(s: State, batch: Batch) -> State:
    """Its reader, if it lives, ends, and the next begins with what the row says."""
    return _with(s, batch.reader, None)
