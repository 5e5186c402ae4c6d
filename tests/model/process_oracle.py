"""What must hold after every commit of the process protocol, and at rest."""

from collections.abc import Callable
from dataclasses import dataclass

from process_state import LIVE, Program, State, Task


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol; off, each loses a wakeup, decides twice or keeps an old result."""

    look_for_edges_later: bool = True  # off: in the statement that locks
    link_under_lock: bool = True  # off: whether a promise is open is read without its lock
    insert_before_close: bool = True  # off: children are linked after their batch has closed
    release_at_zero_once: bool = True  # off: whenever the count is not above zero
    settle_by_token: bool = True  # off: a decision counts while its task has any visit
    fresh_token_at_restart: bool = True  # off: the visit of a redone task stays as it is
    new_version_for_last: bool = True  # off: a work timeout leaves the version (accept="last")
    wait_for_decisions: bool = True  # off: a cone is read while decisions are in flight
    cone_by_promise: bool = True  # off: by the id of a task, not by what it fulfils
    reopen_inherited: bool = True  # off: only the promises of the redone tasks' own ids
    supersede_children: bool = True  # off: what a redone task made stays
    remember_root: bool = True  # off: only the decision that closes the root tries to finish
    end_waits: bool = True  # off: the end that the root asks for does not wait for decisions
    look_at_parking: bool = True  # off: only who links an outcome asks for a look
    both_sides_look: bool = True  # off: only the signal looks for who waits
    pass_on_closed: bool = True  # off: a given promise that is returned is only linked to
    keep_needed: bool = True  # off: prune takes what kept tasks have edges on


class Oracle:
    """The invariants, and what both they and the protocol ask of a graph."""

    def __init__(self, rules: Rules, program: Program, *, accept: str = "first") -> None:
        self._rules = rules
        self._program = program
        self._accept = accept

    def _given(self, tasks: dict[str, Task], task: Task) -> tuple[object, ...]:
        return tuple((tasks[p].outcome, tasks[p].value) for p, _ in task.inputs if p in tasks)

    def _stopped(self, tasks: dict[str, Task], task: Task) -> bool:
        return any(tasks[p].outcome == "err" and kind == "value" for p, kind in task.inputs)

    def _catching(self, tasks: dict[str, Task], promise: str) -> tuple[bool, bool]:
        """Whether an open task downstream takes the outcome, or holds a handle and may yet."""
        caught = held = False
        todo, done = [promise], set()
        while todo:
            promise = todo.pop()
            done.add(promise)
            for task in tasks.values():
                kind = dict(task.edges).get(promise)
                if task.state != "open" or kind is None:
                    continue
                caught |= kind == "outcome" and self._program[task.name] != "pass on"
                held |= kind == "handle"
                if (kind == "value" or self._program[task.name] == "pass on") and (
                    task.promise not in done
                ):
                    todo.append(task.promise)
        return caught, held

    def _is_caught(self, s: State, task: Task) -> bool:
        return self._catching(s.by_id, task.promise)[0]

    # -- what must hold

    def invariants(self) -> dict[str, Callable[[State], str | None]]:
        return {
            "nothing is decided twice or out of turn": lambda s: s.wrong,
            "every commit keeps the process whole": self._broken,
            "no wakeup is lost": self._stuck,
        }

    def _broken(self, s: State) -> str | None:
        tasks = s.by_id
        fulfilling: dict[str, int] = {}
        for id, task in s.tasks:
            if task.state in LIVE:
                fulfilling[task.promise] = fulfilling.get(task.promise, 0) + 1
            if found := self._broken_task(s, tasks, id, task):
                return found
        for id, task in s.tasks:
            if s.cancelled or task.promise != id or task.state == "superseded":
                continue
            live = fulfilling.get(id, 0)
            if (task.outcome is None) != (live == 1) or live > 1:
                return f"I4 {id} is {task.outcome or 'open'} and {live} fulfil it"
        if s.finished and any(task.state in LIVE for _, task in s.tasks):
            return "I8 finished with a live task"
        return None

    def _broken_task(self, s: State, tasks: dict[str, Task], id: str, task: Task) -> str | None:
        has_visit = s.visit_of(id) is not None
        missing = [p for p, _ in task.edges if p not in tasks]
        if missing and task.state != "superseded":
            return f"I12 an input of {id} is gone"
        open_inputs = sum(tasks[p].outcome is None for p, _ in task.inputs if p in tasks)
        is_race = self._program[task.name] == "first_of"
        maker = tasks.get(task.made_by or "")
        if task.state == "open" and not has_visit and open_inputs == 0:
            return f"I1 {id} waits for nothing"
        if task.state == "open" and not has_visit and not is_race and task.left != open_inputs:
            return f"I2 {id} counts {task.left} of {open_inputs} open inputs"
        if task.state == "open" and not has_visit and self._stopped(tasks, task):
            return f"I3 {id} waits although an error stops it"
        if task.state in ("done", "cancelled", "superseded") and has_visit:
            return f"I1 {id} is {task.state} and has a visit"
        if maker is not None and task.state != "superseded" and not s.cancelled:
            stands = maker.state == "done" and maker.generation == task.maker_generation
            if not stands:
                return f"I7 {id} was made by a decision that does not stand"
        if task.state == "done" and task.given and not is_race and not missing:
            given = self._given(tasks, task)
            if task.given != given:
                return f"I11 {id} was decided from inputs that are no longer so"
        return None

    def _stuck(self, s: State) -> str | None:
        """At rest: finished, or waiting for a signal or an operator."""
        if s.runs or s.transactions or s.asks or s.pending or s.finished:
            return None
        if any(s.by_id[visit.task].state != "parked" for visit in s.visits):
            return None
        if any(task.state == "external" for _, task in s.tasks) and not s.signals:
            return None
        parked = [task for _, task in s.tasks if task.state == "parked"]
        if parked and not any(self._is_caught(s, task) for task in parked):
            return None
        live = [f"{id} {task.state}" for id, task in s.tasks if task.state in LIVE]
        return f"at rest and not finished: {', '.join(live) or 'nothing is live'}"
