"""A stage elsewhere: one worker, one service, and the network between them.

Key p is poison: a call with it kills the service. Key f fails a call that it is in, and nothing more. The
others are innocent. The service may also die by itself, or say of everything that it is away. What a failed
call means is decided by the engine's own class; the model carries it out, and keeps what the rows keep.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mainspring.entities.remote.standing import Fate, Fault, Standing

POISON, FAILS = "p", "f"
CRASH_LIMIT = 2
ATTEMPTS = 2


class Entity(NamedTuple):
    """A visit of the stage, as its row has it."""

    key: str
    crashes: int = 0
    attempts: int = 0
    parked: bool = False


class Out(NamedTuple):
    """A call under way."""

    keys: tuple[str, ...]
    alone: bool
    asks: bool = False  # a question beside the work


class State(NamedTuple):
    due: tuple[Entity, ...]  # that are there, in no hand
    line: tuple[Entity, ...] = ()  # started: they wait for a call
    ready: tuple[tuple[Entity, ...], ...] = ()  # halves of calls that failed
    calls: tuple[tuple[Out, tuple[Entity, ...]], ...] = ()
    is_up: bool = True
    is_shut: bool = False  # the gate
    known: tuple[tuple[str, bool], ...] = ()  # suspects, and whether there was an answer since
    deaths: int = 0  # by itself
    refusals: int = 0  # of everything
    kills: int = 0
    asked: int = 0
    late: int = 0  # starts while the gate was shut


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of section "stages elsewhere"; off, each loses or blames somebody."""

    suspects_go_alone: bool = True  # off: with others, and nobody is ever alone
    alone_means_nothing_beside: bool = (
        True  # off: other calls are under way, and may be the killers
    )
    one_break_is_no_crash: bool = True  # off: a break counts for all that were in the call
    put_off_keeps_what_is_counted: bool = True  # off: as a visit that goes on, with nothing counted
    halves_find_who_fails: bool = True  # off: a failed call is an attempt of each in it
    a_shut_gate_starts_nothing: bool = True
    its_own_word_is_weighed: bool = True  # off: "I am away", said of everything, is a crash of each
    questions_wait_for_suspects: bool = True  # off: a question may be the killer beside a suspect


@dataclass(frozen=True, slots=True)
class Bounds:
    keys: str = "abp"
    batch: int = 2
    deaths: int = 0  # of the service by itself
    refusals: int = 0  # times at which it says that it is away
    questions: int = 0  # deadly ones


@dataclass(frozen=True, slots=True)
class RemoteProtocol:
    rules: Rules
    bounds: Bounds

    def start(self) -> State:
        return State(tuple(Entity(key) for key in self.bounds.keys))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self.begin(state)
        yield from self.send(state)
        yield from self.answer(state)
        yield from self.die(state)
        yield from self.refuse(state)
        yield from self.ask(state)
        if not state.is_up:
            yield "the service starts again", state._replace(is_up=True)
        elif state.is_shut and not state.calls:
            yield "the gate opens", state._replace(is_shut=False)

    # -- the worker

    def begin(self, state: State) -> Iterator[tuple[str, State]]:
        """The kernel starts runs; a shut gate starts none."""
        if state.is_shut and self.rules.a_shut_gate_starts_nothing:
            return
        for entity in state.due:
            if not entity.parked:
                left = tuple(e for e in state.due if e is not entity)
                late = state.late + state.is_shut
                line = tuple(sorted((*state.line, entity)))
                yield (
                    f"{entity.key} starts",
                    state._replace(due=left, line=line, late=min(late, 2)),
                )

    def send(self, state: State) -> Iterator[tuple[str, State]]:
        if state.is_shut or state.late:
            return
        known = self._known(state)
        alone = [e for e in state.line if self._is_suspect(known, e)]
        if alone and self._may_send(state, known, is_alone=True, alone_out=False):
            yield self._sent(state, (alone[0],), alone=True)
            return
        out = any(call.alone for call, _ in state.calls) or bool(alone)
        if not self._may_send(state, known, is_alone=False, alone_out=out):
            return
        if state.ready:
            batch = state.ready[0]
            yield self._sent(state._replace(ready=state.ready[1:]), batch, alone=False)
        elif batch := tuple(e for e in state.line if e not in alone)[: self.bounds.batch]:
            yield self._sent(state, batch, alone=False)

    def _is_suspect(self, known: Standing, entity: Entity) -> bool:
        suspect = entity.crashes > 0 or known.is_suspect(entity.key)
        return suspect and self.rules.suspects_go_alone

    def _may_send(self, state: State, known: Standing, *, is_alone: bool, alone_out: bool) -> bool:
        work = [call for call, _ in state.calls if not call.asks]
        if not self.rules.alone_means_nothing_beside:
            return len(work) < 2
        counted = len(state.calls) if self.rules.questions_wait_for_suspects else len(work)
        return known.may_send(
            of_method=len(work), of_all=counted, is_alone=is_alone, alone_out=alone_out
        )

    def _sent(self, state: State, batch: tuple[Entity, ...], *, alone: bool) -> tuple[str, State]:
        keys = tuple(e.key for e in batch)
        line = tuple(e for e in state.line if e not in batch)
        call = Out(keys, alone)
        calls = tuple(sorted((*state.calls, (call, batch))))
        how = " alone" if alone else ""
        return f"{' and '.join(keys)} go out{how}", state._replace(line=line, calls=calls)

    def ask(self, state: State) -> Iterator[tuple[str, State]]:
        """A question that kills the service, asked by the visit of an entity that is not here."""
        known = self._known(state)
        suspects = [e for e in state.line if self._is_suspect(known, e)]
        busy = bool(suspects) or any(call.alone for call, _ in state.calls)
        if state.is_shut or state.asked >= self.bounds.questions:
            return
        if busy and self.rules.questions_wait_for_suspects:
            return
        calls = tuple(sorted((*state.calls, (Out((POISON,), False, asks=True), ()))))
        yield "a question goes out", state._replace(calls=calls, asked=state.asked + 1)

    # -- the service

    def answer(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.is_up:
            return
        for at, (call, batch) in enumerate(state.calls):
            if POISON in call.keys:
                killed = state._replace(kills=state.kills + (not call.asks))
                yield f"a call with {POISON} kills the service", self._broken(killed)
                continue
            left = state._replace(calls=state.calls[:at] + state.calls[at + 1 :])
            if FAILS in call.keys:
                yield f"a call with {FAILS} fails", self._failed(left, call, batch, Fault.PERHAPS)
            else:
                known = self._known(left)
                known.answered(call.keys)
                yield f"{' and '.join(call.keys)} are answered", self._keep(left, known)

    def die(self, state: State) -> Iterator[tuple[str, State]]:
        if state.is_up and state.calls and state.deaths < self.bounds.deaths:
            dead = state._replace(deaths=state.deaths + 1)
            yield "the service dies by itself", self._broken(dead)

    def refuse(self, state: State) -> Iterator[tuple[str, State]]:
        """What it needs itself is away: it says so of each call, until it is back."""
        if not (state.is_up and state.calls and state.refusals < self.bounds.refusals):
            return
        said = state._replace(refusals=state.refusals + 1)
        yield "the service says that it is away", self._broken(said, Fault.SAID_AWAY)

    # -- what becomes of calls

    def _broken(self, state: State, fault: Fault = Fault.BROKE) -> State:
        """Every call under way ends so."""
        calls = state.calls
        state = state._replace(calls=(), is_up=fault is not Fault.BROKE)
        for call, batch in calls:
            if not call.asks:
                state = self._failed(state, call, batch, fault)
        # The gate is shut: whoever waits is put off, with nothing counted.
        waiting = (*state.line, *(e for half in state.ready for e in half))
        due = tuple(sorted((*state.due, *waiting)))
        return state._replace(due=due, line=(), ready=(), is_shut=True)

    def _failed(self, state: State, call: Out, batch: tuple[Entity, ...], fault: Fault) -> State:
        known = self._known(state)
        if not self.rules.its_own_word_is_weighed and fault is Fault.SAID_AWAY:
            fault = Fault.BROKE
        fate = known.failed(call.keys, fault, alone=call.alone)
        if fate is Fate.PUT_OFF and not self.rules.one_break_is_no_crash:
            fate = Fate.CRASHED
        if fate is Fate.HALVED and not self.rules.halves_find_who_fails:
            fate = Fate.FAILED
        state = self._keep(state, known)
        if fate is Fate.HALVED:
            middle = len(batch) // 2
            return state._replace(ready=(*state.ready, batch[:middle], batch[middle:]))
        return state._replace(
            due=tuple(sorted((*state.due, *(self._judged(e, fate) for e in batch))))
        )

    def _judged(self, entity: Entity, fate: Fate) -> Entity:
        crashes, attempts = entity.crashes, entity.attempts
        if fate is Fate.CRASHED:
            crashes += 1
        elif fate is Fate.FAILED:
            attempts += 1
        elif not self.rules.put_off_keeps_what_is_counted:
            crashes = attempts = 0
        if fate is Fate.CRASHED and not self.rules.put_off_keeps_what_is_counted:
            crashes = 1 if crashes < 2 else 0
        parked = crashes >= CRASH_LIMIT or attempts >= ATTEMPTS
        return entity._replace(crashes=crashes, attempts=attempts, parked=parked)

    def _known(self, state: State) -> Standing:
        """The engine's own class, as it stands in this state."""
        known = Standing(at_once=2)
        known._answers = 1
        known._suspects = {key: 0 if answered else 1 for key, answered in state.known}
        return known

    def _keep(self, state: State, known: Standing) -> State:
        return state._replace(
            known=tuple(sorted((str(k), at < known._answers) for k, at in known._suspects.items()))
        )

    # -- what must hold

    def no_innocent_is_blamed(self, state: State) -> str | None:
        for entity in self._all(state):
            if entity.key not in (POISON, FAILS) and (entity.parked or entity.attempts):
                return f"{entity.key} is blamed: {entity}"
            if entity.key == FAILS and entity.parked and entity.crashes >= CRASH_LIMIT:
                return f"{FAILS} is taken for a killer"
        return None

    def the_poison_is_parked_soon(self, state: State) -> str | None:
        most = 1 + CRASH_LIMIT + self.bounds.deaths + self.bounds.refusals + self.bounds.questions
        return f"{POISON} killed {state.kills} times" if state.kills > most else None

    def nothing_starts_behind_a_shut_gate(self, state: State) -> str | None:
        return "a run started while the service was away" if state.late else None

    def all_is_done_in_the_end(self, state: State) -> str | None:
        """Where nothing can happen any more, each was answered or is parked."""
        if any(True for _ in self.steps(state)):
            return None
        left = [e.key for e in self._all(state) if not e.parked]
        return f"{left} are left" if left else None

    def _all(self, state: State) -> Iterator[Entity]:
        yield from state.due
        yield from state.line
        for half in state.ready:
            yield from half
        for _, batch in state.calls:
            yield from batch
