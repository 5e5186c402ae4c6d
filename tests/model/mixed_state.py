"""What the model of mixed pools is made of: codes, leases, workers, the state, rules and bounds."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from mainspring.sharing import bands

WHOLE = "*"  # else a band is its queues, sorted
OUT, UP, FENCED, CRASHED, GONE = "out", "up", "fenced", "crashed", "gone"
STAYS, GIVING, GIVEN = "", "giving", "given"
NAMES = "ABC"


class Code(NamedTuple):
    queues: str
    turns: tuple[str, ...] = ()  # sets of queues that take turns
    knows_bands: bool = True  # off: of the release before

    def has(self, band: str) -> bool:
        return band == WHOLE or any(queue in self.queues for queue in band)

    def has_all(self, band: str) -> bool:
        return band == WHOLE or all(queue in self.queues for queue in band)


class Lease(NamedTuple):
    band: str
    owner: str = ""
    epoch: int = 0
    suspect: str = ""  # of this dead worker: what it had read here is started with care


class Worker(NamedTuple):
    mode: str = OUT
    life: int = 1
    mine: frozenset[Lease] = frozenset()  # as memory has it
    waits: bool = False  # for an answer
    in_doubt: bool = False  # an answer was lost: nothing is sent before a look
    saw: frozenset[str] | None = None  # who lived when a recut began (a rule is off)
    going: str = ""  # STAYS; or it means to leave: it takes nothing, and gives what it has
    suspects: str = ""  # queues in which it starts with care what a dead one had read


class Sent(NamedTuple):
    verb: str
    by: str
    lease: Lease
    heard: bool = True  # off: nobody waits for its answer any more


class State(NamedTuple):
    leases: frozenset[Lease]
    rows: frozenset[str]  # the workers' ids
    workers: tuple[Worker, ...]
    sent: frozenset[Sent] = frozenset()
    losses: int = 0
    failures: int = 0
    changes: int = 0  # joins and leaves
    burying: str = ""  # whose row is being deleted; that may yet be rolled back
    runs: frozenset[tuple[str, str]] = frozenset()  # (queue, worker) of those of one key
    held: frozenset[tuple[str, str]] = frozenset()  # those of them that the table knows
    unlooked: str = ""  # queues with what a dead worker had read, and nobody has looked at since

    def put(self, slot: int, **values: object) -> "State":
        changed = self.workers[slot]._replace(**values)  # type: ignore[arg-type]
        return self._replace(workers=(*self.workers[:slot], changed, *self.workers[slot + 1 :]))


@dataclass(frozen=True, slots=True)
class Rules:
    """Each of them, off, breaks an invariant or leaves a queue unserved for ever."""

    owner_of_some_keeps_it: bool = True  # off: a piece goes only to an owner that has all of it
    merged_with_one_owner: bool = True  # off: the first of two owners gets the merged band
    named_by_content: bool = True  # off: bands are numbered, and a number gets another meaning
    whole_is_closed: bool = True  # off: while there are bands the whole lease can be taken too
    turns_of_all_codes: bool = True  # off: bands are made of queues, whatever takes turns
    only_targets_are_taken: bool = True  # off: so are pieces that have not met yet
    pieces_meet: bool = True  # off: pieces of different owners are never given up
    workers_read_last: bool = True  # off: a recut reads who lives before it locks the leases
    burial_waits_for_recut: bool = True  # off: its worker is buried while a recut names it
    ownerless_are_free: bool = True  # off: a recut believes every owner that a lease names
    whole_beside_old: bool = True  # off: the pool is cut while a worker knows no bands
    whole_when_old_comes: bool = True  # off: it stays cut when such a worker comes
    last_one_opens: bool = True  # off: the end of the last that knows bands leaves it cut
    part_may_take: bool = True  # off: only who has all of a band takes it
    memory_first: bool = True  # off: memory lets go with the answer to a give
    give_compares_epoch: bool = True
    adoption_draws_epoch: bool = True
    fenced_before_burial: bool = True  # off: the timing assumption itself is broken
    leaving_gives_again: bool = True  # off: who leaves gives once, whatever it has after that
    held_turns_of_all_codes: bool = True  # off: a hold in a queue that I lack has no turn
    rests_beside_burial: bool = True  # off: a recut takes for dead who is being buried
    suspects_left_to_who_has_them: bool = (
        True  # off: who owns a shard clears what it cannot look at
    )
    suspects_carried: bool = True  # off: a recut writes leases without their suspects
    suspects_keep_a_piece: bool = True  # off: so it does with queues that no living code has


@dataclass(frozen=True, slots=True)
class Bounds:
    codes: tuple[Code, ...]
    up: int = 1  # so many have joined at the start
    losses: int = 1
    failures: int = 1
    changes: int = 1
    leaving: int = 0  # so many of the changes may be a leave that takes its time
    runs: int = 0  # so many at once
    undone_burials: bool = False
    read: str = ""  # queues with a visit that whoever has them has read


Piece = tuple[str, str, str]  # band, owner, suspect
Pieces = frozenset[Piece]


class Strict(bands.Code):
    """A code that keeps only what it has all of (a rule is off)."""

    def has(self, band: bands.Band) -> bool:
        return self.has_all(band)


def _band(name: str) -> bands.Band:
    return bands.WHOLE if name == WHOLE else frozenset(name)


def _name(band: bands.Band) -> str:
    return WHOLE if band is None else "".join(sorted(band))


class Engine:
    """The engine's own choices. A rule that is off changes what they are given, or what they return.

    `codes` are those of the workers by the first letter of their ids. Each answer is kept: the search asks
    the same again and again.
    """

    def __init__(self, rules: Rules, codes: dict[str, Code], *, with_suspects: bool) -> None:
        self.rules = rules
        self._with_suspects = with_suspects
        kind = bands.Code if rules.owner_of_some_keeps_it else Strict
        self._codes = {name: self._real(code, bands.Code) for name, code in codes.items()}
        self._keeps = {name: self._real(code, kind) for name, code in codes.items()}
        self._targets: dict[frozenset[str], list[str]] = {}
        self._cuts: dict[tuple[frozenset[Lease], frozenset[str]], Pieces] = {}

    def _real(self, code: Code, kind: type[bands.Code]) -> bands.Code | None:
        """A code as the engine knows it."""
        if not code.knows_bands and self.rules.whole_beside_old:
            return None
        turns = code.turns if self.rules.turns_of_all_codes else ()
        links = frozenset((queue, turn) for turn in turns for queue in turn)
        return kind(f"{code.queues}{turns}", frozenset(code.queues), links)

    def target(self, rows: frozenset[str]) -> list[str]:
        """The bands that a pool of these workers should have."""
        if rows not in self._targets:
            found = bands.bands_for([self._codes[row[0]] for row in rows])
            self._targets[rows] = sorted(map(_name, found))
        return self._targets[rows]

    def recut(self, leases: frozenset[Lease], living: frozenset[str]) -> Pieces:
        """The bands that these workers need, with owner and suspect, as far as they have one each."""
        bare = frozenset([lease._replace(epoch=0) for lease in leases])
        if (bare, living) not in self._cuts:
            self._cuts[bare, living] = frozenset(self._recut(bare, living))
        return self._cuts[bare, living]

    def _recut(self, leases: Iterable[Lease], living: frozenset[str]) -> set[Piece]:
        rules, target = self.rules, self.target(living)
        codes: dict[Any, bands.Code | None] = {row: self._keeps[row[0]] for row in living}
        given = []
        for band, owner, _, suspect in sorted(leases):
            if owner and owner not in codes:
                if not rules.ownerless_are_free:
                    codes[owner] = None  # believed
                elif not self._with_suspects:
                    owner = ""
            known = suspect if rules.suspects_carried else ""
            given.append(bands.Piece(_band(band), owner or None, known or None))  # type: ignore[arg-type]
        cut = bands.recut(given, [_band(band) for band in target], codes)
        found = {(_name(x.band), str(x.owner or ""), str(x.suspect_of or "")) for x in cut}
        if not rules.merged_with_one_owner:
            found = {merged for band in target for merged in _merged(band, found)}
        if not rules.suspects_keep_a_piece:
            found = {piece for piece in found if any(meet(piece[0], band) for band in target)}
        return found


def _merged(band: str, found: set[Piece]) -> set[Piece]:
    """What is in a band is one piece, of the first of its owners."""
    cut = sorted(piece for piece in found if meet(piece[0], band))
    owners = sorted({owner for _, owner, _ in cut if owner})
    return {(band, owners[0], max(x[2] for x in cut))} if len(owners) > 1 else set(cut)


@cache
def families_of(codes: tuple[Code, ...]) -> list[str]:
    """Queues that must have one owner, for they take turns by any of these codes. A word of its own, by
    which the engine's bands are judged."""
    families = [{queue} for queue in sorted({q for code in codes for q in code.queues})]
    for turn in (set(turn) for code in codes for turn in code.turns):
        met = [family for family in families if family & turn]
        families = [family for family in families if not family & turn]
        families.append(set().union(*met))
    return ["".join(sorted(family)) for family in families]


def meet(one: str, other: str) -> str:
    if WHOLE in (one, other):
        return one if other == WHOLE else other
    return "".join(queue for queue in one if queue in other)


def newest(state: State) -> int:
    epochs = [x.epoch for x in state.leases] + [s.lease.epoch for s in state.sent]
    return max([*epochs, *(x.epoch for w in state.workers for x in w.mine)], default=0)


def listed(leases: Iterable[Lease]) -> str:
    return " ".join(f"{x.band}={x.owner or 'free'}" for x in sorted(leases)) or "nothing"


def numbered(state: State) -> State:
    """Epochs count only as far as they are equal: numbered anew, states are few."""
    known: dict[int, int] = {0: 0}

    def number(leases: Iterable[Lease]) -> frozenset[Lease]:
        return frozenset(
            x._replace(epoch=known.setdefault(x.epoch, len(known))) for x in sorted(leases)
        )

    leases = number(state.leases)
    workers = tuple(w._replace(mine=number(w.mine)) if w.mine else w for w in state.workers)
    sent = frozenset(s._replace(lease=min(number([s.lease]))) for s in sorted(state.sent))
    return state._replace(leases=leases, workers=workers, sent=sent)
