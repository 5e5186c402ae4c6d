"""A race for some of many: it is decided by the ends that are there, and no end that decides it is missed.

Inputs end, well or not, each in a transaction of two steps: it counts the race's wait down by what it
reads, and commits. The race's run reads the ends, and closes it, or counts what is missing anew. A worker
may die in any of them. A restart redoes an input that has ended, and the race with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class State(NamedTuple):
    ends: tuple[str, ...]  # of the inputs: "", ok, err
    count: int | None  # the row of the wait; None: there is none
    ready: bool = False  # the race has its visit
    came_to: str = ""  # ok, err
    ending: tuple[
        tuple[int, str, bool], ...
    ] = ()  # under way: the input, how, whether it had the row
    read: tuple[str, ...] | None = None  # by the race's run, which has not written yet
    deaths: int = 0
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """Off, each leaves a race waiting for what does not come, or decides it wrongly."""

    alone: bool = True  # off: the race's run does not wait for ends that are under way
    counts_missing: bool = (
        True  # off: it is woken by the first end alone, and waits for no further one
    )
    sees_hopeless: bool = (
        True  # off: it waits for as many as are missing, whether they are open or not
    )
    failures_count: bool = True  # off: only a success counts the wait down
    restarts_race: bool = True  # off: a restarted input leaves the race as it was decided


@dataclass(frozen=True, slots=True)
class Bounds:
    inputs: int = 3
    need: int = 2
    deaths: int = 0
    restarts: int = 0


class RaceProtocol:
    """The steps of all that is under way."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds

    def start(self) -> State:
        bounds = self._bounds
        return State(
            ("",) * bounds.inputs, bounds.need, deaths=bounds.deaths, restarts=bounds.restarts
        )

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self._end(s)
        yield from self._race(s)
        yield from self._restart(s)

    def _end(self, s: State) -> Iterator[tuple[str, State]]:
        busy = {n for n, _, _ in s.ending}
        # Under the exclusive lock of the race's run nothing else is under way.
        may_begin = s.read is None or not self._rules.alone
        for n, was in enumerate(s.ends):
            if not was and n not in busy and may_begin:
                for how in ("ok", "err"):
                    begun = (*s.ending, (n, how, s.count is not None))
                    yield f"input {n} ends {how}", s._replace(ending=begun)
        for one in s.ending:
            n, how, had_row = one
            left = s._replace(ending=tuple(e for e in s.ending if e != one))
            ends = tuple(how if i == n else was for i, was in enumerate(s.ends))
            after = left._replace(ends=ends)
            counts = how == "ok" or self._rules.failures_count
            if had_row and after.count is not None and counts and not after.came_to:
                count = after.count - 1
                after = after._replace(count=count or None, ready=after.ready or count == 0)
            yield f"input {n} commits", after
            if s.deaths:
                yield f"input {n} dies", left._replace(deaths=s.deaths - 1)

    def _race(self, s: State) -> Iterator[tuple[str, State]]:
        if s.ready and s.read is None and not (self._rules.alone and s.ending):
            yield "the race reads", s._replace(read=s.ends)
        if s.read is None:
            return
        if s.deaths:
            yield "the race dies", s._replace(read=None, deaths=s.deaths - 1)
        kept, still_open = s.read.count("ok"), s.read.count("")
        missing = self._bounds.need - kept
        is_hopeless = missing > still_open and self._rules.sees_hopeless
        done = s._replace(read=None, ready=False, count=None)
        if missing <= 0 or is_hopeless:
            yield "the race ends", done._replace(came_to="ok" if missing <= 0 else "err")
        else:
            count = missing if self._rules.counts_missing else None
            yield "the race waits on", done._replace(count=count)

    def _restart(self, s: State) -> Iterator[tuple[str, State]]:
        if not s.restarts or s.ending or s.read is not None:
            return
        for n, was in enumerate(s.ends):
            if was:
                ends = tuple("" if i == n else end for i, end in enumerate(s.ends))
                after = s._replace(ends=ends, restarts=s.restarts - 1)
                if self._rules.restarts_race:
                    missing = self._bounds.need - ends.count("ok")
                    waits = 0 < missing <= ends.count("")
                    after = after._replace(
                        came_to="", count=missing if waits else None, ready=not waits
                    )
                yield f"input {n} is restarted", after

    def is_decided_rightly(self, s: State) -> str | None:
        if s.came_to == "ok" and s.ends.count("ok") < self._bounds.need:
            return f"it is won with {s.ends}"
        if s.came_to == "err" and s.ends.count("ok") + s.ends.count("") >= self._bounds.need:
            return f"it is lost with {s.ends}"
        return None

    def no_end_is_missed(self, s: State) -> str | None:
        """At rest, and before: whatever would decide it wakes it."""
        if s.came_to or s.ready or s.read is not None or s.ending:
            return None
        missing, still_open = self._bounds.need - s.ends.count("ok"), s.ends.count("")
        if s.count is None or not 1 <= s.count <= min(missing, still_open):
            return f"{missing} are missing, {still_open} are open, it waits for {s.count}"
        return None
