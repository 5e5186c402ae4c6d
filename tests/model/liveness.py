"""Whether a protocol can always go on: from every state a goal is reached by steps that are no faults.

A way exists, that is all that is shown; that each way ends there is for tests of the policies.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping

from explorer import Invariant, Report, State, Steps, first_violation

Goal = Callable[[State], bool]


def explore_goals(
    initial: State,
    successors: Steps[State],
    invariants: Mapping[str, Invariant[State]],
    goals: Mapping[str, Goal[State]],
    is_fault: Callable[[str], bool],
    max_states: int = 1_000_000,
) -> Report:
    """Walk over all states until an invariant breaks; then back from each goal, along no fault."""
    began = time.process_time()
    number = {initial: 0}
    states = [initial]
    origin: list[tuple[int, str]] = [(-1, "")]
    back: list[list[int]] = [[]]
    frontier = deque([0])

    def report(violation: str | None = None, at: int = -1) -> Report:
        steps: list[str] = []
        while at > 0:
            at, step = origin[at]
            steps.append(step)
        seconds = time.process_time() - began
        return Report(len(states), seconds, not frontier, violation, tuple(reversed(steps)))

    while frontier and len(states) <= max_states:
        at = frontier.popleft()
        for step, successor in successors(states[at]):
            to = number.setdefault(successor, len(states))
            if to == len(states):
                states.append(successor)
                origin.append((at, step))
                back.append([])
                frontier.append(to)
                if violation := first_violation(invariants, successor):
                    return report(violation, to)
            if not is_fault(step):
                back[to].append(at)
    for name, goal in goals.items():
        reach = [goal(state) for state in states]
        todo = [n for n, met in enumerate(reach) if met]
        while todo:
            for n in back[todo.pop()]:
                if not reach[n]:
                    reach[n] = True
                    todo.append(n)
        if not all(reach):
            return report(f"{name}: never again", reach.index(False))
    return report()
