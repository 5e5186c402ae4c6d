"""A cancel that undoes: every step that may have had its effect is undone once, newest first, or told of.

One process: a, then b and c in a scope (or in none), then d. b's compensation may book something itself
(v). A run has its effect when it is handed out; its decision is begun and committed later, and may be
lost with its worker. A scope fails with c, and a look ends it: b is undone, then its handler runs. An
operator tries parked tasks again, gives them up, and restarts from a. `log` is the world's memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

STEPS = "abcdv"
SCOPED = "bc"
LIVE = ("waiting", "queued", "running", "parked", "stopped")


class Task(NamedTuple):
    name: str
    after: tuple[str, ...] = ()
    state: str = "waiting"
    generation: int = 0
    undoes: str = ""
    made_by: str = ""


class State(NamedTuple):
    tasks: tuple[Task, ...]
    process: str = "open"
    scope: str = "open"
    flight: tuple[tuple[str, int], ...] = ()  # decisions that have begun and are not committed
    asks: frozenset[str] = frozenset()  # visits of the engine: look, cancel, give up, child
    half: tuple[str, ...] | None = (
        None  # steps that a cancel is about to undo, in a worker's memory
    )
    child: str = ""  # a child process: open, cancelled
    log: tuple[str, ...] = ()
    cancels: int = 0
    deaths: int = 0
    fails: int = 0
    restarts: int = 0

    @property
    def by_name(self) -> dict[str, Task]:
        return {task.name: task for task in self.tasks}

    def put(self, *changed: Task) -> "State":
        tasks = {**self.by_name, **{task.name: task for task in changed}}
        return self._replace(tasks=tuple(sorted(tasks.values())))

    def note(self, *what: str) -> "State":
        return self._replace(log=(*self.log, *what))

    def is_booked(self, step: str) -> bool:
        """Whether the step had its effect, and nobody has undone it or been told."""
        ends = [what for what in self.log if what.endswith(f" {step}")]
        return bool(ends) and ends[-1] == f"did {step}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a cancel; off, each leaves something booked, undoes it twice or too early, or hangs."""

    alone: bool = True  # off: a cancel does not wait for decisions in flight
    at_once: bool = True  # off: what is called off, and what undoes, are two transactions
    begun_is_undone: bool = True  # off: only what is done
    redone_is_undone: bool = True  # off: what waits to be redone never began
    newest_first: bool = True
    after_those_under_way: bool = True  # off: beside compensations that a scope's end began
    compensations_are_kept: bool = True  # off: a cancel calls them off too
    their_steps_are_kept: bool = True  # off: what a compensation did is undone
    undone_once: bool = True  # off: a scope that is being undone is undone by the cancel too
    scopes_end: bool = True  # off: a look may end a scope after the cancel
    refused_while_cancelling: bool = True
    open_until_undone: bool = (
        True  # off: it is cancelled at once, and results of the ended are dropped
    )
    given_up_stops_no_other: bool = True
    restart_waits: bool = True  # off: it takes compensations along that have not ended
    children_are_told: bool = True  # off: after the transaction, by a worker that may die


@dataclass(frozen=True, slots=True)
class Bounds:
    scope: bool = True
    undo_books: bool = False  # the compensation of b books v, which has a compensation
    child: bool = False
    cancels: int = 1
    deaths: int = 0
    fails: int = 0
    restarts: int = 0
    gives_up: bool = False  # a cancel without compensation may come


@dataclass(frozen=True, slots=True)
class CancelProtocol:
    rules: Rules
    bounds: Bounds

    def start(self) -> State:
        first = Task("a", state="queued")
        tasks = (first, Task("b", ("a",)), Task("c", ("b",)), Task("d", ("c",)))
        b = self.bounds
        scope, child = "open" if b.scope else "closed", "open" if b.child else ""
        return State(tasks, scope=scope, child=child, cancels=b.cancels, deaths=b.deaths,
                     fails=b.fails, restarts=b.restarts)  # fmt: skip

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self._runs(s)
        yield from self._commits(s)
        yield from self._engine(s)
        yield from self._operator(s)

    # -- workers

    def _runs(self, s: State) -> Iterator[tuple[str, State]]:
        for task in s.tasks:
            mine = (task.name, task.generation)
            if task.state == "queued":
                after = s.put(task._replace(state="running"))
                if task.name in STEPS and not s.is_booked(task.name):
                    after = after.note(f"did {task.name}")
                elif task.undoes:
                    after = after.note(f"begins to undo {task.undoes}")
                elif task.name == "handler":
                    after = after.note("handler")
                yield f"{task.name} runs", after
            if task.state == "running" and mine not in s.flight:
                yield f"the decision of {task.name} begins", s._replace(flight=(*s.flight, mine))
                if s.deaths:
                    lost = s._replace(deaths=s.deaths - 1)
                    yield f"the run of {task.name} dies", lost.put(task._replace(state="queued"))

    def _commits(self, s: State) -> Iterator[tuple[str, State]]:
        for mine in s.flight:
            name, generation = mine
            task = s.by_name.get(name)
            after = s._replace(flight=tuple(one for one in s.flight if one != mine))
            counts = s.process in ("open", "cancelling") and task is not None
            if not counts or task is None or task.generation != generation:
                yield f"the decision of {name} comes too late", after
                continue
            if task.state != "running" and self.rules.alone:
                yield f"the decision of {name} comes too late", after
                continue
            yield f"{name} is done", self._done(after, task)
            if s.fails and (name == "c" or task.undoes):
                yield f"{name} fails", self._fail(after._replace(fails=s.fails - 1), task)

    def _done(self, s: State, task: Task) -> State:
        if (
            task.state == "cancelled"
        ):  # called off since: what it wrote makes the next step all the same
            s = s.put(*(t._replace(state="waiting") for t in s.tasks if task.name in t.after))
        s = s.put(task._replace(state="done"))
        if task.undoes:
            s = s.note(f"undid {task.undoes}")
            if task.undoes == "b" and self.bounds.undo_books:
                s = s.put(Task("v", state="queued", made_by=task.name))
        if task.name == "c" and s.scope == "open":
            s = s._replace(scope="closed")
        return self._go_on(s)

    def _fail(self, s: State, task: Task) -> State:
        if task.name in SCOPED and self.bounds.scope:
            s = s.put(task._replace(state="done"))
            return s._replace(scope="failed", asks=s.asks | {"look"})
        return s.put(task._replace(state="parked"))

    def _go_on(self, s: State) -> State:
        """Release what waits, and finish the process with its last task."""
        tasks = s.by_name
        for task in s.tasks:
            if task.state == "waiting" and all(self._is_closed(tasks, t) for t in task.after):
                given_up = any(tasks[t].state == "given up" for t in task.after)
                stops = given_up and not self.rules.given_up_stops_no_other
                s = s.put(task._replace(state="stopped" if stops else "queued"))
        if any(task.state in LIVE for task in s.tasks) or s.half is not None:
            return s
        if s.process == "cancelling":
            return s._replace(process="cancelled")
        done = tasks["d"].state == "done" or ("handler" in tasks and s.scope == "undoing")
        return s._replace(process="finished") if s.process == "open" and done else s

    def _is_closed(self, tasks: dict[str, Task], name: str) -> bool:
        if name == "undo b" and "v" in tasks:  # it ended with a tail call
            return tasks["v"].state == "done"
        return tasks[name].state in ("done", "given up")

    # -- the engine

    def _engine(self, s: State) -> Iterator[tuple[str, State]]:
        free = not s.flight
        if "look" in s.asks and free:
            yield "a look", self._look(s._replace(asks=s.asks - {"look"}))
        if "cancel" in s.asks and (free or not self.rules.alone):
            yield "a cancel", self._cancel(s._replace(asks=s.asks - {"cancel"}))
        if "give up" in s.asks and free:
            yield "a cancel without", self._give_up(s._replace(asks=s.asks - {"give up"}))
        if "child" in s.asks:
            yield "the child's cancel", s._replace(asks=s.asks - {"child"}, child="cancelled")
        if s.half is not None:
            made = self._make_undo(s._replace(half=None), s.half)
            yield "the cancel's second part", self._go_on(made)
            if s.deaths:
                lost = s._replace(half=None, deaths=s.deaths - 1)
                yield "the canceller dies", self._go_on(lost)

    def _look(self, s: State) -> State:
        """The end of the scope: what is live in it is called off, what began is undone, and then the
        handler runs."""
        if s.process not in ("open", "cancelling") or s.scope != "failed":
            return s
        undone = self._newest(s, [t.name for t in s.tasks if self._began(t) and t.name in SCOPED])
        s = self._call_off(s, [t for t in s.tasks if t.name in (*SCOPED, "d")])
        s = self._make_undo(s._replace(scope="undoing"), undone)
        last = tuple(t.name for t in s.tasks if t.undoes in undone[-1:])
        return self._go_on(s.put(Task("handler", last)))

    def _cancel(self, s: State) -> State:
        r = self.rules
        if s.process not in ("open", "cancelling"):
            return s
        if s.process == "cancelling" and r.refused_while_cancelling:
            return s
        kept = {t.name for t in s.tasks if t.undoes or t.made_by}
        steps = [t for t in s.tasks if t.name in STEPS and t.name != "d" and self._began(t)]
        undone = [t.name for t in steps if t.name not in kept or not r.their_steps_are_kept]
        out = ("closed", "undoing") if r.undone_once else ("closed",)
        if self.bounds.scope and s.scope in out:
            undone = [name for name in undone if name not in SCOPED]
        undone = self._newest(s, undone)
        spared = kept if r.compensations_are_kept else set()
        s = self._call_off(s, [t for t in s.tasks if t.name not in spared])
        s = s.note("cancel")._replace(process="cancelling")
        if r.scopes_end and s.scope in ("open", "failed"):
            s = s._replace(scope="undoing")
        if s.child == "open" and (r.children_are_told or not s.deaths):
            s = s._replace(asks=s.asks | {"child"})  # off: the worst is that its worker dies
        if not r.at_once:
            return s._replace(half=tuple(undone))
        s = self._make_undo(s, undone)
        return self._go_on(s) if r.open_until_undone else s._replace(process="cancelled")

    def _give_up(self, s: State) -> State:
        """compensate=False: nothing is undone any more."""
        if s.process not in ("open", "cancelling"):
            return s
        s = self._call_off(s, list(s.tasks)).note("cancel")._replace(process="cancelling")
        return self._go_on(s.note(*(f"left {x}" for x in STEPS if s.is_booked(x))))

    def _call_off(self, s: State, tasks: list[Task]) -> State:
        return s.put(*(t._replace(state="cancelled") for t in tasks if t.state in LIVE))

    def _began(self, task: Task) -> bool:
        if task.state == "waiting":
            return task.generation > 0 and self.rules.redone_is_undone
        begun = ("done", "queued", "running", "parked") if self.rules.begun_is_undone else ("done",)
        return task.state in begun

    def _newest(self, s: State, steps: list[str]) -> list[str]:
        """By the order of their ends; what has none comes first."""
        order = [what.removeprefix("did ") for what in s.log if what.startswith("did ")]
        place = {step: n for n, step in enumerate(order)}
        return sorted(steps, key=lambda x: place.get(x, 99), reverse=self.rules.newest_first)

    def _make_undo(self, s: State, steps: list[str] | tuple[str, ...]) -> State:
        running = [t.name for t in s.tasks if t.undoes and not self._is_over(s, t)]
        before = tuple(running) if self.rules.after_those_under_way else ()
        for step in steps:
            name = f"undo {step}"
            name += " again" if name in s.by_name else ""
            s = s.put(Task(name, before, undoes=step))
            before = (name,)
        return self._go_on(s)

    def _is_over(self, s: State, task: Task) -> bool:
        return task.state == "cancelled" or self._is_closed(s.by_name, task.name)

    # -- operators and users

    def _operator(self, s: State) -> Iterator[tuple[str, State]]:
        if s.cancels and s.process in ("open", "cancelling"):
            yield "cancel is asked for", s._replace(cancels=s.cancels - 1, asks=s.asks | {"cancel"})
            if self.bounds.gives_up and s.process == "cancelling":
                asked = s._replace(cancels=s.cancels - 1, asks=s.asks | {"give up"})
                yield "a cancel without compensation is asked for", asked
        for task in s.tasks:
            if task.state == "parked":
                yield f"{task.name} is tried again", s.put(task._replace(state="queued"))
                if task.undoes:
                    told = s.put(task._replace(state="given up")).note(f"gave up {task.undoes}")
                    yield f"{task.name} is given up", self._go_on(told)
        first = s.by_name["a"]
        if s.restarts and s.process == "open" and first.state == "done" and not s.flight:
            yield from self._restart(s._replace(restarts=s.restarts - 1))

    def _restart(self, s: State) -> Iterator[tuple[str, State]]:
        if self.rules.restart_waits and s.scope in ("failed", "undoing"):
            return  # what is undone is not redone, now or later
        undoing = [t for t in s.tasks if t.undoes and t.state in LIVE]
        lost = [f"lost {t.undoes}" for t in undoing if s.is_booked(t.undoes)]
        tasks = [t for t in s.tasks if t.name in "abcd"]
        reset = [t._replace(state="waiting", generation=t.generation + 1) for t in tasks]
        s = s._replace(tasks=tuple(reset), scope="open" if self.bounds.scope else "closed")
        yield "a restart from a", self._go_on(s.note(*lost))

    # -- what must hold

    def nothing_stays_booked(self, s: State) -> str | None:
        if s.process == "cancelled":
            for step in "abc" if s.scope != "closed" or not self.bounds.scope else "a":
                if s.is_booked(step):
                    return f"{step} is booked and nobody is told"
            if s.child == "open" and "child" not in s.asks:
                return "the child is open and nobody cancels it"
        lost = [what for what in s.log if what.startswith("lost ")]
        return f"the compensation of {lost[0][5:]} was lost" if lost else None

    def each_is_undone_once(self, s: State) -> str | None:
        for step in STEPS:
            ends = [what for what in s.log if what.endswith(f" {step}")]
            ends = [what for what in ends if not what.startswith("begins")]
            if any(x == y == f"undid {step}" for x, y in pairwise(ends)):
                return f"{step} is undone twice"
        if "undid v" in s.log or "begins to undo v" in s.log:
            return "a compensation's own step is undone"
        return None

    def newest_first(self, s: State) -> str | None:
        """While a step is being undone, nothing that was done after it is still booked."""
        last = s.log[-1] if s.log else ""
        if not last.startswith("begins to undo "):
            return None
        step = last[-1]
        did = [what[-1] for what in s.log if what.startswith("did ")]
        closed = SCOPED if s.scope == "closed" and self.bounds.scope else ""
        later = did[len(did) - did[::-1].index(step) :] if step in did else []
        early = [x for x in later if x in "abc" and x not in closed and s.is_booked(x)]
        return f"{step} is undone before {early[0]}" if early else None

    def no_handler_after_a_cancel(self, s: State) -> str | None:
        after = s.log[s.log.index("cancel") :] if "cancel" in s.log else ()
        return "a handler runs after the cancel" if "handler" in after else None

    def it_ends(self, s: State) -> str | None:
        if s.process != "cancelling" or next(self.steps(s), None) is not None:
            return None
        return "it is being cancelled, and nothing can happen any more"
