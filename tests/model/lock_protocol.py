"""A lock that processes hold over a scope: one at a time, in the order of asking, whoever dies where.

Who asks has a row in line. A look reads the line and what its rows belong to, and commits: it drops rows
that do not count and grants to the first. Nothing releases a lock: a row counts as its process stands.
Scopes end well, fail and are undone, are cancelled and restarted; a worker of the release before ends one
without a word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

INSIDE = ("in", "undoing")


class Row(NamedTuple):
    who: int
    generation: int
    held: bool = False


class Look(NamedTuple):
    who: int  # whose visit it is
    granted: int | None  # by what was read
    stale: tuple[Row, ...]


class State(NamedTuple):
    phases: tuple[str, ...]  # of the processes: new, waits, in, undoing, ended
    generations: tuple[int, ...]
    line: tuple[Row, ...] = ()
    due: frozenset[int] = frozenset()  # whose looks are due
    under_way: tuple[Look, ...] = ()
    barged: bool = False
    deaths: int = 0
    changes: int = 0  # cancels, failures and restarts to come
    silent: int = 0  # ends without a word


@dataclass(frozen=True, slots=True)
class Rules:
    """Off, each lets two in at once, lets one in out of turn, or leaves who waits for ever."""

    serial: bool = True  # off: looks at one lock do not wait for each other
    derived: bool = True  # off: a row counts until somebody takes it away
    looks_again: bool = True  # off: who waits looks once alone
    until_undone: bool = True  # off: a scope that fails gives its lock up at once
    generations: bool = True  # off: who is restarted keeps its row
    in_turn: bool = True  # off: any of those who wait


@dataclass(frozen=True, slots=True)
class Bounds:
    processes: int = 2
    deaths: int = 0
    changes: int = 0
    silent: int = 0


class LockProtocol:
    """The steps of all that is under way."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds

    def start(self) -> State:
        b = self._bounds
        return State(
            ("new",) * b.processes,
            (0,) * b.processes,
            deaths=b.deaths,
            changes=b.changes,
            silent=b.silent,
        )

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        for n, phase in enumerate(s.phases):
            yield from self._process(s, n, phase)
        for n in sorted(s.due):
            if not (s.under_way and self._rules.serial) and len(s.under_way) < 2:
                for look in self._reads(s, n):
                    yield f"{n} looks", s._replace(under_way=(*s.under_way, look))
        for look in s.under_way:
            left = s._replace(under_way=tuple(one for one in s.under_way if one is not look))
            yield f"the look of {look.who} commits", self._committed(left, look)
            if s.deaths:
                yield f"the look of {look.who} dies", left._replace(deaths=s.deaths - 1)

    def _process(self, s: State, n: int, phase: str) -> Iterator[tuple[str, State]]:
        changed = s._replace(changes=s.changes - 1)
        if phase == "new":
            asked = _to(s, n, "waits")
            if not any(row.who == n and self._is_of_now(s, row) for row in s.line):
                asked = asked._replace(line=(*s.line, Row(n, s.generations[n])))
            yield f"{n} asks", asked._replace(due=s.due | {n})
        if phase == "in":
            yield f"{n} ends", _to(s, n, "ended")._replace(due=s.due | {n})
            if s.silent:
                yield f"{n} ends without a word", _to(s, n, "ended")._replace(silent=s.silent - 1)
        if phase == "undoing":
            yield f"{n} is undone", _to(s, n, "ended")._replace(due=s.due | {n})
        if not s.changes:
            return
        if phase == "in":
            yield f"{n} fails", _to(changed, n, "undoing")._replace(due=s.due | {n})
        if phase == "waits":
            yield f"{n} is cancelled", _to(changed, n, "ended")
        if phase in ("in", "ended"):
            again = tuple(g + (i == n) for i, g in enumerate(s.generations))
            restarted = _to(changed, n, "new")._replace(generations=again, due=s.due | {n})
            yield f"{n} is restarted", restarted

    def _is_of_now(self, s: State, row: Row) -> bool:
        return not self._rules.generations or row.generation == s.generations[row.who]

    def _counts(self, s: State, row: Row) -> bool:
        phase = s.phases[row.who]
        if not row.held:
            return phase == "waits" and self._is_of_now(s, row)
        if not self._rules.derived:
            return True
        holding = ("in", "undoing") if self._rules.until_undone else ("in",)
        if not self._rules.generations:
            holding = (*holding, "waits")
        return phase in holding and self._is_of_now(s, row)

    def _reads(self, s: State, n: int) -> Iterator[Look]:
        count = [row for row in s.line if self._counts(s, row)]
        stale = tuple(row for row in s.line if row not in count)
        if any(row.held for row in count) or not count:
            yield Look(n, None, stale)
            return
        for row in count[:1] if self._rules.in_turn else count:
            yield Look(n, row.who, stale)

    def _committed(self, s: State, look: Look) -> State:
        line = tuple(row for row in s.line if row not in look.stale)
        who, now = look.granted, s._replace(line=line)
        if who is not None and any(row.who == who and not row.held for row in line):
            first = next(
                row.who for row in line if (not row.held and self._counts(s, row)) or row.who == who
            )
            line = tuple(row._replace(held=row.held or row.who == who) for row in line)
            now = s._replace(line=line, barged=s.barged or first != who)
            if s.phases[who] == "waits":  # else it has gone meanwhile, and its row is stale
                now = _to(now, who, "in")
        if now.phases[look.who] == "waits" and self._rules.looks_again:
            return now
        return now._replace(due=now.due - {look.who})

    def one_at_a_time(self, s: State) -> str | None:
        """Nobody is in the scope, or undoes what was done in it, beside another."""
        inside = [n for n, phase in enumerate(s.phases) if phase in INSIDE]
        return f"{inside} are in at once" if len(inside) > 1 else None

    def in_turn(self, s: State) -> str | None:
        return "one was let in before who asked before" if s.barged else None

    def nobody_waits_for_ever(self, s: State) -> str | None:
        """Where nobody is in, a look is due that lets one in."""
        waits = [n for n, phase in enumerate(s.phases) if phase == "waits"]
        if not waits or s.under_way or any(phase in INSIDE for phase in s.phases):
            return None
        if not s.due:
            return f"{waits} wait, and nobody looks"
        grants = [look for n in s.due for look in self._reads(s, n) if look.granted is not None]
        return None if grants else f"{waits} wait, and a look lets nobody in: {s.line}"


def _to(s: State, n: int, phase: str) -> State:
    return s._replace(phases=tuple(phase if i == n else was for i, was in enumerate(s.phases)))
