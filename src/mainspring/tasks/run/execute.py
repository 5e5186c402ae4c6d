"""Running tasks: the kernel's handler of a task, and threads for plain functions."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from mainspring.db.connect.attempt import STARTING
from mainspring.errors import Fenced
from mainspring.hooks.around import NOTHING, RunHooks
from mainspring.hooks.depend import Provider
from mainspring.kernel import DONE, MOST_HANGING, Done, Handler, Outcome, Run
from mainspring.loops import to_its_end
from mainspring.redact import guarded
from mainspring.tasks.declare.task import Task
from mainspring.tasks.hiding import note_of
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import Context, concluded

log = logging.getLogger("mainspring")


class _Stop(BaseException):
    """Raised inside a thread; no `except Exception` of a task keeps it from ending."""


class Executor:
    """Turns tasks into handlers; has the threads that plain functions run in."""

    def __init__(
        self, connections: Connections, *, threads: int, around: RunHooks | None = None
    ) -> None:
        self._connections = connections
        self.around = around  # the application's hooks, if it has any
        # One for each slot, and for each run that hangs beside them.
        self._threads = ThreadPoolExecutor(
            threads + MOST_HANGING, thread_name_prefix="mainspring.task"
        )
        # Run token -> thread, while a stop may be raised in it: each run is stopped once at most.
        self._running: dict[int, int] = {}
        self._gate = threading.Lock()  # to look a thread up and stop it, and to leave

    def handler(self, task: Task[..., object]) -> Handler:
        """What the kernel calls for each visit of the task's queue."""
        function, signature = task.function, task.signature
        decode, decode_in_order = signature.decode, signature.decode_in_order
        encode = signature.encode_result
        context_parameter, needs = signature.context_parameter, signature.needs
        timeout = task.settings.timeout
        connections = self._connections
        is_async, around = inspect.iscoroutinefunction(function), self.around
        redactor = signature.redactor
        hides = redactor is not None or signature.sealing is not None

        async def handle_plain(run: Run) -> Outcome:
            """The short way of most tasks: async, and without a context."""
            result = await function(*decode_in_order(run.visit.payload))
            return DONE if result is None else Done(encode(result))

        async def handle(run: Run) -> Outcome:
            payload = run.visit.payload
            arguments = decode(payload)
            call = function
            if redactor is not None:
                call = guarded(function, redactor, signature.opened(payload))
            context = None
            if context_parameter is not None:
                note = note_of(signature, payload) if hides else None
                context = Context(run, encode, connections, timeout, note)
                arguments[context_parameter] = context
            try:
                if around is not None:
                    result = await self.call(run, call, arguments, needs)
                elif is_async:
                    result = await call(**arguments)
                else:
                    result = await self.call_in_thread(run, call, arguments)
            except Exception as error:
                if run.settled:
                    facts = {"key": run.visit.key, "error_type": type(error).__name__}
                    is_told = signature.sealing is None and redactor is None
                    log.error("task.failed_after_completion", extra=facts, exc_info=is_told)
                    return DONE
                raise
            result = concluded(context, result)
            if run.settled:
                return DONE
            return DONE if result is None else Done(encode(result))

        if (sealing := signature.sealing) is not None:
            return sealing.sealed(handle if around is None else around.reporting(handle))
        if around is not None:
            return around.reporting(handle)
        plain = is_async and signature.in_order and redactor is None
        return handle_plain if plain else handle

    async def call(
        self,
        run: Run,
        function: Callable[..., object],
        arguments: Mapping[str, object],
        needs: Mapping[str, Provider[object]] = NOTHING,
    ) -> object:
        """Call a function for a run: in the loop if it is async, else in a thread; inside of the hooks."""
        if self.around is None:
            return await self._call(run, function, arguments)
        return await self.around.call(run, arguments, partial(self._call, run, function), needs)

    async def _call(
        self, run: Run, function: Callable[..., object], arguments: Mapping[str, object]
    ) -> object:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        return await self.call_in_thread(run, function, dict(arguments))

    async def call_in_thread(
        self, run: Run, function: Callable[..., object], arguments: dict[str, object]
    ) -> object:
        """Run a plain function in a thread, in a context of its own; a stop is raised inside it."""
        context = contextvars.copy_context()

        def call() -> object:
            try:
                try:
                    self._running[run.token] = threading.get_ident()
                    if run.stopped is not None:
                        raise _Stop
                    return context.run(function, **arguments)
                finally:
                    self._leave(run)
            except _Stop:
                self._leave(run)  # it may have come while leaving
                raise Fenced("the run was stopped") from None
            except (StopIteration, GeneratorExit) as error:
                # No future can carry these: the slot would wait for ever. Coroutines do the same.
                raise RuntimeError(f"the task raised {type(error).__name__}") from error

        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        return await to_its_end(future, lambda: self._end_thread(run))

    def _end_thread(self, run: Run) -> None:
        """Interrupt a run that was told to end: at once, or after its grace if it asks whether it was."""
        if run.told is None or run.stopped in ("fenced", "stopping"):
            self.interrupt([run])
        else:
            grace = run.settings.grace or 0.0
            asyncio.get_running_loop().call_later(grace, self.interrupt, [run])

    def interrupt(self, runs: Sequence[Run]) -> None:
        """Raise a stop inside the threads of these runs, once; it comes with the next bytecode."""
        with self._gate:
            for run in runs:
                thread = self._running.pop(run.token, None)
                if thread is not None:
                    with STARTING:  # else it could hit a thread that this one is about to start
                        _raise_in(thread, _Stop)

    def _leave(self, run: Run) -> None:
        """From here on no stop can reach this thread; one that was on its way is called back."""
        with self._gate:
            if self._running.pop(run.token, None) is None:
                _raise_in(threading.get_ident(), None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def by_payload(mark: str, marked: Handler, plain: Handler) -> Handler:
    """A handler of two kinds of visits: those whose payload begins with a mark, and all others."""

    def handle(run: Run) -> Awaitable[Outcome]:
        # No coroutine of ours around either: this is every plain task's way.
        return marked(run) if run.visit.payload.startswith(mark) else plain(run)

    return handle


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise an exception in a thread at its next bytecode, or call back one that is still to come."""
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
