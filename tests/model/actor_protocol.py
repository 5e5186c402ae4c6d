"""Actors elsewhere: one task, two actors, servers that hold and answer for them, and answers that get lost.

A server holds the task for a pull, commits, looks whether the call is still alive, and answers. The
answer may be lost, the caller may give up at any moment, and the server may die between any two steps.
Whoever lost an answer asks again under the same id of the pull, perhaps at another server. Beats,
settles and releases come late and twice; recovery frees the task when its time is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from explorer import Invariant

ACTORS = ("P", "Q")  # each with one pull of that id
DONE, FAIL, RELEASE = "done", "fail", "release"
ASKED, HELD = "asked", "held"
Pass = tuple[str, int]  # of which pull, and the version (or a number) that it was made for
Steps = Iterator[tuple[str, "State"]]


class Ticket(NamedTuple):
    """What an actor shows: the pass of its hold, and the version that it held."""

    held: Pass
    version: int


class Row(NamedTuple):
    """The visit."""

    version: int = 0
    hold: Pass | None = None
    stamp: int = 0  # until when it is held: rises with each hold and beat
    owner: str = ""  # whose pull holds it
    attempts: int = 0
    is_done: bool = False
    is_locked: bool = False  # by somebody's transaction, for a moment


class Call(NamedTuple):
    """A pull that a server has in hand."""

    actor: str
    again: bool
    phase: str = ASKED
    is_alive: bool = True
    ticket: Ticket | None = None
    stamp: int = 0
    is_found: bool = False  # the hold was there: another call of the same pull made it


class Actor(NamedTuple):
    """Somebody who pulls."""

    asks: int = 0
    waits: bool = False  # for an answer
    has: Ticket | None = None  # what it works on
    lost: bool = False  # an answer: it asks again


class State(NamedTuple):
    row: Row = Row()
    actors: tuple[Actor, Actor] = (Actor(), Actor())
    calls: frozenset[Call] = frozenset()
    sent: frozenset[tuple[Ticket, str]] = frozenset()  # answers for the task; each may come again
    settled: frozenset[tuple[Ticket, str]] = frozenset()  # those that were taken: history
    overtaken: frozenset[Pass] = frozenset()  # whose time was over
    accepted: int = 0
    made: int = 0  # passes
    settles: int = 0
    recoveries: int = 0
    wrong: str = ""  # what somebody was told that is not so


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of actors elsewhere; off, each loses a task, runs it unheld, or tells an untruth."""

    hold_commits_before_the_answer: bool = (
        True  # off: a server that dies has told of a hold that never was
    )
    pass_follows_from_the_pull: bool = (
        True  # off: it is drawn, and nobody knows it after a lost answer
    )
    again_moves_the_hold: bool = True  # off: what was answered again looks like what was lost
    give_back_compares_the_hold: bool = True  # off: it compares the pass alone
    what_was_found_is_left: bool = (
        True  # off: a call that was overtaken gives back what a later one tells of
    )
    dead_call_gives_back: bool = True  # off: what nobody waits for is held until its time is over
    locked_is_no_stop: bool = True  # off: a beat that finds the row locked says stop
    settle_compares_the_version: bool = True  # off: any ticket settles
    settle_makes_a_version: bool = True  # off: a failure or a release leaves the version as it is
    release_counts_nothing: bool = True  # off: it is an attempt
    already_by_the_run: bool = True  # off: whoever comes when it is done is told "already"
    last_makes_a_version: bool = True  # off: recovery leaves it where only the newest run counts


@dataclass(frozen=True, slots=True)
class Bounds:
    asks: int = 2  # of each actor
    settles: int = 2
    recoveries: int = 1
    accept: str = "first"


@dataclass(frozen=True, slots=True)
class ActorProtocol:
    rules: Rules
    bounds: Bounds

    def invariants(self) -> dict[str, Invariant[State]]:
        return {
            "what is told is so": lambda state: state.wrong or None,
            "no task is out without a hold": no_task_is_out_without_a_hold,
            "one result is accepted": one_result_is_accepted,
            "attempts are failures": attempts_are_failures,
        }

    def steps(self, state: State) -> Steps:
        for n, name in enumerate(ACTORS):
            yield from self.ask(state, n, name)
            yield from self.work(state, n, name)
        for call in sorted(state.calls, key=str):
            yield from self.serve(state, call)
        for ticket, kind in sorted(state.sent, key=str):
            yield from self.settle(state, ticket, kind)
        yield from self.recover(state)
        row = state.row
        if not row.is_done:
            word = "lets go" if row.is_locked else "locks the row"
            yield f"somebody {word}", state._replace(row=row._replace(is_locked=not row.is_locked))

    # -- actors

    def ask(self, state: State, n: int, name: str) -> Steps:
        actor = state.actors[n]
        if actor.waits:
            for call in state.calls:
                if call.actor == name and call.is_alive:
                    gone = _with_call(state, call, call._replace(is_alive=False))
                    yield f"{name} gives up", _with_actor(gone, n, waits=False, lost=True)
            return
        if actor.has is None and actor.asks < self.bounds.asks:
            call = Call(name, actor.lost)
            asked = state._replace(calls=state.calls | {call})
            word = "asks again" if actor.lost else "pulls"
            yield (
                f"{name} {word}",
                _with_actor(asked, n, waits=True, lost=False, asks=actor.asks + 1),
            )

    def work(self, state: State, n: int, name: str) -> Steps:
        has, row = state.actors[n].has, state.row
        if has is None:
            return
        holds = row.hold == has.held and not row.is_done
        stop = not holds
        if row.is_locked and not self.rules.locked_is_no_stop:
            stop = True
        if stop:
            told = _with_actor(state, n, has=None)
            if holds:
                told = told._replace(wrong="told to stop, and holds it")
            yield f"{name} beats and is told to stop", told
        elif not row.is_locked and any(call.stamp == row.stamp for call in state.calls):
            # Where nobody remembers the time it is no other state.
            yield f"{name} beats", state._replace(row=row._replace(stamp=row.stamp + 1))
        for kind in (DONE, FAIL, RELEASE):
            given = state._replace(sent=state.sent | {(has, kind)})
            yield f"{name} says {kind}", _with_actor(given, n, has=None)

    # -- servers

    def serve(self, state: State, call: Call) -> Steps:
        n = ACTORS.index(call.actor)
        lost = _with_actor(state, n, waits=False, lost=True) if call.is_alive else state
        yield f"the server of {call.actor} dies", _with_call(lost, call, None)
        if call.phase == ASKED:
            yield from self.hold(state, call, n)
        elif call.is_alive:
            ends = _with_call(state, call, None)
            yield f"{call.actor} is answered", _with_actor(ends, n, waits=False, has=call.ticket)
            yield (
                f"the answer to {call.actor} is lost",
                _with_actor(ends, n, waits=False, lost=True),
            )
        else:
            yield self.give_back(state, call)

    def hold(self, state: State, call: Call, n: int) -> Steps:
        row = state.row
        mine = row.hold is not None and row.owner == call.actor
        if call.again and mine and not row.is_done and not row.is_locked:
            if not self.rules.pass_follows_from_the_pull:
                wrong = state._replace(wrong="asked again, and its hold was not found")
                yield f"{call.actor} is not known again", wrong
                return
            assert row.hold is not None
            stamp = row.stamp + (1 if self.rules.again_moves_the_hold else 0)
            found = call._replace(
                phase=HELD, ticket=Ticket(row.hold, row.version), stamp=stamp, is_found=True
            )
            moved = state._replace(row=row._replace(stamp=stamp))
            yield f"the hold of {call.actor} is found", _with_call(moved, call, found)
            return
        if row.hold is not None or row.is_done or row.is_locked:
            if call.is_alive:
                ends = _with_call(state, call, None)
                yield f"nothing for {call.actor}", _with_actor(ends, n, waits=False)
            return
        number = row.version if self.rules.pass_follows_from_the_pull else 100 + state.made
        made = Ticket((call.actor, number), row.version)
        held = state._replace(
            row=row._replace(hold=made.held, stamp=row.stamp + 1, owner=call.actor),
            made=state.made + (not self.rules.pass_follows_from_the_pull),
        )
        taken = call._replace(phase=HELD, ticket=made, stamp=row.stamp + 1)
        yield f"held for {call.actor}", _with_call(held, call, taken)
        if not self.rules.hold_commits_before_the_answer and call.is_alive:
            ends = _with_call(state, call, None)
            told = _with_actor(ends, n, waits=False, has=made)
            yield f"{call.actor} is answered, and the server dies before the commit", told

    def give_back(self, state: State, call: Call) -> tuple[str, State]:
        """The call is dead when the hold has committed."""
        row, ends = state.row, _with_call(state, call, None)
        assert call.ticket is not None
        if call.is_found and self.rules.what_was_found_is_left:
            return f"what {call.actor} found is left to its time", ends
        same = row.hold == call.ticket.held
        if self.rules.give_back_compares_the_hold:
            same = same and row.stamp == call.stamp
        if not self.rules.dead_call_gives_back:
            if same:
                ends = ends._replace(wrong="held for one who was seen to have gone")
            return f"{call.actor} has gone, and keeps it", ends
        if not same or row.is_done:
            return f"what {call.actor} left is somebody's", ends
        free = row._replace(hold=None, owner="")
        return f"what {call.actor} left is given back", ends._replace(row=free)

    # -- answers

    def settle(self, state: State, ticket: Ticket, kind: str) -> Steps:
        """An answer arrives: it may be the first time, or again, however late."""
        row, rules = state.row, self.rules
        if state.settles >= self.bounds.settles or row.is_locked:
            return
        state = state._replace(settles=state.settles + 1)
        counts = not row.is_done and ticket.version == row.version
        if self.bounds.accept == "last" and row.hold != ticket.held:
            counts = counts and row.hold is None  # nobody else has it
        if not rules.settle_compares_the_version:
            counts = True
        if not counts:
            already = (ticket, kind) in state.settled
            if not rules.already_by_the_run and row.is_done:
                already = True
            if already and (ticket, kind) not in state.settled:
                state = state._replace(wrong="told already, and another's result stands")
            yield f"{kind} of {ticket} is {'there already' if already else 'refused'}", state
            return
        late = ticket.held in state.overtaken and row.hold not in (None, ticket.held)
        if self.bounds.accept == "last" and ticket.held in state.overtaken and not late:
            state = state._replace(wrong="an overtaken result counts where only the newest does")
        state = state._replace(settled=state.settled | {(ticket, kind)})
        version = row.version + 1 if rules.settle_makes_a_version else row.version
        if kind == DONE:
            row = row._replace(is_done=True, hold=None, owner="")
            yield f"done by {ticket}", state._replace(row=row, accepted=state.accepted + 1)
            return
        counted = kind == FAIL or not rules.release_counts_nothing
        row = row._replace(version=version, hold=None, owner="", attempts=row.attempts + counted)
        yield f"{kind} of {ticket} is taken", state._replace(row=row)

    def recover(self, state: State) -> Steps:
        row = state.row
        if row.hold is None or row.is_done or row.is_locked:
            return
        if state.recoveries >= self.bounds.recoveries:
            return
        fresh = self.bounds.accept == "last" and self.rules.last_makes_a_version
        freed = row._replace(hold=None, owner="", version=row.version + 1 if fresh else row.version)
        yield (
            f"the time of {row.hold} is over",
            state._replace(
                row=freed,
                overtaken=state.overtaken | {row.hold},
                recoveries=state.recoveries + 1,
            ),
        )


def no_task_is_out_without_a_hold(state: State) -> str | None:
    """Who works on it in good faith holds it."""
    row = state.row
    for name, actor in zip(ACTORS, state.actors, strict=True):
        has = actor.has
        if has is None or row.is_done or has.version != row.version:
            continue
        if has.held not in state.overtaken and row.hold != has.held:
            return f"{name} works on it, and it is held by {row.hold}"
    return None


def one_result_is_accepted(state: State) -> str | None:
    if state.accepted > 1:
        return f"{state.accepted} results were accepted"
    return None


def attempts_are_failures(state: State) -> str | None:
    failures = sum(kind == FAIL for _, kind in state.settled)
    if state.row.attempts != failures:
        return f"{state.row.attempts} attempts are counted, {failures} tasks failed"
    return None


def _with_actor(state: State, n: int, **changes: object) -> State:
    actors = list(state.actors)
    actors[n] = actors[n]._replace(**changes)  # type: ignore[arg-type]
    return state._replace(actors=(actors[0], actors[1]))


def _with_call(state: State, call: Call, other: Call | None) -> State:
    rest = state.calls - {call}
    return state._replace(calls=rest if other is None else rest | {other})
