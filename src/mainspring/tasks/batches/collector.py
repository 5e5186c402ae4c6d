"""Collects the runs of a batch task, calls its function for them, and gives each its own end.

To the kernel each item is a run like any other, so attempts, results, holds, cancels and history are those
of its call. The runs have slots of their own: as many as two batches, one that runs and one that collects.
A function that raises is called again for halves of its items, down to the one that is bad: that one fails,
with its own exception, and no other loses an attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from mainspring.errors import InvalidTask, RetryAfter
from mainspring.kernel import DONE, Done, Outcome, QueueSettings, Run
from mainspring.loops import to_its_end
from mainspring.tasks.declare.batch import ITEM, BatchFunction
from mainspring.tasks.declare.task import Task
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import Context, concluded
from mainspring.tasks.run.queue import queue_settings

# Without `wait`: a batch begins when no further item has come for so long, and after so long at most.
_QUIET, _LONGEST = 0.002, 0.05


class Item(NamedTuple):
    """A run that waits for its part of a batch."""

    context: Context
    value: object
    end: asyncio.Future[object]


class Collector:
    """Of one task in one worker."""

    def __init__(
        self, batch: BatchFunction, task: Task[..., object], connections: Connections
    ) -> None:
        self._batch = batch
        self._task = task
        self._connections = connections
        self._waiting: list[Item] = []
        self._since = 0.0  # the first of them
        self._look: asyncio.TimerHandle | None = None
        self._items: Sequence[Item] = ()  # of the batch that runs
        self._running: asyncio.Task[None] | None = None
        self._threads: ThreadPoolExecutor | None = None

    def queue(self) -> QueueSettings:
        """The task's queue."""
        return replace(queue_settings(self._task, self._handle), slots=2 * self._batch.size)

    async def _handle(self, run: Run) -> Outcome:
        signature = self._task.signature
        value = signature.decode(run.visit.payload)[ITEM]
        loop = asyncio.get_running_loop()
        timeout = self._task.settings.timeout
        context = Context(
            run, signature.encode_result, self._connections, timeout, signature.sealing
        )
        item = Item(context, value, loop.create_future())
        if not self._waiting:
            self._since = loop.time()
        self._waiting.append(item)
        self._begin_soon()
        try:
            result = concluded(context, await item.end)
        except asyncio.CancelledError:
            self._cancel_if_unwanted()
            raise
        if run.settled:
            return DONE
        return DONE if result is None else Done(signature.encode_result(result))

    # -- when

    def _begin_soon(self) -> None:
        """Begin if there are enough, else look again."""
        if self._running is not None or not self._waiting:
            return
        if len(self._waiting) >= self._batch.size:
            self._begin()
        elif self._look is None:
            self._look_again(len(self._waiting))

    def _look_again(self, count: int) -> None:
        wait = self._batch.wait
        loop = asyncio.get_running_loop()
        after = _QUIET if wait is None else max(0.0, self._since + wait - loop.time())
        self._look = loop.call_later(after, self._looked, count)

    def _looked(self, count: int) -> None:
        """Begin if nothing has come since, or it is time."""
        self._look = None
        if self._running is not None or not self._waiting:
            return
        is_late = asyncio.get_running_loop().time() >= self._since + _LONGEST
        if self._batch.wait is not None or is_late or len(self._waiting) == count:
            self._begin()
        else:
            self._look_again(len(self._waiting))

    def _begin(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
        size = self._batch.size
        self._items, self._waiting = self._waiting[:size], self._waiting[size:]
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        # It is no run's own: each has a context of its own, and this one none of them.
        self._running = loop.create_task(self._run(self._items), context=contextvars.Context())

    async def _run(self, items: Sequence[Item]) -> None:
        try:
            await self._call(items)
        finally:
            _fail(items, RuntimeError("it was cancelled"))  # those that have no end yet
            self._items, self._running = (), None
            self._begin_soon()

    def _cancel_if_unwanted(self) -> None:
        """An item was told to end. The function goes on for the others, if there are any."""
        if self._running is not None and all(item.end.done() for item in self._items):
            self._running.cancel()

    # -- what

    async def _call(self, items: Sequence[Item]) -> None:
        """Call the function for those that still want it."""
        items = [item for item in items if not item.end.done()]
        if not items:
            return
        try:
            results = self._batch.results(await self._called(items), len(items))
        except (RetryAfter, InvalidTask) as error:  # says nothing of a single item
            _fail(items, error)
        except Exception as error:
            if len(items) == 1:
                _fail(items, error)
                return
            half = len(items) // 2
            await self._call(items[:half])
            await self._call(items[half:])
        except asyncio.CancelledError:
            raise  # _run gives all that are open their end
        except BaseException as error:
            _fail(items, error)
        else:
            for item, result in zip(items, results, strict=True):
                if isinstance(result, BaseException):
                    _fail([item], result)
                elif not item.end.done():
                    item.end.set_result(result)

    async def _called(self, items: Sequence[Item]) -> object:
        batch = self._batch
        given: list[object] = [[item.value for item in items]]
        if batch.contexts is not None:
            given.append([item.context for item in items])
        if batch.is_async:
            returned = batch.function(*given)
            assert inspect.isawaitable(returned)
            return await returned
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="mainspring.batch")
        future = asyncio.get_running_loop().run_in_executor(self._threads, batch.function, *given)
        return await to_its_end(future)

    async def close(self) -> None:
        """When the worker has stopped."""
        if self._look is not None:
            self._look.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.sleep(0)
            self._running.cancel()  # a thread is waited for once, and not twice
            await asyncio.gather(self._running, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _fail(items: Sequence[Item], error: BaseException) -> None:
    """These have failed; no future can carry a StopIteration."""
    if isinstance(error, StopIteration | GeneratorExit):
        error = RuntimeError(f"the task raised {type(error).__name__}")
    for item in items:
        if not item.end.done():
            item.end.set_exception(error)
