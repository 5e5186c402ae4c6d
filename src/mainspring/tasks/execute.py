"""Running tasks: the kernel's handler of a task, and threads for plain functions."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import inspect
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mainspring.errors import Fenced
from mainspring.kernel.config import Handler
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.visit import Run
from mainspring.tasks.connections import Connections
from mainspring.tasks.context import Context
from mainspring.tasks.task import Task

log = logging.getLogger("mainspring")


class Executor:
    """Turns tasks into handlers; has the threads that plain functions run in."""

    def __init__(self, connections: Connections, *, threads: int) -> None:
        self._connections = connections
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="mainspring.task")
        self._running: dict[int, int] = {}  # run token -> thread

    def handler(self, task: Task[Any, Any]) -> Handler:
        """What the kernel calls for each visit of the task's queue."""
        function, signature = task.function, task.signature
        decode, encode = signature.decode, signature.encode_result
        context_parameter = signature.context_parameter
        timeout = task.settings.timeout
        connections = self._connections
        is_async = inspect.iscoroutinefunction(function)

        async def handle(run: Run) -> Outcome:
            arguments = decode(run.visit.payload)
            if context_parameter is not None:
                arguments[context_parameter] = Context(run, encode, connections, timeout)
            try:
                if is_async:
                    result = await function(**arguments)
                else:
                    result = await self._in_thread(run, function, arguments)
            except Exception:
                if run.settled:
                    log.exception("task.failed_after_completion", extra={"key": run.visit.key})
                    return run.outcome  # type: ignore[no-any-return]
                raise
            if run.settled:
                return run.outcome  # type: ignore[no-any-return]
            return Done(None if result is None else encode(result))

        return handle

    async def _in_thread(
        self, run: Run, function: Callable[..., Any], arguments: dict[str, Any]
    ) -> Any:
        """Run a plain function in a thread, in a context of its own; a stop is raised inside it."""
        context = contextvars.copy_context()

        def call() -> Any:
            self._running[run.token] = threading.get_ident()
            try:
                if run.stopped is not None:
                    raise Fenced("the run was stopped before it began")
                return context.run(function, **arguments)
            except (StopIteration, GeneratorExit) as error:
                # No future can carry these: the slot would wait for ever. Coroutines do the same.
                raise RuntimeError(f"the task raised {type(error).__name__}") from error
            finally:
                del self._running[run.token]

        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.interrupt([run])
            # The slot is free only when the thread is: a run that goes on still counts.
            await _ended(future)
            raise

    def interrupt(self, runs: Sequence[Run]) -> None:
        """Raise Fenced inside the threads of these runs; it comes with their next bytecode."""
        for run in runs:
            thread = self._running.get(run.token)
            if thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(Fenced)
                )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _ended(future: asyncio.Future[Any]) -> None:
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            return
