"""The seam between tasks and processes: who records a call instead of running it.

While a decider runs, its recorder is here; a task called meanwhile gives the call to it and answers
its promise. Everywhere else a task is a plain function. Tasks know nothing more of processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from mainspring.tasks.declare.promise import Promise
    from mainspring.tasks.declare.task import Task

R = TypeVar("R")


class Records(Protocol):
    """What takes calls of tasks while a decider runs."""

    def call(
        self, task: Task[..., R], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Promise[R]: ...

    def map(
        self,
        task: Task[..., R],
        items: Iterable[object],
        named: dict[str, object],
        *,
        window: int | None,
    ) -> Promise[list[R]]: ...


recorder: ContextVar[Records | None] = ContextVar("mainspring.recorder", default=None)
