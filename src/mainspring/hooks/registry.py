"""What an application declares of hooks: `app.hooks`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING, Never, TypeAlias, TypeVar, cast

from mainspring.errors import InvalidSetting
from mainspring.hooks.counters import RunCounters
from mainspring.hooks.enqueueing import Enqueueing
from mainspring.hooks.told import FailedRun, RunInfo
from mainspring.phrases import nearest

AnyBlock: TypeAlias = AbstractContextManager[object] | AbstractAsyncContextManager[object]
AroundRun: TypeAlias = Callable[[RunInfo], AnyBlock]
AroundEnqueue: TypeAlias = Callable[[Enqueueing], AbstractContextManager[object]]
OnFailure: TypeAlias = Callable[[FailedRun], Awaitable[object] | object]
OnWorker: TypeAlias = Callable[[], Awaitable[object] | object]
_PLACES = {  # and what a hook there is given
    "around_run": "a RunInfo",
    "around_enqueue": "an Enqueueing",
    "failure": "a FailedRun",
    "worker_start": "",
    "worker_stop": "",
}
_NOT_ONCE = "generator didn't "  # contextlib's words, which name nobody
H = TypeVar("H", bound=Callable[..., object])


class Hooks:
    """What is done around calls and runs. Each method is a decorator; hooks are called in their order.

    Example:

        @app.hooks.around_run
        async def timed(run: RunInfo) -> AsyncIterator[None]:
            began = time.monotonic()
            yield
            log.info("%s took %s", run.task, time.monotonic() - began)
    """

    def __init__(self) -> None:
        self.runs: list[AroundRun] = []
        self.calls: list[AroundEnqueue] = []
        self.failures: list[OnFailure] = []
        self.starts: list[OnWorker] = []
        self.stops: list[OnWorker] = []
        self.counters: RunCounters | None = None

    if not TYPE_CHECKING:  # else a checker would take any attribute

        def __getattr__(self, name: str) -> Never:
            there = nearest(name, _PLACES) or f"; there are {', '.join(_PLACES)}"
            raise AttributeError(f"app.hooks has no {name!r}{there}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<Hooks: {len(self.runs)} around runs, {len(self.calls)} around calls>"

    def take_in(self, others: Hooks) -> None:
        """Those of a part of the application, after its own."""
        self.runs += others.runs
        self.calls += others.calls
        self.failures += others.failures
        self.starts += others.starts
        self.stops += others.stops

    @property
    def concern_runs(self) -> bool:
        """Whether runs have anything around them."""
        return bool(self.runs or self.failures)

    def around_run(self, hook: H) -> H:
        """RunHooks each run of a function: the code before `yield`, the run, the code after it.

        A generator, async or plain, or what makes a context manager. It is given a `RunInfo`. The run's
        exception is raised at the `yield`; what the hook raises is a failure of the run.
        """
        self.runs.append(cast("AroundRun", _as_block(hook, "around_run")))
        return hook

    def around_enqueue(self, hook: H) -> H:
        """RunHooks each enqueueing in Python: before it, and after it when it has come about.

        A plain generator, or what makes a plain context manager: callers may be async or not. It is given
        an `Enqueueing`. In your own transaction (`on=`) what follows `yield` is before your commit.
        """
        if inspect.isasyncgenfunction(hook):
            raise InvalidSetting(
                f"{_named(hook)} is async, and enqueue_sync has no event loop for it: an around_enqueue "
                "hook is a plain generator"
            )
        self.calls.append(cast("AroundEnqueue", _as_block(hook, "around_enqueue")))
        return hook

    def failure(self, hook: H) -> H:
        """At each failure of a run, with the exception itself; async or plain. Given a `FailedRun`.

        What it raises is logged, and changes nothing.
        """
        self.failures.append(_checked(hook, "failure"))
        return hook

    def worker_start(self, hook: H) -> H:
        """In each worker process, before it takes work; async or plain. A worker whose hook fails ends."""
        self.starts.append(_checked(hook, "worker_start"))
        return hook

    def worker_stop(self, hook: H) -> H:
        """In each worker process, when its runs have ended; async or plain. The last goes first."""
        self.stops.append(_checked(hook, "worker_stop"))
        return hook

    def count_runs(self, counters: RunCounters | None = None) -> RunCounters:
        """Count the runs of workers in this process from now on: what is given, or new counters.

        Call it before the worker starts; `counters.render()` is OpenMetrics text.
        """
        self.counters = counters or self.counters or RunCounters()
        return self.counters

    @contextmanager
    def enqueueing(self, enqueueing: Enqueueing) -> Iterator[None]:
        """The block in which calls are enqueued."""
        with ExitStack() as stack:
            for around in self.calls:
                stack.push(yields_once(around, "around_enqueue"))
                stack.enter_context(around(enqueueing))
            yield


def yields_once(
    hook: Callable[..., object], where: str
) -> Callable[[object, BaseException | None, object], None]:
    """What an exit stack asks last: a generator that yields twice, or never, is named."""

    def named(_: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, RuntimeError) and str(error).startswith(_NOT_ONCE):
            raise InvalidSetting(
                f"{_named(hook)} must yield exactly once, where the run or the call comes "
                f"(app.hooks.{where}): {error}"
            ) from error

    return named


def _named(hook: Callable[..., object]) -> str:
    return f"the hook {getattr(hook, '__qualname__', hook)!r}"


def _checked(hook: H, where: str) -> H:
    if not callable(hook):
        raise InvalidSetting(f"app.hooks.{where} takes a function, got {hook!r}")
    if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        raise InvalidSetting(
            f"{_named(hook)} has a yield, and app.hooks.{where} is no block around something: "
            "write a function"
        )
    _check_given(hook, where)
    return hook


def _check_given(hook: Callable[..., object], where: str) -> None:
    """Refuse a hook that cannot take what it will be given."""
    given = _PLACES[where]
    try:
        inspect.signature(hook).bind(*([given] if given else []))
    except TypeError:
        what = f"is given {given} and nothing else" if given else "is given nothing"
        raise InvalidSetting(
            f"{_named(hook)} cannot be called: a hook of app.hooks.{where} {what}"
        ) from None
    except ValueError:  # a function in C, which does not say what it takes
        return


def _as_block(hook: Callable[..., object], where: str) -> Callable[..., object]:
    """What makes a context manager of what the hook is given."""
    if not callable(hook):
        raise InvalidSetting(f"app.hooks.{where} takes a generator function, got {hook!r}")
    _check_given(hook, where)
    if inspect.isasyncgenfunction(hook):
        made: Callable[..., AsyncIterator[object]] = hook
        return asynccontextmanager(made)
    if inspect.isgeneratorfunction(hook):
        plain: Callable[..., Iterator[object]] = hook
        return contextmanager(plain)
    if inspect.iscoroutinefunction(hook):
        raise InvalidSetting(
            f"{_named(hook)} has no yield, at which the run or the call comes: app.hooks.{where} takes a "
            "generator function"
        )
    return hook
