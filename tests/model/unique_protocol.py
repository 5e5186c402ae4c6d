"""Calls under one key: nothing that was asked is swallowed, each has its own run, and no two run at once.

A call changes a value and asks for a run, in one transaction; a run sees the value that was committed
when it began. The row of the key is a visit, with room for one call that waits behind the run. Runs are
held, settled, retried, parked and recovered; a worker that was given up may settle late. Operators cancel
and restart. (Putting back inserts if the key is free, as a call does.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    id: int
    version: int
    held: int = 0  # by the run of that token
    attempt: int = 0
    parked: bool = False
    behind: int = 0  # the call that waits behind it


class Run(NamedTuple):
    id: int
    version: int
    token: int
    seen: int
    lost: bool = False  # its worker was declared dead, and may settle all the same


class Tx(NamedTuple):
    """A call's transaction: open, and what its commit writes."""

    row: Row | None
    own: int = 0  # the id of the call, if it will have a run of its own
    given_up: int = 0  # whose place it takes
    told: int = 0  # the id that it was told
    during: int = 0  # the id of the run that was under way then
    touches: bool = True  # it has the row locked
    second: int = 0  # a visit beside the row, where the follow-up is one of its own


class State(NamedTuple):
    row: Row | None = None
    beside: Row | None = None  # only where the follow-up is a visit of its own
    tx: Tx | None = None
    read: Row | None = None  # by the worker, and not started yet
    runs: frozenset[Run] = frozenset()
    half: int = 0  # a follow-up that a worker is about to put in the place of the one that ended
    value: int = 0  # committed
    tried: int = 0  # the newest value that a run which ended has seen
    owed: frozenset[int] = frozenset()  # calls that were promised a run of their own
    lie: str = ""
    token: int = 100
    calls: int = 0
    deaths: int = 0
    fails: int = 0
    orders: int = 0  # of operators


@dataclass(frozen=True, slots=True)
class Rules:
    """Off, each swallows a change, loses a call, or lets two run at once."""

    held_first: bool = True  # off: a run begins without a mark in its row
    meeting_writes: bool = True  # off: who meets a waiting call leaves it as it is
    new_version: bool = True  # off: who meets a waiting call only locks it
    behind_in_the_row: bool = True  # off: the one that waits behind is a visit of its own
    payload_is_kept: bool = True  # off: what waits behind takes the place of what runs at once
    follows_an_end: bool = True  # off: what waits behind goes with the row
    follows_at_once: bool = True  # off: in a transaction of its own, by a worker that may die
    follows_a_park: bool = True  # off: it waits behind what is parked
    parked_gives_way: bool = True  # off: who meets a parked call is told of it, and nothing else


@dataclass(frozen=True, slots=True)
class Bounds:
    calls: int = 3
    deaths: int = 0
    fails: int = 0  # the first is retried, the second parks
    orders: int = 0


@dataclass(frozen=True, slots=True)
class UniqueProtocol:
    rules: Rules
    bounds: Bounds

    def start(self) -> State:
        b = self.bounds
        return State(calls=b.calls, deaths=b.deaths, fails=b.fails, orders=b.orders)

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self._calls(s)
        yield from self._worker(s)
        for run in sorted(s.runs):
            yield from self._ends(s, run)
        yield from self._operator(s)

    # -- calls

    def _calls(self, s: State) -> Iterator[tuple[str, State]]:
        if s.tx is None:
            if s.calls:
                id = self.bounds.calls - s.calls + 1
                asked = s._replace(calls=s.calls - 1, token=s.token + 1)
                yield f"call {id} is made", asked._replace(tx=self._meet(asked, id))
            return
        tx = s.tx
        value = s.value + 1
        row = s.row if not tx.touches else tx.row
        after = s._replace(tx=None, value=value, row=row)
        if tx.own:
            after = after._replace(owed=s.owed | {tx.own})
        if tx.given_up:
            after = self._ended(after, tx.given_up, 0)
        if tx.second:
            after = after._replace(beside=Row(tx.second, s.token))
        if tx.during and tx.told == tx.during:
            after = after._replace(lie=f"call {tx.told} is told to one that came during its run")
        yield "it commits", after
        yield "it is rolled back", s._replace(tx=None)

    def _meet(self, s: State, id: int) -> Tx:
        row, r = s.row, self.rules
        during = next((run.id for run in s.runs if not run.lost), 0)
        if row is None:
            return Tx(Row(id, s.token), own=id, told=id, during=during)
        if row.parked:
            if not r.parked_gives_way:
                return Tx(row, told=row.id, touches=False)
            return Tx(Row(id, s.token), own=id, told=id, given_up=row.id)
        waiting = row.behind or (s.beside.id if s.beside else 0)
        if row.held and not waiting:
            if not r.behind_in_the_row:
                return Tx(row, own=id, told=id, during=during, second=id)
            if not r.payload_is_kept:
                return Tx(row._replace(id=id, version=s.token), own=id, told=id, during=during)
            return Tx(row._replace(behind=id), own=id, told=id, during=during)
        told = waiting or row.id
        if not r.meeting_writes:
            return Tx(row, told=told, during=during, touches=False)
        met = row if row.held or not r.new_version else row._replace(version=s.token)
        return Tx(met, told=told, during=during)

    # -- the worker

    def _worker(self, s: State) -> Iterator[tuple[str, State]]:
        live = [run for run in s.runs if not run.lost]
        for row in (s.row, s.beside):
            if s.read is None and row is not None and not row.held and not row.parked:
                yield f"{row.id} is read", s._replace(read=row)
        if s.read is not None:
            yield from self._begin(s._replace(read=None), s.read)
        held = 0 if s.row is None else s.row.held
        if s.row and held and held not in {run.token for run in live} and self._free(s):
            yield "the hold is recovered", s._replace(row=s.row._replace(held=0))
        for run in live:
            if s.deaths:
                rest = (s.runs - {run}) | {run._replace(lost=True)}
                yield "the worker is given up", s._replace(runs=rest, deaths=s.deaths - 1)
        if s.half:
            row = Row(s.half, s.token)
            put = s._replace(half=0, token=s.token + 1)
            yield "what waited is put in its place", put._replace(row=put.row or row)
            if s.deaths:
                yield "its worker dies before", s._replace(half=0, deaths=s.deaths - 1)

    def _begin(self, s: State, read: Row) -> Iterator[tuple[str, State]]:
        run = Run(read.id, read.version, s.token, s.value)
        begun = s._replace(runs=s.runs | {run}, token=s.token + 1)
        if s.beside is not None and read.id == s.beside.id:
            if read == s.beside:
                yield f"{read.id} begins", begun
            return
        if not self.rules.held_first:
            yield f"{read.id} begins", begun
        elif self._free(s) and s.row == read:
            yield f"{read.id} begins", begun._replace(row=read._replace(held=run.token))
        else:
            yield f"{read.id} cannot be held", s

    def _free(self, s: State) -> bool:
        return s.tx is None or not s.tx.touches

    def _ends(self, s: State, run: Run) -> Iterator[tuple[str, State]]:
        """A run is settled, when nobody has its row locked."""
        gone = s._replace(runs=s.runs - {run})
        late = " late" if run.lost else ""
        if run.lost:
            yield "the lost run ends for good", gone
        if s.beside is not None and run.id == s.beside.id:
            yield f"{run.id} is done", self._ended(gone._replace(beside=None), run.id, run.seen)
            return
        row = s.row
        if not self._free(s):
            return
        counts = row is not None and row.version == run.version and row.held in (0, run.token)
        if not counts:
            if row is not None and row.held == run.token:  # superseded: the visit stays
                gone = gone._replace(row=row._replace(held=0))
            yield f"the end of {run.id} counts for nothing{late}", gone
            return
        assert row is not None
        yield f"{run.id} is done{late}", self._over(gone, row, run)
        if s.fails:
            failed = gone._replace(fails=s.fails - 1)
            if row.attempt:
                yield f"{run.id} is parked{late}", self._parked(failed, row, run)
            else:
                again = row._replace(version=run.token, attempt=1, held=0)
                yield f"{run.id} is tried again{late}", failed._replace(row=again)

    def _over(self, s: State, row: Row, run: Run) -> State:
        return self._follow(self._ended(s, run.id, run.seen), row)

    def _follow(self, s: State, row: Row) -> State:
        """The row goes; what waits behind it takes its place."""
        s = s._replace(row=None)
        if not row.behind or not self.rules.follows_an_end:
            return s
        if not self.rules.follows_at_once:
            return s._replace(half=row.behind)
        return s._replace(row=Row(row.behind, s.token), token=s.token + 1)

    def _parked(self, s: State, row: Row, run: Run) -> State:
        if row.behind and self.rules.follows_a_park:
            return self._over(s, row, run)
        tried = max(s.tried, run.seen)
        parked = row._replace(version=run.token, parked=True, held=0, attempt=2)
        return s._replace(row=parked, tried=tried, owed=s.owed - {row.id})

    def _ended(self, s: State, id: int, seen: int) -> State:
        return s._replace(tried=max(s.tried, seen), owed=s.owed - {id})

    # -- operators

    def _operator(self, s: State) -> Iterator[tuple[str, State]]:
        row = s.row
        if not s.orders or row is None or row.held or not self._free(s):
            return
        ordered = s._replace(orders=s.orders - 1, token=s.token + 1)
        # What an operator calls off need not be seen; what waits behind it is.
        called_off = self._ended(ordered, row.id, 0 if row.behind else s.value)
        yield f"{row.id} is cancelled", self._follow(called_off, row)
        if row.parked:
            freed = row._replace(parked=False, attempt=0, version=s.token)
            yield f"{row.id} is restarted", ordered._replace(row=freed)

    # -- what must hold

    def every_change_is_seen(self, s: State) -> str | None:
        live = [run for run in s.runs if not run.lost]
        waits = any(row is not None and not row.parked for row in (s.row, s.beside))
        if s.tx is not None or live or waits or s.half or s.tried >= s.value:
            return None
        return f"change {s.value} is asked for, and the last run saw {s.tried}"

    def no_call_is_lost(self, s: State) -> str | None:
        there = {s.half}
        for row in (s.row, s.beside):
            if row is not None:
                there |= {row.id, row.behind}
        lost = s.owed - there
        return f"call {min(lost)} was to have a run, and is gone" if lost else None

    def one_at_a_time(self, s: State) -> str | None:
        live = [run for run in s.runs if not run.lost]
        return "two run at once" if len(live) > 1 else None

    def nobody_is_deceived(self, s: State) -> str | None:
        return s.lie or None

    def nobody_waits_behind_a_parked_one(self, s: State) -> str | None:
        stuck = s.row is not None and s.row.parked and s.row.behind
        return f"call {s.row.behind} waits behind a parked one" if stuck and s.row else None
