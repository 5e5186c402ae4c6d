"""The rest of a handler that has suspended, in the run's own context; and whose code is at hand."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator
from typing import Any, cast

from mainspring.kernel.visit import Run

# The run that the code at hand belongs to: known in its context, its threads and its background tasks.
running: contextvars.ContextVar[Run | None] = contextvars.ContextVar(
    "mainspring.running", default=None
)
_SENT: Any = object()


class Suspended:
    """The rest of a handler that has suspended: it goes on in its own context, in its slot's task."""

    __slots__ = ("_coroutine", "_first", "_run")

    def __init__(self, coroutine: Any, run: Callable[..., Any], first: Any) -> None:
        self._coroutine = coroutine
        self._run = run
        self._first = first  # what it waits for

    def __await__(self) -> Generator[Any, Any, Any]:
        return cast("Generator[Any, Any, Any]", self)  # an iterator with send and throw is enough

    def __iter__(self) -> Suspended:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        if self._first is not _SENT:
            first, self._first = self._first, _SENT
            return first
        return self._run(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        self._first = _SENT
        return self._run(self._coroutine.throw, *error)

    def close(self) -> None:
        self._run(self._coroutine.close)
