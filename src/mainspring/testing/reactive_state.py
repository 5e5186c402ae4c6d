"""What a simulation of reactive tasks keeps of each task and firing, and how it calls a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast

import msgspec

from mainspring.kernel import Run
from mainspring.loops import run_apart
from mainspring.reactive.decide.decide import Current, Definition, Rewind, SeenValue, View, fact_of
from mainspring.reactive.decide.evaluate import Fact
from mainspring.reactive.declare.context import ReactiveRun, StartedRun
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.model.chunks import Chunk, check_chunk
from mainspring.reactive.model.values import AnyParam, Product, Value, dump_value


@dataclass(frozen=True, slots=True)
class ParamSet:
    """A param set at a moment: a line of a feed, or of a history to replay."""

    at: datetime
    param: AnyParam
    value: Value
    is_rewind: bool = False
    chunks: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Fires:
    """What a check would start: why, and the chunks that the run would have to do."""

    cause: str
    _chunks: Callable[[AnyParam, Chunk], list[datetime]] = field(repr=False, compare=False)

    def chunks(self, param: AnyParam, chunk: Chunk | str) -> list[str]:
        """The names of the chunks to do, oldest first."""
        size = check_chunk(chunk)
        return [size.show(start) for start in self._chunks(param, size)]


@dataclass(frozen=True, slots=True, order=True)
class Planned:
    """Something that will happen at a moment."""

    at: datetime
    number: int
    what: str = field(compare=False)
    about: object = field(compare=False)


@dataclass(slots=True)
class SimulatedFiring:
    """A task that is queued or running, with the values of its check."""

    kind: str
    fired_at: datetime
    cause: str
    captured: dict[str, SeenValue]
    record: bool
    started_at: datetime | None = None
    error: str | None = None
    products: list[Product] = field(default_factory=list)

    @property
    def state(self) -> str:
        """In words."""
        return "ready, and waits for its turn" if self.started_at is None else "running"

    def start(self, now: datetime) -> None:
        """It runs from now on."""
        self.started_at = now

    def fail(self, error: str) -> None:
        """It has come to this."""
        self.error = error


@dataclass(slots=True)
class SimulatedTask:
    """A reactive task on the fake clock: the fields of its row."""

    task: ReactiveTask
    definition: Definition
    declared_at: datetime
    seen: dict[str, SeenValue] = field(default_factory=dict)
    pending: dict[str, SeenValue | None] = field(default_factory=dict)  # repairs made in flight
    firing: SimulatedFiring | None = None
    request: bool | None = None  # a manual run was asked for: whether to record it
    verdict: bool | None = None
    since: datetime | None = None
    fired_at: datetime | None = None
    ended_at: datetime | None = None
    succeeded_at: datetime | None = None
    retry_at: datetime | None = None
    failures: int = 0
    fail: int = 0
    missed_for: datetime | None = None

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def fired(self) -> datetime:
        """When the firing in flight was made."""
        assert self.firing is not None
        return self.firing.fired_at

    def view(self, current: Mapping[str, Current], rewinds: Mapping[str, list[Rewind]]) -> View:
        """What a check reads."""
        return View(
            current=current,
            seen=self.seen,
            rewinds_since=rewinds,
            retry_at=self.retry_at,
            verdict=self.verdict,
            since=self.since,
            fired_at=self.fired_at,
            succeeded_at=self.succeeded_at,
            ended_at=self.ended_at,
        )

    def fact(self, param: AnyParam, value: Value | None, rewinds: list[Rewind]) -> Fact:
        """What the trigger knows of a param."""
        return fact_of(value, self.seen.get(param.key), rewinds, self.definition.on_rewind)

    def release(self, task: ReactiveTask, definition: Definition) -> None:
        """It is declared anew; what it has seen stays (R12)."""
        self.task, self.definition = task, definition

    def see(self, seen: dict[str, SeenValue]) -> None:
        """It has seen these values, as if by runs of its own."""
        self.seen = {key: value for key, value in seen.items() if value.value is not None}

    def ask(self, *, record: bool) -> None:
        """A manual run is asked for."""
        self.request = record

    def fail_next(self, times: int) -> None:
        """The next runs fail."""
        self.fail += times

    def take_failure(self) -> bool:
        """Whether this run is one of those that fail."""
        fails = self.fail > 0
        self.fail -= fails
        return fails

    def judge(self, verdict: bool, now: datetime) -> None:
        """A check came to this verdict."""
        if verdict != self.verdict:
            self.verdict, self.since = verdict, now

    def fire(self, kind: str, now: datetime, cause: str, captured: dict[str, SeenValue]) -> None:
        """Queue it. A regular firing is recorded, a manual one only if told to."""
        record = kind == "regular" or bool(self.request)
        self.firing = SimulatedFiring(kind, now, cause, captured, record)
        self.request = None
        if kind == "regular":
            self.fired_at = now

    def repair(self, key: str, seen: SeenValue | None) -> None:
        """ParamSet what was seen, also over the values of a firing in flight (R10)."""
        if seen is None:
            self.seen.pop(key, None)
        else:
            self.seen[key] = seen
        if self.firing is not None:
            self.pending[key] = seen

    def record(self, firing: SimulatedFiring) -> None:
        """The values of the check become the last seen ones, as a whole (R10)."""
        self.seen = {k: seen for k, seen in firing.captured.items() if seen.value is not None}
        for key, repaired in self.pending.items():
            if repaired is None:
                self.seen.pop(key, None)
            else:
                self.seen[key] = repaired

    def failed(self, firing: SimulatedFiring, now: datetime) -> None:
        """A run has failed."""
        self.failures += 1
        if firing.kind == "regular":
            self.retry_at = now + self.backoff()

    def succeeded(self, firing: SimulatedFiring, now: datetime) -> None:
        """A run was done."""
        if firing.record:
            self.record(firing)
            self.succeeded_at = now
        self.failures, self.retry_at = 0, None

    def close(self, now: datetime) -> None:
        """Nothing of it is in flight any more."""
        self.firing, self.pending, self.ended_at = None, {}, now

    def miss(self, last: datetime) -> bool:
        """No success came in time after the last; whether that is news."""
        is_new, self.missed_for = self.missed_for != last, last
        return is_new

    def backoff(self) -> timedelta:
        """After so many failures: the whole of what the policy draws from, for the same every time."""
        policy = self.task.settings.backoff
        grown = policy.first * policy.factor ** min(self.failures - 1, 64)
        return timedelta(seconds=min(policy.most, grown))


def call(
    task: SimulatedTask,
    firing: SimulatedFiring,
    products: Mapping[str, Value | None],
    rewinds: Mapping[str, list[Rewind]],
) -> None:
    """Call the task's function with the run that a worker would hand it."""
    run = ReactiveRun(_kernel_run(), task.task, _row(task, firing, products, rewinds))
    arguments = {} if task.task.takes_run is None else {task.task.takes_run: run}
    try:
        answer = task.task.function(**arguments)
        if inspect.isawaitable(answer):
            run_apart(_awaited(answer))
    except Exception as error:
        firing.fail(f"{type(error).__name__}: {error}")
    else:
        firing.products = run.products


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _kernel_run() -> Run:
    """The little of a worker's run that a reactive run looks at."""
    seen = SimpleNamespace(visit=SimpleNamespace(payload='{"firing": "0"}'), stopped=None)
    return cast("Run", seen)


def _row(
    task: SimulatedTask,
    firing: SimulatedFiring,
    products: Mapping[str, Value | None],
    rewinds: Mapping[str, list[Rewind]],
) -> StartedRun:
    """What the start of a run reads."""

    def stored(values: Mapping[str, SeenValue]) -> str:
        raw = {
            k: [dump_value(v.value), v.rewinds] for k, v in values.items() if v.value is not None
        }
        return msgspec.json.encode(raw).decode()

    since = [
        [key, rewind.number, dump_value(rewind.to), [dump_value(chunk) for chunk in rewind.chunks]]
        for key, found in rewinds.items()
        for rewind in found
    ]
    known = {key: dump_value(value) for key, value in products.items() if value is not None}
    return StartedRun(
        task=task.task.name,
        answer="started",
        kind=firing.kind,
        record=True,
        cause=firing.cause,
        captured=stored(firing.captured),
        seen=stored(task.seen),
        base=None,
        failures=task.failures,
        run=0,
        exact=True,
        rewound=False,
        rewinds=msgspec.json.encode(since).decode(),
        products=msgspec.json.encode(known).decode(),
    )
