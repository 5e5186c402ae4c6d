"""What `@app.task(when=...)` makes: a function that runs when the state of data says so."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Protocol

import msgspec

from mainspring.errors import InvalidSetting, InvalidTask
from mainspring.reactive.model import codec
from mainspring.reactive.model.gates import NO_GATES, Gates, dump_gates
from mainspring.reactive.model.triggers import Trigger, check_trigger, params_of
from mainspring.reactive.model.values import AnyParam, Param
from mainspring.retry_policy import RetryPolicy

FIRST_RUNS = ("now", "baseline")
ON_REWINDS = ("report", "rerun", "hold")
# A failed run is followed by a fresh check after this: the first second brings what a retry would.
BACKOFF = RetryPolicy(attempts=1_000_000, first=1.0, most=600.0)


@dataclass(frozen=True, slots=True)
class ReactiveSettings:
    """A reactive task as it is declared."""

    name: str
    when: Trigger
    pool: str = "default"
    priority: int = 5
    produces: tuple[AnyParam, ...] = ()
    gates: Gates = NO_GATES
    expect_within: timedelta | None = None
    first_run: str = "now"
    on_rewind: str = "report"
    was: tuple[str, ...] = ()
    timeout: float | None = None
    backoff: RetryPolicy = BACKOFF

    def __post_init__(self) -> None:
        _check_name(self.name)
        check_trigger(self.when)
        for name, value, known in (
            ("first_run", self.first_run, FIRST_RUNS),
            ("on_rewind", self.on_rewind, ON_REWINDS),
        ):
            if value not in known:
                raise InvalidSetting(
                    f"{name} of task {self.name!r} must be one of {', '.join(map(repr, known))}, "
                    f"got {value!r}"
                )
        if self.expect_within is not None and (
            not isinstance(self.expect_within, timedelta) or self.expect_within <= timedelta()
        ):
            raise InvalidSetting(
                f"expect_within of task {self.name!r} must be a timedelta above zero, "
                f"got {self.expect_within!r}"
            )
        for product in self.produces:
            if not isinstance(product, Param):
                raise InvalidSetting(
                    f"produces of task {self.name!r} must name params, made with "
                    f"app.data(...).param(...); got {product!r}"
                )


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > 200 or not name.isprintable():
        raise InvalidSetting(
            f"a task's name must have 1 to 200 bytes and be printable, got {name!r}"
        )


class Asker(Protocol):
    """What a task asks of the application it belongs to."""

    async def run_reactive(self, task: str, *, record: bool, by: str | None) -> None: ...


class ReactiveTask:
    """A function that runs when its trigger says so.

    Calling it runs the function here and now, with whatever it is given. `await task.request()` asks
    for a manual run by a worker.
    """

    def __init__(
        self, function: Callable[..., object], settings: ReactiveSettings, asker: Asker
    ) -> None:
        self.function = function
        self.settings = settings
        self.takes_run = _takes_run(settings.name, function)
        self._asker = asker
        self.__doc__ = function.__doc__
        self.__name__ = settings.name
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<reactive task {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function itself, as if it were no task."""
        return self.function(*args, **kwargs)

    async def request(self, *, record: bool = False, by: str | None = None) -> None:
        """Ask for a manual run, whatever the trigger says; `record`: its values count as seen."""
        await self._asker.run_reactive(self.name, record=record, by=by)

    @property
    def name(self) -> str:
        """The task's name."""
        return self.settings.name

    @cached_property
    def params(self) -> tuple[AnyParam, ...]:
        """The params of its trigger."""
        return tuple(params_of(self.settings.when))

    @cached_property
    def needs(self) -> str:
        """The names of these, as a JSON array."""
        return _json([param.key for param in self.params])

    @cached_property
    def tree(self) -> str:
        """Its trigger as JSON."""
        return _json(codec.dump(self.settings.when))

    @cached_property
    def options(self) -> str:
        """What else decides with the trigger, as JSON."""
        s = self.settings
        return _json({"gates": dump_gates(s.gates), "on_rewind": s.on_rewind})

    @cached_property
    def fingerprint(self) -> str:
        """Of its trigger and options: what a check needs to know."""
        return _digest(self.tree, self.options)

    @cached_property
    def declared(self) -> str:
        """Of all that the code says of it."""
        s = self.settings
        expect = None if s.expect_within is None else s.expect_within.total_seconds()
        products = sorted(p.key for p in s.produces)
        return _digest(self.fingerprint, _json([s.pool, s.priority, products, expect]))


def _takes_run(name: str, function: Callable[..., object]) -> str | None:
    """The parameter that gets the run; a reactive task takes nothing else."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"task {name!r} is a generator, whose values nobody would take")
    wanted = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if len(wanted) > 1 or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in wanted):
        raise InvalidTask(
            f"task {name!r} is started by its trigger, so it takes one argument at most, its run; "
            f"it has {', '.join(p.name for p in wanted)}"
        )
    return wanted[0].name if wanted else None


def release_fingerprint(tasks: Iterable[ReactiveTask]) -> str:
    """Of a set of declarations: what makes two processes carry the same release."""
    return _digest(*(f"{t.name}={t.declared}" for t in sorted(tasks, key=lambda t: t.name)))


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
