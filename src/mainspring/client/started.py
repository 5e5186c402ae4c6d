"""An async function that was called up to where it first suspends: most that are short never do."""

from __future__ import annotations

import contextvars
from collections.abc import Coroutine, Generator


class StartedCall:
    """The rest of it, to be awaited: it goes on in a context of its own. `result`, if it has ended."""

    def __init__(self, coroutine: Coroutine[object, object, object]) -> None:
        self._coroutine = coroutine
        self._run = contextvars.copy_context().run
        self.has_ended = False
        self.result: object = None
        try:
            self._waits_for: object = self._run(coroutine.send, None)
        except StopIteration as end:
            self.has_ended, self.result = True, end.value

    def __await__(self) -> Generator[object, object, object]:
        """What is sent and thrown here reaches it."""
        step: object = self._waits_for
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
                return end.value
