"""Suspects: a visit that kills its worker is found and parked, and its neighbours are not blamed.

One shard, one worker at a time. Key p is poison: when it runs, its worker dies at once. The others
are innocent: they run and end. A worker notes how far it reads (its reach) with each page. When it
dies its shard is free and names it; the next owner takes what lies within that reach for suspects,
and those that were held at a death before. A suspect is held before it starts, few at a time, and
alone if one more death would park it. A death is counted for what the dead worker held.

The network may cut a worker off. Either its watchdog ends it, which its supervisor knows; or it is taken
for dead by others, its runs are stopped, and when it comes back it says that it lives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mainspring.kernel.run.suspects import may_try

POISON = "p"
LIMIT = 2  # deaths at which a held visit is parked
AT_ONCE = 2  # suspects


class Visit(NamedTuple):
    """A visit that is still there; its key is its place in the order of reading too."""

    key: str
    crashes: int = 0
    held: bool = False
    parked: bool = False


class State(NamedTuple):
    visits: tuple[Visit, ...]
    up: bool = True  # a worker has the shard
    read: str = ""  # the key up to which this worker has read
    noted: str = ""  # how far it said that it has read
    hand: frozenset[str] = frozenset()  # read, not started
    running: frozenset[str] = frozenset()
    suspect_to: str = ""  # what the dead owner before had read, as this worker knows it
    left_by: str = ""  # the same, as the lease names it
    deaths: int = 0
    flaps: int = 0
    ended: bool = False  # the worker before was ended by the network, and that is known
    cut: bool = False  # it was cut off, and taken for dead
    blamed: frozenset[str] = frozenset()  # what that was counted for

    def visit(self, key: str) -> Visit:
        return next(visit for visit in self.visits if visit.key == key)

    def put(self, changed: Visit) -> "State":
        visits = tuple(changed if v.key == changed.key else v for v in self.visits)
        return self._replace(visits=visits)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of suspects; off, each parks an innocent or lets the poison kill without end."""

    suspects_are_held_first: bool = True
    reach_is_noted_with_the_page: bool = True  # off: later, when the worker comes to it
    only_holds_are_counted: bool = True  # off: a death counts for all that the dead had read
    last_try_is_alone: bool = True  # off: beside other suspects, which may be the killers
    forgotten_when_all_have_ended: bool = True  # off: as soon as the shard is taken
    the_network_s_end_is_no_death: bool = True  # off: it is counted for what was held
    who_lives_takes_the_blame_back: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    keys: str = "abp"
    page: int = 2
    holds_later: bool = False  # innocents may last, and are held when they do
    ends: int = 0  # so often the network ends a worker
    cuts: int = 0  # and so often it cuts one off


@dataclass(frozen=True, slots=True)
class SuspectProtocol:
    rules: Rules
    bounds: Bounds

    def start(self) -> State:
        return State(tuple(Visit(key) for key in self.bounds.keys))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.up:
            yield self.take(state)
            return
        yield from self.read(state)
        yield from self.run(state)
        yield from self.end(state)
        yield from self.forget(state)
        yield from self.flap(state)

    def take(self, state: State) -> tuple[str, State]:
        """The next owner: it recovers what the dead one held, and knows how far that had read."""
        for visit in state.visits:
            counted = visit.held
            if state.ended and self.rules.the_network_s_end_is_no_death:
                state, counted = state.put(visit._replace(held=False)), False
            if not self.rules.only_holds_are_counted:
                counted = visit.key <= state.left_by and not visit.parked
            if counted:
                crashes = visit.crashes + 1
                parked = crashes >= LIMIT
                state = state.put(visit._replace(crashes=crashes, held=False, parked=parked))
                if state.cut:
                    state = state._replace(blamed=state.blamed | {visit.key})
        suspect_to = state.left_by if self.rules.forgotten_when_all_have_ended else ""
        taken = state._replace(up=True, suspect_to=suspect_to, ended=False, cut=False)
        return "a worker takes the shard", taken

    def flap(self, state: State) -> Iterator[tuple[str, State]]:
        dead = self._dead(state)._replace(deaths=state.deaths, flaps=state.flaps + 1)
        if state.flaps < self.bounds.ends:
            # What was in doubt before still is.
            yield "the network ends it", dead._replace(ended=True, left_by=state.left_by)
        if state.blamed:
            yield "who was cut off says that it lives", self._acquit(state)
        elif state.flaps < self.bounds.cuts:
            yield "it is cut off", dead._replace(cut=True)

    def _acquit(self, state: State) -> State:
        for visit in state.visits:
            taken_back = visit.key in state.blamed and not visit.parked and visit.crashes
            if taken_back and self.rules.who_lives_takes_the_blame_back:
                state = state.put(visit._replace(crashes=visit.crashes - 1))
        return state._replace(blamed=frozenset())

    def read(self, state: State) -> Iterator[tuple[str, State]]:
        due = [v.key for v in state.visits if v.key > state.read and not v.held and not v.parked]
        page = due[: self.bounds.page]
        if page:
            after = state._replace(read=page[-1], hand=state.hand | set(page))
            if self.rules.reach_is_noted_with_the_page:
                after = after._replace(noted=page[-1])
            yield f"it reads {' and '.join(page)}", after
        if state.noted < state.read:
            yield f"it notes that it has read up to {state.read}", state._replace(noted=state.read)

    def run(self, state: State) -> Iterator[tuple[str, State]]:
        for key in sorted(state.hand):
            visit = state.visit(key)
            suspect = self._is_suspect(state, visit)
            if suspect and not self._may_try(state, visit):
                continue
            holds = suspect and self.rules.suspects_are_held_first
            started = state._replace(hand=state.hand - {key}, running=state.running | {key})
            if holds:
                started = started.put(visit._replace(held=True))
            how = "it holds and starts" if holds else "it starts"
            if key == POISON:
                yield f"{how} {key}, and dies", self._dead(started)
            else:
                yield f"{how} {key}", started

    def _is_suspect(self, state: State, visit: Visit) -> bool:
        return visit.crashes > 0 or visit.key <= state.suspect_to

    def _may_try(self, state: State, visit: Visit) -> bool:
        """The engine's own choice."""
        trying = [v for v in state.visits if v.key in state.running and v.held]
        last = sum(self._is_last(v) for v in trying)
        is_last = self._is_last(visit)
        return may_try(is_last=is_last, trying=len(trying), last=last, at_once=AT_ONCE)

    def _is_last(self, visit: Visit) -> bool:
        """Whether one more death would park it."""
        return visit.crashes + 1 >= LIMIT and self.rules.last_try_is_alone

    def _dead(self, state: State) -> State:
        return state._replace(
            up=False,
            left_by=state.noted,
            read="",
            noted="",
            hand=frozenset(),
            running=frozenset(),
            suspect_to="",
            deaths=state.deaths + 1,
        )

    def end(self, state: State) -> Iterator[tuple[str, State]]:
        for key in sorted(state.running):
            visit = state.visit(key)
            left = tuple(v for v in state.visits if v.key != key)
            yield f"{key} ends", state._replace(visits=left, running=state.running - {key})
            if self.bounds.holds_later and not visit.held:
                yield f"{key} lasts and is held", state.put(visit._replace(held=True))

    def forget(self, state: State) -> Iterator[tuple[str, State]]:
        """Every suspect was read and has ended: what comes now was never in a dead worker's hands."""
        busy = state.running | state.hand
        unread = [v for v in state.visits if v.key > state.read and not v.parked]
        if state.suspect_to and not busy and not unread:
            yield "it forgets whom it suspected", state._replace(suspect_to="", left_by="")

    def no_innocent_is_parked(self, state: State) -> str | None:
        parked = [v.key for v in state.visits if v.parked and v.key != POISON]
        return f"{parked[0]} is parked for what another did" if parked else None

    def the_poison_is_parked_soon(self, state: State) -> str | None:
        """One death that nobody expected, and then as many as the limit."""
        return f"it killed {state.deaths} workers" if state.deaths > 1 + LIMIT else None
