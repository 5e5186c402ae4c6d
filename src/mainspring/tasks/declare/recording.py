"""The seam between tasks and processes: who records a call instead of running it.

While a decider runs, its recorder is here; a task called meanwhile gives the call to it and answers
its promise. Everywhere else a task is a plain function. Tasks know nothing more of processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mainspring.tasks.declare.promise import Promise
    from mainspring.tasks.declare.task import Task


class Records(Protocol):
    """What takes calls of tasks while a decider runs."""

    def call(
        self, task: Task[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Promise[Any]: ...

    def map(
        self,
        task: Task[Any, Any],
        items: Iterable[Any],
        named: dict[str, Any],
        *,
        window: int | None,
    ) -> Promise[list[Any]]: ...


recorder: ContextVar[Records | None] = ContextVar("mainspring.recorder", default=None)
