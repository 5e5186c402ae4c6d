"""Collects the runs of a batch task, calls its function for them, and gives each its own end.

To the kernel each item is a run like any other, so attempts, results, holds, cancels and history are those
of its call. The runs have slots of their own: as many as two batches, one that runs and one that collects.
A function that raises is called again for halves of its items, down to the one that is bad: that one fails,
with its own exception, and no other loses an attempt.

A timeout is that of a batch: it begins with it, so no item's time passes while it waits for another one.
A function that is stopped has its grace; then the next batch begins beside it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mainspring import clock
from mainspring.errors import InvalidTask, RetryAfter
from mainspring.failure_text import scrub_with
from mainspring.ids import token
from mainspring.kernel import DONE, Done, Outcome, QueueSettings, Run
from mainspring.redact import guarded
from mainspring.tasks.declare.batch import ITEM, BatchFunction
from mainspring.tasks.declare.task import Task
from mainspring.tasks.hiding import note_of
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import Context, concluded
from mainspring.tasks.run.execute import Executor
from mainspring.tasks.run.queue import queue_settings

# Without `wait`: a batch begins when no further item has come for so long, and after so long at most.
_QUIET, _LONGEST = 0.002, 0.05


@dataclass(eq=False)
class Item:
    """A run that waits for its part of a batch."""

    run: Run
    value: object
    end: asyncio.Future[object]
    context: Context | None = None  # from the begin of its batch on


@dataclass(eq=False)
class Begun:
    """A batch that has begun. Its function has a run of its own, which is stopped as any other."""

    items: Sequence[Item]
    run: Run
    task: asyncio.Task[None] | None = None
    alarm: asyncio.TimerHandle | None = None
    interrupted: bool = False

    def is_stopped(self) -> bool:
        return self.interrupted or self.run.stopped is not None

    def is_wanted(self, without: Sequence[Run] = ()) -> bool:
        """By any of its items, but for those of these runs."""
        lost = {run.token for run in without}
        return any(not (item.end.done() or item.run.token in lost) for item in self.items)


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
        self._begun: Begun | None = None
        self._left: set[asyncio.Task[None]] = set()  # stopped, and not ended within their grace
        self._executor = Executor(connections, threads=1)

    def queue(self) -> QueueSettings:
        """The task's queue."""
        queue = queue_settings(self._task, self._handle)
        return replace(queue, slots=2 * self._batch.size, timeout=None)

    async def _handle(self, run: Run) -> Outcome:
        signature = self._task.signature
        value = signature.decode(run.visit.payload)[ITEM]
        loop = asyncio.get_running_loop()
        item = Item(run, value, loop.create_future())
        if not self._waiting:
            self._since = loop.time()
        self._waiting.append(item)
        self._begin_soon()
        try:
            result = concluded(item.context, await item.end)
        except asyncio.CancelledError:
            begun = self._begun
            if begun is not None and item in begun.items and not begun.is_wanted():
                self._stop(begun, run.stopped or "stopping")
            raise
        if run.settled:
            return DONE
        return DONE if result is None else Done(signature.encode_result(result))

    def _context(self, run: Run) -> Context:
        """Of an item whose batch begins now."""
        signature, timeout = self._task.signature, self._task.settings.timeout
        if timeout is not None:
            timeout += clock.local() - run.began
        encode = signature.encode_result
        return Context(
            run, encode, self._connections, timeout, note_of(signature, run.visit.payload)
        )

    # -- when

    def _begin_soon(self) -> None:
        """Begin if there are enough, else look again."""
        if self._begun is not None or not self._waiting:
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
        if self._begun is not None or not self._waiting:
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
        items, self._waiting = self._waiting[:size], self._waiting[size:]
        for item in items:
            item.context = self._context(item.run)
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        first = items[0].run
        begun = Begun(
            items, Run(first.visit, token(), first.started, first.began, settings=first.settings)
        )
        # It is no run's own: each has a context of its own, and this one none of them.
        begun.task = loop.create_task(self._run(begun), context=contextvars.Context())
        begun.run.enter(begun.task)
        if (timeout := self._task.settings.timeout) is not None:
            begun.alarm = loop.call_later(timeout, self._stop, begun, "timeout")
        self._begun = begun

    async def _run(self, begun: Begun) -> None:
        try:
            await self._call(begun, begun.items)
        finally:
            self._over(begun)

    # -- ends

    def _stop(self, begun: Begun, why: str) -> None:
        """Its time is over, or no item wants it any more. One that asks is given its grace."""
        if begun.run.stopped is not None:
            return
        for item in begun.items:
            if item.run.told is not None:
                begun.run.listen()
                item.run.told.set()
        begun.run.stop(why)
        asyncio.get_running_loop().call_later(self._task.settings.grace, self._let_go, begun)

    def _let_go(self, begun: Begun) -> None:
        """Its grace is over: others do not wait for it."""
        if begun.task is not None and not begun.task.done():
            self._left.add(begun.task)
            begun.task.add_done_callback(self._left.discard)
            self._over(begun)

    def _over(self, begun: Begun) -> None:
        """Items that have no end get one, and the next batch may begin."""
        if begun.alarm is not None:
            begun.alarm.cancel()
        error: Exception = RuntimeError("it was cancelled")
        if begun.run.stopped == "timeout":
            error = TimeoutError(
                f"ran longer than its timeout of {self._task.settings.timeout:g} s"
            )
        _fail(begun.items, error)
        if self._begun is begun:
            self._begun = None
            self._begin_soon()

    def interrupt(self, runs: Sequence[Run]) -> None:
        """These runs must end now: so must a plain function that has no other items. From any thread."""
        begun = self._begun
        if begun is not None and not begun.is_wanted(without=runs):
            begun.interrupted = True
            self._executor.interrupt([begun.run])

    # -- what

    async def _call(self, begun: Begun, items: Sequence[Item]) -> None:
        """Call the function for those that still want it."""
        items = [item for item in items if not item.end.done()]
        if not items or begun.is_stopped():
            return
        try:
            results = self._batch.results(await self._called(begun, items), len(items))
        except asyncio.CancelledError:
            raise  # all that are open are given their end
        except Exception as error:
            if begun.is_stopped():
                return
            if len(items) == 1 or isinstance(error, RetryAfter | InvalidTask):
                _fail(items, error)  # the latter say nothing of a single item
                return
            half = len(items) // 2
            await self._call(begun, items[:half])
            await self._call(begun, items[half:])
        except BaseException as error:
            _fail(items, error)
        else:
            for item, result in zip(items, results, strict=True):
                if isinstance(result, BaseException):
                    self._hide(result, item)
                    _fail([item], result)
                elif not item.end.done():
                    item.end.set_result(result)

    async def _called(self, begun: Begun, items: Sequence[Item]) -> object:
        batch = self._batch
        given: list[object] = [[item.value for item in items]]
        if batch.contexts is not None:
            given.append([item.context for item in items])
        redactor = self._task.signature.redactor
        if redactor is not None:  # what one item raises may tell of its neighbours
            payloads = [self._task.signature.opened(item.run.visit.payload) for item in items]
            function = partial(guarded(batch.function, redactor, *payloads), *given)
        else:
            function = partial(batch.function, *given)
        if not batch.is_async:
            return await self._executor.call_in_thread(begun.run, function, {})
        returned = function()
        assert inspect.isawaitable(returned)
        return await returned

    def _hide(self, error: BaseException, item: Item) -> None:
        """A failure that was returned, and not raised, tells no more."""
        signature = self._task.signature
        if (redactor := signature.redactor) is not None:
            payload = signature.opened(item.run.visit.payload)
            scrub_with(error, redactor.scrubber_of(payload))

    async def close(self) -> None:
        """When the worker has stopped."""
        if self._look is not None:
            self._look.cancel()
        if self._begun is not None and (task := self._begun.task) is not None:
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # a thread is waited for once, and not twice
            await asyncio.gather(task, return_exceptions=True)
        for task in self._left:
            task.cancel()
        self._executor.close()


def _fail(items: Sequence[Item], error: BaseException) -> None:
    """These have failed; no future can carry a StopIteration."""
    if isinstance(error, StopIteration | GeneratorExit):
        error = RuntimeError(f"the task raised {type(error).__name__}")
    for item in items:
        if not item.end.done():
            item.end.set_exception(error)
