"""Breadth-first search over the states of a protocol.

A model gives one immutable, hashable start state and a function that names every step possible in
a state. The search visits each reachable state once, nearest first, so the trace of a violation is
one of the shortest there are. It promises nothing beyond the bounds that the model sets itself.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

State = TypeVar("State", bound=Hashable)

Steps = Callable[[State], Iterable[tuple[str, State]]]
Invariant = Callable[[State], str | None]  # what is wrong, or None


@dataclass(frozen=True, slots=True)
class Report:
    """What a search found; `complete` means that no reachable state was left out."""

    states: int
    seconds: float
    complete: bool
    violation: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The verdict, then the steps that lead to the violation, one a line."""
        extent = "all" if self.complete else "the first"
        verdict = self.violation or "no violation"
        head = f"{verdict} in {extent} {self.states} states, {self.seconds:.1f} s"
        return "\n".join([head, *(f"{no:3d}. {step}" for no, step in enumerate(self.trace, 1))])


def explore(
    initial: State,
    successors: Steps[State],
    invariants: Mapping[str, Invariant[State]],
    max_states: int = 1_000_000,
    max_seconds: float = 60.0,
) -> Report:
    """Search until an invariant breaks, nothing new is reachable, or a limit is met."""
    collects = gc.isenabled()
    gc.disable()  # states hold no cycles, and looking for some takes half of the time
    try:
        return _explore(initial, successors, invariants, max_states, max_seconds)
    finally:
        if collects:
            gc.enable()


def _explore(
    initial: State,
    successors: Steps[State],
    invariants: Mapping[str, Invariant[State]],
    max_states: int,
    max_seconds: float,
) -> Report:
    began = time.process_time()
    # Each state seen, with the state and the step that first led to it.
    origin: dict[State, tuple[State, str] | None] = {initial: None}
    frontier = deque([initial])

    def report(complete: bool, violation: str | None = None, at: State | None = None) -> Report:
        trace = () if at is None else _trace(origin, at)
        return Report(len(origin), time.process_time() - began, complete, violation, trace)

    violation = first_violation(invariants, initial)
    if violation:
        return report(complete=False, violation=violation, at=initial)
    while frontier:
        if len(origin) > max_states or time.process_time() - began > max_seconds:
            return report(complete=False)
        state = frontier.popleft()
        for step, successor in successors(state):
            if successor in origin:
                continue
            origin[successor] = (state, step)
            violation = first_violation(invariants, successor)
            if violation:
                return report(complete=False, violation=violation, at=successor)
            frontier.append(successor)
    return report(complete=True)


def first_violation(
    invariants: Mapping[str, Invariant[State]],
    state: State,
) -> str | None:
    """The first invariant that does not hold, by its name, or None."""
    for name, invariant in invariants.items():
        wrong = invariant(state)
        if wrong:
            return f"{name}: {wrong}"
    return None


def _trace(origin: Mapping[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    came = origin[state]
    while came is not None:
        state, step = came
        steps.append(step)
        came = origin[state]
    return tuple(reversed(steps))
