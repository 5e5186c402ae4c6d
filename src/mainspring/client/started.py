"""An async function that was called up to where it first suspends: most that are short never do."""

from __future__ import annotations

import contextvars
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Started(Generic[T]):
    """The rest of it, to be awaited: it goes on in a context of its own. `result`, if it has ended."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._run = contextvars.copy_context().run
        self.has_ended = False
        self.result: T | None = None
        try:
            self._waits_for: Any = self._run(coroutine.send, None)
        except StopIteration as end:
            self.has_ended, self.result = True, end.value

    def __await__(self) -> Generator[Any, Any, T]:
        """What is sent and thrown here reaches it."""
        step: Any = self._waits_for
        while True:
            try:
                try:
                    sent = yield step
                except GeneratorExit:
                    self._run(self._coroutine.close)
                    raise
                except BaseException as error:
                    step = self._run(self._coroutine.throw, error)
                else:
                    step = self._run(self._coroutine.send, sent)
            except StopIteration as end:
                result: T = end.value
                return result
