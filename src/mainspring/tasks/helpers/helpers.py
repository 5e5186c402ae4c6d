"""All helpers of a worker: started ahead, used again, replaced; and the kernel's handler of their tasks.

There are at most so many (`helpers=` of the worker). While all are busy, no visit that needs one is
started here, so a worker that has a free one may run it. A helper is replaced when it has died, was told
to end, ran out of memory, or has had its number of runs (`helper_runs=`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from mainspring.endpoint import Endpoint
from mainspring.errors import HelperDied, RetryAfter
from mainspring.kernel import DONE, Done, Outcome, QueueSettings, Run
from mainspring.loops import to_its_end
from mainspring.tasks.declare.task import Task
from mainspring.tasks.helpers.failure import raised_again
from mainspring.tasks.helpers.helper import HelperProcess, NeverBegan
from mainspring.tasks.helpers.messages import (
    Beat,
    Ended,
    Heard,
    Logged,
    Progressed,
    RunOrder,
    Setup,
)
from mainspring.tasks.helpers.places import MAIN, main_file, module_of, place_of
from mainspring.tasks.hiding import note_of
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import Context
from mainspring.tasks.run.queue import queue_settings

log = logging.getLogger("mainspring")
# A helper that dies before it has begun is no attempt; so many are tried for one.
_TRIES = 3
# Where no process could be started, it is tried again after so long (seconds).
_NO_PROCESS = 5.0
# A run that was told to end has its grace; the kernel waits so much longer (seconds) for the kill.
KILL_SECONDS = 2.0


class HelperRoom(Endpoint):
    """Whether a helper is free, for all queues that need one."""

    def __init__(self, most: int) -> None:
        super().__init__("helpers", _there)
        self._at_once = most

    @property
    def has_room(self) -> bool:
        return self.running < self._at_once


async def _there() -> None:
    """Helpers are never away."""


class Helpers:
    """Used by the worker's event loop, but for `interrupt`."""

    def __init__(self, connections: Connections, most: int | None, *, runs_each: int) -> None:
        self._connections = connections
        self._most = most or os.cpu_count() or 1
        self._runs_each = runs_each
        self.room = HelperRoom(self._most)
        self._numbers = count(1)
        self._tasks: dict[str, Task[..., object]] = {}
        self._idle: list[HelperProcess] = []
        self._all: set[HelperProcess] = set()
        self._running: dict[int, HelperProcess] = {}  # by the token of the run
        self._unwanted: set[int] = set()  # tokens of runs that were told to end
        self._calls: set[asyncio.Task[Ended]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._ahead: asyncio.Task[None] | None = None
        self._closed = False

    # -- their tasks

    def queue(self, task: Task[..., object]) -> QueueSettings:
        """The queue of a task."""
        self._tasks[task.name] = task
        signature, timeout = task.signature, task.settings.timeout

        async def handle(run: Run) -> Outcome:
            context = None
            if signature.context_parameter is not None:
                context = Context(
                    run,
                    signature.encode_result,
                    self._connections,
                    timeout,
                    note_of(signature, run.visit.payload),
                )
            payload = signature.opened(run.visit.payload)  # helpers have no cipher
            result = signature.stored(await self.call(run, task, payload, context))
            return DONE if result is None else Done(result)

        grace = task.settings.grace + KILL_SECONDS
        return replace(queue_settings(task, handle), endpoint=self.room, grace=grace)

    async def call(
        self, run: Run, task: Task[..., object], payload: str, context: Context | None = None
    ) -> str | None:
        """Call the task's function in a helper: arguments and result are JSON. `context`: of the run."""

        def heard(message: Heard) -> None:
            if isinstance(message, Logged):
                _log(message)
            elif context is None:
                return
            elif isinstance(message, Beat):
                context.beat()
            elif isinstance(message, Progressed):
                context.progress(message.done, message.note)

        call = asyncio.get_running_loop().create_task(self._call(run, task, payload, heard))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        # Not before: a run that nobody waits for any longer must not begin either.
        call.add_done_callback(lambda _: self._unwanted.discard(run.token))
        ended = await to_its_end(call, lambda: self._stop(run, task))
        if ended.raised is not None:
            raise raised_again(ended.raised)
        return ended.result

    async def _call(
        self, run: Run, task: Task[..., object], payload: str, heard: Callable[[Heard], None]
    ) -> Ended:
        order = self._order(run, task, payload)
        for _ in range(_TRIES):
            if self._closed:
                raise asyncio.CancelledError
            helper = await self._take()
            self._running[run.token] = helper
            try:
                if self._closed:
                    raise asyncio.CancelledError
                if run.token in self._unwanted:
                    return Ended(order.number)  # before it began; what it comes to is known
                return await helper.carry_out(order, heard)
            except NeverBegan as error:
                death = str(error)
            finally:
                del self._running[run.token]
                self._give_back(helper)
        raise HelperDied(
            f"{_TRIES} processes that were to run it ended before they began, the last one {death}: can "
            f"{module_of(order.place)!r} be imported there?"
        )

    def _order(self, run: Run, task: Task[..., object], payload: str) -> RunOrder:
        visit, settings = run.visit, task.settings
        return RunOrder(
            number=next(self._numbers),
            task=task.name,
            place=place_of(task.name, task.function),
            payload=payload,
            id=str(visit.id),
            key=visit.key,
            group=visit.group,
            attempt=visit.attempt,
            started=run.started,
            timeout=settings.timeout,
            memory_max=settings.memory_max,
            worker=self._connections.worker.worker_id,
            hidden=[] if (redactor := task.signature.redactor) is None else list(redactor.fields),
        )

    # -- ends

    def _stop(self, run: Run, task: Task[..., object]) -> None:
        """A run is told to end: within its grace, or at once if its worker must not have it any more."""
        self._unwanted.add(run.token)  # a helper that dies on its way gets no successor
        if (helper := self._running.get(run.token)) is None:
            return
        if run.stopped in (None, "fenced", "stopping"):
            helper.kill()
            return
        helper.stop(run.stopped)
        loop = asyncio.get_running_loop()
        loop.call_later(task.settings.grace, self._kill, run.token, helper)

    def _kill(self, token: int, helper: HelperProcess) -> None:
        """Its grace is over."""
        if self._running.get(token) is helper:
            helper.kill()

    def interrupt(self, runs: Sequence[Run]) -> None:
        """These runs must end now. From any thread."""
        for run in runs:
            if (helper := self._running.get(run.token)) is not None:
                helper.kill()

    # -- processes

    async def _take(self) -> HelperProcess:
        while self._idle:
            helper = self._idle.pop()
            if helper.lives:
                return helper
            self._let_go(helper)
        return await self._started()

    async def _started(self) -> HelperProcess:
        places = {module_of(place_of(task.name, task.function)) for task in self._tasks.values()}
        setup = Setup(
            parent=os.getpid(),
            path=sys.path,
            main=main_file() if MAIN in places else None,
            modules=sorted(places),
            log_level=logging.getLogger().getEffectiveLevel(),
        )
        try:
            helper = await HelperProcess.started(setup)
        except OSError as error:
            raise RetryAfter(_NO_PROCESS, f"no process could be started for it: {error}") from error
        self._all.add(helper)
        return helper

    def _give_back(self, helper: HelperProcess) -> None:
        is_used_up = helper.spent or helper.runs >= self._runs_each or len(self._all) > self._most
        if helper.lives and not is_used_up and not self._closed:
            self._idle.append(helper)
            return
        self._let_go(helper)
        if not self._closed:
            self._start()  # another one in its place

    def _let_go(self, helper: HelperProcess) -> None:
        self._all.discard(helper)
        leaving = asyncio.get_running_loop().create_task(helper.close())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def start(self, pool: str) -> None:
        """Have helpers ready, if the workers of this pool need any."""
        if any(task.settings.pool == pool for task in self._tasks.values()):
            self._start()

    def _start(self) -> None:
        """Start helpers ahead, one after another, until there are as many as may be."""
        if self._ahead is None or self._ahead.done():
            self._ahead = asyncio.get_running_loop().create_task(self._start_ahead())

    async def _start_ahead(self) -> None:
        while len(self._all) < self._most and not self._closed:
            try:
                helper = await self._started()
            except RetryAfter as error:
                log.warning("helper.not_started", extra={"error": str(error)})
                return
            if not await helper.ready():
                log.warning("helper.died_early", extra={"error": helper.how_it_ended()})
                self._let_go(helper)
                return
            self._give_back(helper)

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        await asyncio.gather(*(helper.close() for helper in self._all), return_exceptions=True)
        await asyncio.gather(*self._calls, return_exceptions=True)
        await asyncio.gather(*self._leaving, return_exceptions=True)  # those of the calls, too


def _log(line: Logged) -> None:
    """Write what a run has logged in its helper."""
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return
    facts = {
        "name": line.logger,
        "levelno": line.level,
        "levelname": logging.getLevelName(line.level),
        "msg": line.text,
        "pathname": line.path,
        "lineno": line.line,
        "funcName": line.function,
        "created": line.created,
        "exc_text": line.exception,
    }
    record = logging.makeLogRecord({**line.facts, **facts})
    logger.handle(record)
