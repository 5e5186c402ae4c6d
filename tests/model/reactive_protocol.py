"""Reactive tasks: whether a check can be lost, or the same data be run twice.

Two params: users set p, the task `load` (Delta of p) sets q to what it saw of p, and `report` waits
for q, after a release for p or q. A release may be taken back. Workers of the old code may live on beside
those of the new, and any of them may find a run.
Two schedulers may both handle any visit, as if no lease existed, and may die anywhere. Each of their
transactions is a step of its own: a change has its consumers judged in one snapshot and written, or offers
them a check each, then its visit is settled; a check is read, judged in one snapshot, written, and its
visit settled; a firing is marked as started, then ended together with the settle of its visit.
The ghost is what each task must have seen: it follows the checks, not the tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

P, Q = 0, 1
LOAD, REPORT = 0, 1
PARAMS, TASKS = "pq", ("load", "report")

Value = tuple[int, int] | None  # a value, and how often its param was moved back by then
Pair = tuple[Value, Value]
NOTHING: Pair = (None, None)


class Task(NamedTuple):
    """A task's row."""

    turn: int
    firing: int | None = None
    run: int | None = None  # who has started the firing
    captured: Pair = NOTHING
    wide: bool = False  # the check of the firing was by the new trigger of report
    seen: Pair = NOTHING
    repaired: bool = False  # p was deleted from seen while the firing was in flight


class Job(NamedTuple):
    """What a scheduler has in hand."""

    kind: str  # change, check, run
    of: int  # the param or the task
    version: int  # of the visit, as it was read
    stage: str
    turn: int = 0
    fires: bool = False
    captured: Pair = NOTHING
    wide: bool = False
    base: Pair = NOTHING  # the ghost at the snapshot
    firing: int = 0
    run: int = 0
    judged: tuple["Job", ...] = ()  # of a change: what its snapshot said of the consumers


class Budget(NamedTuple):
    """What may still happen."""

    advances: int = 0
    rewinds: int = 0
    failures: int = 0
    releases: int = 0
    roll_backs: int = 0
    crashes: int = 0
    repairs: int = 0

    def less(self, name: str) -> "Budget":
        return self._replace(**{name: getattr(self, name) - 1})


class State(NamedTuple):
    values: tuple[int | None, int | None] = (0, None)
    moved_back: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    released: bool = False
    changes: tuple[int | None, int | None] = (1, None)  # versions of the visits
    checks: tuple[int | None, int | None] = (None, None)
    runs: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)  # and firing
    tasks: tuple[Task, Task] = (Task(2), Task(3))
    jobs: tuple[Job | None, Job | None] = (None, None)
    budget: Budget = Budget()
    ghost: tuple[Pair, Pair] = (NOTHING, NOTHING)
    ghost_repaired: tuple[bool, bool] = (False, False)
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the protocol; off, each loses a check or runs the same data twice."""

    compare_turn: bool = True  # off: a check fires whenever no firing is there
    offer_at_end: bool = True  # off: the end of a run offers no check
    offer_at_registration: bool = True  # off: a release changes the trigger, and that is all
    count_rewinds: bool = True  # off: values are kept without how often they were moved back
    lay_repairs_over: bool = True  # off: a success records what was captured, whatever was repaired
    record_the_check: bool = True  # off: a success records the values of its end
    new_version_at_offer: bool = True  # off: an offer leaves a visit that is there as it is
    offer_for_products: bool = True  # off: a product is set without a change
    leave_a_check: bool = True  # off: a change drops a verdict that it could not write
    run_what_was_checked: bool = (
        True  # off: code runs a firing whose check looked at more than it names
    )


class ReactiveProtocol:
    """All steps that are possible in a state."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        if state.wrong is not None:
            return
        for label, after in (*self._users(state), *self._schedulers(state)):
            yield label, canonical(after)

    # -- users

    def _users(self, s: State) -> Iterator[tuple[str, State]]:
        value, budget = s.values[P], s.budget
        assert value is not None
        if budget.advances:
            moved = self._offer_change(s._replace(values=_put(s.values, P, value + 1)), P)
            yield f"p advances to {value + 1}", moved._replace(budget=budget.less("advances"))
        if budget.rewinds:
            for to in range(value):
                back = _put(s.moved_back, P, (*s.moved_back[P], to))
                moved = s._replace(values=_put(s.values, P, to), moved_back=back)
                after = self._offer_change(moved, P)
                yield f"p is moved back to {to}", after._replace(budget=budget.less("rewinds"))
        if budget.releases and not s.released:
            turned = _put(s.tasks, REPORT, s.tasks[REPORT]._replace(turn=_fresh(s)))
            after = s._replace(released=True, tasks=turned, budget=budget.less("releases"))
            if self._rules.offer_at_registration:
                after = self._offer_check(after, REPORT)
            yield "a release: report waits for p or q", after
        if budget.roll_backs and s.released:
            turned = _put(s.tasks, REPORT, s.tasks[REPORT]._replace(turn=_fresh(s)))
            after = s._replace(released=False, tasks=turned, budget=budget.less("roll_backs"))
            yield "the release is taken back", self._offer_check(after, REPORT)
        if budget.repairs and s.tasks[LOAD].seen[P] is not None:
            yield "an operator deletes what load has seen of p", self._repair(s)

    def _repair(self, s: State) -> State:
        task = s.tasks[LOAD]
        in_flight = task.firing is not None
        task = task._replace(
            turn=_fresh(s),
            seen=_put(task.seen, P, None),
            repaired=in_flight and self._rules.lay_repairs_over,
        )
        after = s._replace(
            tasks=_put(s.tasks, LOAD, task),
            ghost=_put(s.ghost, LOAD, _put(s.ghost[LOAD], P, None)),
            ghost_repaired=_put(s.ghost_repaired, LOAD, in_flight),
            budget=s.budget.less("repairs"),
        )
        return self._offer_check(after, LOAD)

    def _offer_change(self, s: State, param: int) -> State:
        return s._replace(changes=_put(s.changes, param, self._version(s, s.changes[param])))

    def _offer_check(self, s: State, task: int) -> State:
        return s._replace(checks=_put(s.checks, task, self._version(s, s.checks[task])))

    def _version(self, s: State, there: int | None) -> int:
        return _fresh(s) if self._rules.new_version_at_offer or there is None else there

    # -- schedulers

    def _schedulers(self, s: State) -> Iterator[tuple[str, State]]:
        for number, job in enumerate(s.jobs):
            if job is None:
                if s.jobs[0] is None and number == 1:
                    continue  # they are alike
                for label, taken in self._reads(s):
                    yield label, s._replace(jobs=_put(s.jobs, number, taken))
                continue
            free = s._replace(jobs=_put(s.jobs, number, None))
            if s.budget.crashes:
                died = free._replace(budget=s.budget.less("crashes"))
                yield f"a scheduler dies in {job.kind} {job.stage}", died
            yield from self._advance_job(s, free, number, job)

    def _reads(self, s: State) -> Iterator[tuple[str, Job]]:
        for param, version in enumerate(s.changes):
            if version is not None:
                yield f"change of {PARAMS[param]} is read", Job("change", param, version, "read")
        for task, version in enumerate(s.checks):
            if version is not None:
                yield f"check of {TASKS[task]} is read", Job("check", task, version, "read")
        for task, visit in enumerate(s.runs):
            if visit is not None:
                job = Job("run", task, visit[0], "read", firing=visit[1])
                yield f"run of {TASKS[task]} is read", job

    def _advance_job(
        self, s: State, free: State, number: int, job: Job
    ) -> Iterator[tuple[str, State]]:
        def goes_on(after: State, job: Job) -> State:
            return after._replace(jobs=_put(s.jobs, number, job))

        match job.kind, job.stage:
            case "change", "read":
                consumers = [
                    task
                    for task in (LOAD, REPORT)
                    if job.of in self._names(s, task) and s.tasks[task].firing is None
                ]
                after = s
                for task in consumers:
                    after = self._offer_check(after, task)
                yield (
                    f"change of {PARAMS[job.of]} is spread",
                    goes_on(after, job._replace(stage="done")),
                )
                looks = (self._judge(s, Job("check", task, 0, "read")) for task in consumers)
                yield (
                    f"change of {PARAMS[job.of]} takes its snapshot",
                    goes_on(s, job._replace(stage="judged", judged=tuple(looks))),
                )
            case "change", "judged":
                done = job._replace(stage="done", judged=())
                name = f"change of {PARAMS[job.of]}"
                yield f"{name} writes its verdicts", goes_on(self._write_all(s, job), done)
                if any(look.fires for look in job.judged):
                    locked = self._write_all(s, job, locked=True)
                    yield f"{name} finds the rows locked", goes_on(locked, done)
            case "change", _:
                kept = s.changes[job.of] != job.version
                gone = free if kept else free._replace(changes=_put(s.changes, job.of, None))
                yield f"change of {PARAMS[job.of]} is settled{', superseded' * kept}", gone
            case "check", "read":
                yield (
                    f"check of {TASKS[job.of]} takes its snapshot",
                    goes_on(s, self._judge(s, job)),
                )
            case "check", "judged":
                yield self._write(s, job, goes_on)
            case "check", "again":
                yield f"check of {TASKS[job.of]} is left to come again", free
            case "check", _:
                kept = s.checks[job.of] != job.version
                gone = free if kept else free._replace(checks=_put(s.checks, job.of, None))
                yield f"check of {TASKS[job.of]} is settled{', superseded' * kept}", gone
            case "run", "read":
                yield self._start(s, free, job, goes_on, new=s.released)
                if s.released and job.of == REPORT:
                    yield self._start(s, free, job, goes_on, new=False)
            case "run", "void":
                yield self._end(free, job, succeeds=False)
            case "run", "dead":
                yield self._end(free, job, succeeds=False)
            case "run", _:
                yield self._end(free, job, succeeds=True)
                if s.budget.failures:
                    spent = free._replace(budget=s.budget.less("failures"))
                    yield self._end(spent, job, succeeds=False)

    def _names(self, s: State, task: int) -> tuple[int, ...]:
        if task == LOAD:
            return (P,)
        return (P, Q) if s.released else (Q,)

    def _judge(self, s: State, job: Job) -> Job:
        task = s.tasks[job.of]
        fires = task.firing is None and self.is_true(s, job.of, task.seen)
        return job._replace(
            stage="judged",
            turn=task.turn,
            fires=fires,
            captured=self._values(s, job.of),
            wide=s.released and job.of == REPORT,
            base=s.ghost[job.of],
        )

    def _values(self, s: State, task: int) -> Pair:
        found: Pair = NOTHING
        for param in self._names(s, task):
            value = s.values[param]
            if value is not None:
                found = _put(found, param, (value, len(s.moved_back[param])))
        return found

    def is_true(self, s: State, task: int, seen: Pair, *, exact: bool = False) -> bool:
        """Whether a param has grown since it was seen, what was moved back counted as not seen."""
        for param in self._names(s, task):
            value, last = s.values[param], seen[param]
            if value is None:
                continue
            if last is None:
                return True
            since = s.moved_back[param][last[1] :] if self._rules.count_rewinds or exact else ()
            if value > min((last[0], *since)):
                return True
        return False

    def _write(self, s: State, job: Job, goes_on: object) -> tuple[str, State]:
        name, settles = TASKS[job.of], job._replace(stage="done")
        if not job.fires:
            return f"check of {name} writes nothing", goes_on(s, settles)  # type: ignore[operator]
        if not self._holds(s, job):
            again = job._replace(stage="again")
            return f"check of {name} is too old", goes_on(s, again)  # type: ignore[operator]
        return f"check of {name} fires", goes_on(self._fire(s, job), settles)  # type: ignore[operator]

    def _write_all(self, s: State, change: Job, *, locked: bool = False) -> State:
        """What a change's snapshot said of its consumers, in one transaction."""
        for job in change.judged:
            if job.fires and not locked and self._holds(s, job):
                s = self._fire(s, job)
            elif job.fires and self._rules.leave_a_check:
                s = self._offer_check(s, job.of)
        return s

    def _holds(self, s: State, job: Job) -> bool:
        task = s.tasks[job.of]
        return task.turn == job.turn if self._rules.compare_turn else task.firing is None

    def _fire(self, s: State, job: Job) -> State:
        task, name = s.tasks[job.of], TASKS[job.of]
        firing = _fresh(s)
        fired = task._replace(
            turn=firing + 1,
            firing=firing,
            run=None,
            captured=job.captured,
            wide=job.wide,
            repaired=False,
        )
        wrong = None
        if job.base != s.ghost[job.of]:
            wrong = f"{name} fires on an old state: {job.base}, by now {s.ghost[job.of]}"
        return s._replace(
            tasks=_put(s.tasks, job.of, fired),
            runs=_put(s.runs, job.of, (firing + 2, firing)),
            ghost_repaired=_put(s.ghost_repaired, job.of, False),
            wrong=wrong or s.wrong,
        )

    def _start(
        self, s: State, free: State, job: Job, goes_on: object, *, new: bool
    ) -> tuple[str, State]:
        """By the new code or the old: it runs what its own trigger looked at, no more and no less."""
        task, name = s.tasks[job.of], TASKS[job.of]
        if task.firing != job.firing:
            visit = s.runs[job.of]
            mine = visit is not None and visit[0] == job.version
            gone = free._replace(runs=_put(s.runs, job.of, None)) if mine else free
            return f"run of {name} is over already", gone
        if task.run is not None:
            dead = job._replace(stage="dead", run=task.run)
            return f"an earlier start of {name} is found", goes_on(s, dead)  # type: ignore[operator]
        fits = job.of == LOAD or task.wide == new
        if not self._rules.run_what_was_checked:
            fits = fits or task.wide
        if not fits and new != s.released:
            return f"run of {name} is left to newer code", free
        run = _fresh(s)
        marked = s._replace(tasks=_put(s.tasks, job.of, task._replace(run=run)))
        stage = "started" if fits else "void"
        if fits and task.wide and not new:
            marked = marked._replace(wrong=f"old code runs for a value of p, which {name} then saw")
        started = job._replace(stage=stage, run=run, captured=task.captured)
        return f"run of {name} starts", goes_on(marked, started)  # type: ignore[operator]

    def _end(self, s: State, job: Job, *, succeeds: bool) -> tuple[str, State]:
        """Products, last seen values and the settle of the visit, in one transaction."""
        task, name, visit = s.tasks[job.of], TASKS[job.of], s.runs[job.of]
        mine = task.firing == job.firing and task.run == job.run
        if not mine:
            return f"the end of {name} comes to nothing", s
        if visit is None or visit[0] != job.version:
            return f"the end of {name} cannot settle", s
        ended = task._replace(
            turn=_fresh(s), firing=None, run=None, captured=NOTHING, wide=False, repaired=False
        )
        after = s._replace(
            runs=_put(s.runs, job.of, None), ghost_repaired=_put(s.ghost_repaired, job.of, False)
        )
        if succeeds:
            after, ended = self._succeed(after, s, job, ended)
        after = after._replace(tasks=_put(s.tasks, job.of, ended))
        if self._rules.offer_at_end:
            after = self._offer_check(after, job.of)
        return f"run of {name} {'succeeds' if succeeds else 'fails'}", after

    def _succeed(self, after: State, s: State, job: Job, ended: Task) -> tuple[State, Task]:
        task, name = s.tasks[job.of], TASKS[job.of]
        seen = job.captured if self._rules.record_the_check else self._values(s, job.of)
        must = job.captured
        if task.repaired:
            seen = _put(seen, P, None)
        if s.ghost_repaired[job.of]:
            must = _put(must, P, None)
        wrong = None if seen == must else f"{name} has seen {seen}, its check saw {must}"
        brought = job.captured[P]
        if job.of == LOAD and brought is not None:
            old = s.values[Q]
            if old is None or brought[0] > old:
                after = after._replace(values=_put(s.values, Q, brought[0]))
                if self._rules.offer_for_products:
                    after = self._offer_change(after, Q)
        after = after._replace(ghost=_put(s.ghost, job.of, must), wrong=wrong)
        return after, ended._replace(seen=seen)

    # -- what must hold

    def invariants(self) -> dict[str, object]:
        return {
            "nothing is run twice, and seen is what the check saw": lambda s: s.wrong,
            "no check is lost": self.lost,
        }

    def lost(self, s: State) -> str | None:
        """I1: at rest no trigger is true."""
        if any((*s.changes, *s.checks, *s.runs, *s.jobs)):
            return None
        for task in (LOAD, REPORT):
            if s.tasks[task].firing is not None:
                return f"{TASKS[task]} has a firing and no run"
            if self.is_true(s, task, s.ghost[task], exact=True):
                return f"{TASKS[task]} is true at rest, and nobody will look"
        return None


# Everything has been seen: p and q are 1, and nothing is due.
AT_REST = State(
    values=(1, 1),
    changes=(None, None),
    tasks=(Task(1, seen=((1, 0), None)), Task(2, seen=(None, (1, 0)))),
    ghost=(((1, 0), None), (None, (1, 0))),
)


def _put(pair: tuple, index: int, value: object) -> tuple:
    return (value, pair[1]) if index == 0 else (pair[0], value)


def _fresh(s: State) -> int:
    return max(_tokens(s), default=0) + 1


def _tokens(s: State) -> Iterator[int]:
    for task in s.tasks:
        yield from (t for t in (task.turn, task.firing, task.run) if t is not None)
    yield from (v for v in (*s.changes, *s.checks) if v is not None)
    for visit in s.runs:
        yield from visit or ()
    for job in s.jobs:
        if job is not None:
            yield from (job.version, job.turn, job.firing, job.run)
            yield from (look.turn for look in job.judged)


def canonical(s: State) -> State:
    """Tokens renamed in the order in which they are met: only whether two are equal counts."""
    names: dict[int | None, int | None] = {None: None, 0: 0}

    def name(token: int | None) -> int | None:
        return names.setdefault(token, len(names))

    tasks = tuple(
        t._replace(turn=name(t.turn), firing=name(t.firing), run=name(t.run)) for t in s.tasks
    )
    runs = tuple(v and (name(v[0]), name(v[1])) for v in s.runs)
    s = s._replace(
        tasks=tasks,
        changes=tuple(map(name, s.changes)),
        checks=tuple(map(name, s.checks)),
        runs=runs,
    )
    order = sorted(s.jobs, key=lambda j: (j is None, j and (j.kind, j.of, j.stage), repr(j)))
    jobs = tuple(
        j
        and j._replace(
            version=name(j.version),
            turn=name(j.turn),
            firing=name(j.firing),
            run=name(j.run),
            judged=tuple(look._replace(turn=name(look.turn)) for look in j.judged),
        )
        for j in order
    )
    return s._replace(jobs=jobs)
