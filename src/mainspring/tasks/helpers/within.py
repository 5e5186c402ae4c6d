"""A run as it is seen from within a helper: its context, how it is told to end, how much memory it has."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from mainspring.errors import MainspringError
from mainspring.kernel import Run, Visit
from mainspring.tasks.helpers.messages import Beat, Heard, Progressed, RunOrder
from mainspring.tasks.run.context import Context, Transaction
from mainspring.tasks.run.progress import check_progress

# Wakes a plain function that has never asked whether it is told to end.
INTERRUPT = getattr(signal, "SIGUSR1", signal.SIGINT)


_SAY_EVERY = 0.1  # seconds


class Interrupted(BaseException):
    """Raised inside a plain function that is told to end; no `except Exception` keeps it from ending."""


class HelperRun:
    """One order while it is carried out. Its slot is itself: to cancel it wakes the user's code."""

    def __init__(self, order: RunOrder) -> None:
        self.order = order
        self.interrupted = False
        self._asked = False  # before it was told to end
        self._thread = threading.main_thread().ident
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._gate = threading.Lock()
        visit = Visit(
            shard=0,
            key=order.key,
            queue=order.task,
            id=UUID(order.id),
            group=order.group,
            priority=0,
            due=0.0,
            version=0,
            attempt=order.attempt,
            crashes=0,
            expires_at=None,
            payload=order.payload,
        )
        self.run = Run(visit, 0, order.started, 0.0, slot=self)

    def stop(self, why: str) -> None:
        """Tell it to end. One that has asked is given its grace, which its worker measures."""
        with self._gate:
            self._asked = self.run.told is not None
            self.run.stop(why)

    def cancel(self) -> None:
        """Wake the user's code."""
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it was closed
                self._loop.call_soon_threadsafe(self._task.cancel)
        elif not self._asked:
            self.interrupted = True
            if hasattr(signal, "pthread_kill") and self._thread is not None:
                signal.pthread_kill(self._thread, INTERRUPT)
            else:
                signal.raise_signal(INTERRUPT)

    def entered(self) -> None:
        """The coroutine at hand is the user's."""
        with self._gate:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self.run.stopped is not None:
                self.cancel()

    def left(self) -> None:
        """The coroutine has ended. What still runs is woken as plain code is."""
        with self._gate:
            self._loop = self._task = None


class HelperContext(Context):
    """The context of a run in a helper: what it says goes to the worker."""

    def __init__(
        self,
        run: Run,
        encode: Callable[[object], str | None],
        order: RunOrder,
        tell: Callable[[Heard], None],
    ) -> None:
        # Not its base's: a run here has no connections.
        self._run = run
        self._encode = encode
        self._timeout = order.timeout
        self._result: object = None
        self._tell = tell
        self._last_word: Progressed | None = None
        self._said_at = 0.0
        self._worker_id = order.worker
        self._number = order.number

    @property
    def worker_id(self) -> UUID | None:
        return self._worker_id

    def beat(self) -> None:
        self._tell(Beat(self._number))

    def progress(self, done: float, note: str | None = None) -> None:
        check_progress(done, note)
        self._last_word = Progressed(self._number, float(done), note)
        now = time.monotonic()
        if now - self._said_at >= _SAY_EVERY:
            self._said_at = now
            self.say_last_word()

    def say_last_word(self) -> None:
        """How far the run is; at its end, too."""
        word, self._last_word = self._last_word, None
        if word is not None:
            self._tell(word)

    def transaction(self) -> Transaction:
        raise MainspringError(
            f'ctx.transaction() of task {self.task!r} is not to be had with executor="process", whose runs '
            "have no connection of the worker's: open one of your own, or let a task without it do the SQL"
        )


@contextmanager
def memory_at_most(most: int | None) -> Iterator[None]:
    """What the helper may have in all. More is a MemoryError, where the system can say no (Linux)."""
    if most is None or sys.platform != "linux":
        yield
        return
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    except MemoryError as error:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
        text = f"more than its memory_max of {most} bytes"
        raise MemoryError(text).with_traceback(error.__traceback__) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
