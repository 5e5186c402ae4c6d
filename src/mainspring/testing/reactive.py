"""Reactive tasks without a database: a fake clock, fake params, the engine's own decisions.

    sim = ReactiveSimulation(app, start=datetime(2026, 3, 10, tzinfo=UTC))
    sim.set(orders, datetime(2026, 3, 10, 1, tzinfo=UTC))
    assert not sim.fires("daily")
    sim.set(fx, datetime(2026, 3, 10, 0, 30, tzinfo=UTC))
    assert sim.fires("daily")
    sim.advance("1d")
    print(sim.timeline.chart())

What is judged, when it is looked at again, and what is recorded is decided by the very code of the
scheduler; here it is called by hand, one moment after the other. Not simulated: reservations (R9).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from mainspring.app import Mainspring
from mainspring.errors import InvalidSetting, UnknownReactiveTask, WentBack
from mainspring.reactive.decide.decide import (
    Definition,
    Fire,
    Rewind,
    SeenValue,
    View,
    chunks_to_do,
    decide,
)
from mainspring.reactive.decide.explain import Around, Producer, ReactiveWhy, explain
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.durations import Duration, check_duration
from mainspring.reactive.model.triggers import Trigger
from mainspring.reactive.model.values import (
    AnyParam,
    Value,
    check_instant,
    check_value,
    compare,
    moment_of,
)
from mainspring.testing.reactive_params import SimulatedParams
from mainspring.testing.reactive_state import (
    Fires,
    ParamSet,
    Planned,
    SimulatedFiring,
    SimulatedTask,
    call,
)
from mainspring.testing.timeline import Missed, Ran, Timeline

_MINUTE = timedelta(minutes=1)
_NOBODY: Any = None  # nothing is asked of an application here


class ReactiveSimulation:
    """Reactive tasks on a fake clock.

    `takes`: how long a run lasts, by task; a minute otherwise. `cap`: how many run at once.
    `calls=False`: functions are not called and bring nothing (what they brought is replayed).
    """

    def __init__(
        self,
        tasks: Mainspring | Iterable[ReactiveTask],
        *,
        start: datetime,
        takes: Mapping[str, Duration] | None = None,
        cap: int | None = None,
        calls: bool = True,
        most_runs: int = 100_000,
    ) -> None:
        self.now = check_instant(start, what="a simulation's start")
        self.timeline = Timeline()
        self._cap = cap
        self._calls = calls
        self._most_runs = most_runs
        self._takes = {
            task: check_duration(length, name=f"takes of {task!r}", zero=True)
            for task, length in (takes or {}).items()
        }
        self._params = SimulatedParams()
        self._tasks: dict[str, SimulatedTask] = {}
        self._users: dict[str, set[str]] = {}
        self._dirty: set[str] = set()
        self._plan: list[Planned] = []
        self._numbers = count()
        declared = tasks.reactive_tasks.values() if isinstance(tasks, Mainspring) else tasks
        for task in declared:
            self.release(task)

    # -- what others do

    def set(self, param: AnyParam, value: object, *, if_greater: bool = False) -> bool:
        """Set a param now; answers whether it moved. What goes back is refused."""
        moved = self._params.advance(param, value, self.now, if_greater=if_greater)
        if moved:
            self._dirty |= self._users.get(param.key, set())
        return moved

    def rewind(self, param: AnyParam, to: object, *, chunks: Iterable[datetime] = ()) -> list[str]:
        """Move a param back now; answers the tasks that have seen more of it (R13)."""
        self._params.rewind(param, to, chunks, self.now)
        users = self._users.get(param.key, set())
        self._dirty |= users
        return [name for name in sorted(users) if param.key in self._tasks[name].seen]

    def plan(self, changes: Iterable[ParamSet]) -> None:
        """Set params at moments to come: a feed of data, or a history to replay."""
        for change in changes:
            self._at(change.at, "change", change)

    def release(self, task: ReactiveTask) -> None:
        """Declare a task, or declare it anew with another trigger; what it has seen stays (R12)."""
        settings = task.settings
        definition = Definition(
            settings.when,
            settings.gates,
            settings.on_rewind,  # type: ignore[arg-type]
            settings.first_run,  # type: ignore[arg-type]
        )
        known = self._tasks.get(task.name)
        if known is None:
            known = self._tasks[task.name] = SimulatedTask(task, definition, self.now)
        else:
            known.release(task, definition)
        for users in self._users.values():
            users.discard(task.name)
        for param in definition.params:
            self._users.setdefault(param.key, set()).add(task.name)
            now = self._params.seen(param.key)
            if (
                definition.first_run == "baseline"
                and param.key not in known.seen
                and now.value is not None
            ):
                known.repair(param.key, now)
        self._dirty.add(task.name)
        self._expect(known)

    def change(self, task: str, when: Trigger) -> None:
        """Release a task with another trigger."""
        known = self.find(task).task
        self.release(ReactiveTask(known.function, replace(known.settings, when=when), _NOBODY))

    def baseline(self) -> None:
        """Take all params as they are now as seen by every task."""
        for task in self._tasks.values():
            task.see(self._captured(task))

    # -- what an operator does

    def run(self, task: str, *, record: bool = False) -> None:
        """Ask for a manual run."""
        self.find(task).ask(record=record)
        self._dirty.add(task)

    def move_seen(self, task: str, param: AnyParam, value: object) -> None:
        """Let a task have seen a param up to a value."""
        rewinds = self._params.seen(param.key).rewinds
        self.find(task).repair(param.key, SeenValue(check_value(param, value), rewinds))
        self._dirty.add(task)

    def delete_seen(self, task: str, param: AnyParam) -> None:
        """Let a task not have seen a param at all."""
        self.find(task).repair(param.key, None)
        self._dirty.add(task)

    def fail_next(self, task: str, times: int = 1) -> None:
        """Let the next runs of a task fail."""
        self.find(task).fail_next(times)

    # -- questions

    def find(self, task: str) -> SimulatedTask:
        """A task of the simulation; an error that names the nearest otherwise."""
        try:
            return self._tasks[task]
        except KeyError:
            raise UnknownReactiveTask(task, self._tasks) from None

    def value(self, param: AnyParam) -> Value | None:
        """The current value of a param."""
        return self._params.seen(param.key).value

    def fires(self, task: str) -> Fires | None:
        """What a check of the task would start now; nothing if it would not fire, or is in flight."""
        known = self.find(task)
        if known.firing is not None:
            return None
        decision = decide(known.definition, self._view(known), self.now)
        if not isinstance(decision, Fire):
            return None
        return Fires(decision.cause, lambda param, chunk: self._chunks(known, param, chunk))

    def why(self, task: str) -> ReactiveWhy:
        """The tree with values and verdicts, and the next fact that would change it."""
        known = self.find(task)
        notes = [] if known.firing is None else [f"it is {known.firing.state}"]
        around = Around(producers=self._producers())
        view = self._view(known)
        return explain(task, known.definition, view, self.now, around=around, notes=notes)

    def _producers(self) -> dict[str, list[Producer]]:
        """Who brings a param, since when it runs and how long it usually takes, by the param's key."""
        found: dict[str, list[Producer]] = {}
        for name, known in sorted(self._tasks.items()):
            running_since = None if known.firing is None else known.firing.started_at
            producer = Producer(name, running_since, self.timeline.usual_duration(name))
            for param in known.task.settings.produces:
                found.setdefault(param.key, []).append(producer)
        return found

    # -- time

    def advance(self, by: Duration) -> None:
        """Let time pass."""
        self.run_until(self.now + check_duration(by, name="by", zero=True))

    def run_until(self, moment: datetime) -> None:
        """Let time pass up to a moment; all that is due on the way happens at its time."""
        moment = check_instant(moment, what="run_until")
        if moment < self.now:
            raise InvalidSetting(f"it is {self.now} already, time does not go back to {moment}")
        self.settle()
        while self._plan and self._plan[0].at <= moment:
            self.now = max(self.now, self._plan[0].at)
            while self._plan and self._plan[0].at <= self.now:
                self._happen(heapq.heappop(self._plan))
            self.settle()
        self.now = moment

    def settle(self) -> None:
        """Do all that is due now: checks, then starts."""
        while self._dirty:
            dirty, self._dirty = sorted(self._dirty), set()
            for name in dirty:
                self._check(self._tasks[name])
            self._admit()

    def _happen(self, planned: Planned) -> None:
        match planned.what, planned.about:
            case "change", ParamSet() as change:
                if change.is_rewind and (change.chunks or self.value(change.param) != change.value):
                    self.rewind(change.param, change.value, chunks=change.chunks)
                else:
                    self.set(change.param, change.value, if_greater=True)
            case "check", SimulatedTask() as task:
                self._dirty.add(task.name)
            case "end", SimulatedTask() as task:
                self._end(task)
            case "expect", SimulatedTask() as task:
                self._look_for_success(task)

    # -- the scheduler

    def _check(self, task: SimulatedTask) -> None:
        if task.firing is not None:
            return  # the end looks again
        view = self._view(task)
        decision = decide(task.definition, view, self.now)
        if decision.verdict is not None:
            task.judge(decision.verdict.true, self.now)
        if task.request is not None:
            task.fire("manual", self.now, "asked for by hand", self._captured(task))
        elif isinstance(decision, Fire):
            task.fire("regular", self.now, decision.cause, self._captured(task))
        elif decision.again_at is not None:
            self._at(decision.again_at, "check", task)

    def _admit(self) -> None:
        """Start the ready ones, the most important first, as many as the cap allows."""
        flying = [t for t in self._tasks.values() if t.firing is not None]
        running = sum(t.firing is not None and t.firing.started_at is not None for t in flying)
        ready = [t for t in flying if t.firing is not None and t.firing.started_at is None]
        ready.sort(key=lambda t: (-t.task.settings.priority, t.fired, t.name))
        for task in ready:
            if self._cap is not None and running >= self._cap:
                return
            running += self._start(task)

    def _start(self, task: SimulatedTask) -> bool:
        firing = task.firing
        assert firing is not None
        if firing.kind == "regular" and any(
            self._params.seen(key).rewinds > seen.rewinds for key, seen in firing.captured.items()
        ):
            self._close(task, firing, "void", None)
            return False
        if len(self.timeline.runs) >= self._most_runs:
            raise InvalidSetting(
                f"{self._most_runs} runs and no end, the last of {task.name!r}; does a Delta pace it? "
                "raise most_runs= if this is meant"
            )
        firing.start(self.now)
        if task.take_failure():
            firing.fail("failed, as the simulation was told")
        elif self._calls:
            products = {p.key: self.value(p) for p in task.task.settings.produces}
            since = {key: self._rewinds(task, key) for key in firing.captured}
            call(task, firing, products, since)
        self._at(self.now + self._takes.get(task.name, _MINUTE), "end", task)
        return True

    def _end(self, task: SimulatedTask) -> None:
        firing = task.firing
        assert firing is not None
        error = firing.error or self._bring(firing)
        if error is not None:
            task.failed(firing, self.now)
            self._close(task, firing, "failed", error)
            return
        task.succeeded(firing, self.now)
        self._close(task, firing, "done", None)

    def _bring(self, firing: SimulatedFiring) -> str | None:
        """Set the products; what would go back fails the run, and then nothing is set."""
        for product in firing.products:
            known = self.value(product.param)
            back = compare(known, product.value) == "lower"
            if back and not product.is_rewind and not product.if_greater:
                return str(WentBack(product.param.key, known, product.value))
        for product in firing.products:
            if product.is_rewind:
                self.rewind(product.param, product.value, chunks=map(moment_of, product.chunks))
            else:
                self.set(product.param, product.value, if_greater=True)
        return None

    def _close(
        self, task: SimulatedTask, firing: SimulatedFiring, outcome: str, error: str | None
    ) -> None:
        started = firing.started_at or self.now
        self.timeline.runs.append(
            Ran(
                task.name,
                firing.fired_at,
                started,
                self.now,
                outcome,
                firing.cause,
                firing.kind,
                error,
            )
        )
        task.close(self.now)
        self._dirty.add(task.name)
        if task.retry_at is not None and task.retry_at > self.now:
            self._at(task.retry_at, "check", task)

    # -- expectations (R14)

    def _expect(self, task: SimulatedTask) -> None:
        within = task.task.settings.expect_within
        if within is not None:
            self._at((task.succeeded_at or task.declared_at) + within, "expect", task)

    def _look_for_success(self, task: SimulatedTask) -> None:
        within = task.task.settings.expect_within
        last = task.succeeded_at or task.declared_at
        if within is None:
            return
        if last + within > self.now:
            self._at(last + within, "expect", task)
            return
        if task.miss(last):
            self.timeline.missed.append(Missed(task.name, self.now))
        self._at(self.now + within, "expect", task)

    # -- what is known

    def _view(self, task: SimulatedTask) -> View:
        keys = [param.key for param in task.definition.params]
        current = {key: self._params.current(key) for key in keys}
        return task.view(current, {key: self._rewinds(task, key) for key in keys})

    def _rewinds(self, task: SimulatedTask, key: str) -> list[Rewind]:
        return self._params.rewinds_after(key, task.seen.get(key))

    def _captured(self, task: SimulatedTask) -> dict[str, SeenValue]:
        return {param.key: self._params.seen(param.key) for param in task.definition.params}

    def _chunks(self, task: SimulatedTask, param: AnyParam, chunk: Chunk) -> list[datetime]:
        since = self._rewinds(task, param.key)
        fact = task.fact(param, self.value(param), since)
        return chunks_to_do(chunk, fact, task.seen.get(param.key), since)

    def _at(self, moment: datetime, what: str, about: object) -> None:
        heapq.heappush(self._plan, Planned(moment, next(self._numbers), what, about))
