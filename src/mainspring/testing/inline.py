"""Calls that run where they are enqueued, without a database: for unit tests of the code around them.

    with inline(app) as calls:
        await sign_up("ann")  # enqueues send_welcome
    assert calls == [InlineCall("send_welcome", {"to": "ann"}, CallOptions())]

It shows that the right calls are made, with arguments that fit and travel, and what they do. It does not
show anything of the engine: no transaction (neither the caller's nor `ctx.transaction()`), no retry, no
delay, no limit, no key that is taken, no second run at the same time. What a call raises is raised by the
enqueue. Test those with `run_until_idle`. What a task depends on (`Depends`) is made for each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import NamedTuple, NoReturn, TypeVar, cast
from uuid import UUID

from mainspring import clock
from mainspring.app import Mainspring
from mainspring.db.caller import Caller
from mainspring.errors import MainspringError
from mainspring.hooks.depend import Provided, Provider
from mainspring.hooks.told import RunInfo
from mainspring.ids import new_visit
from mainspring.kernel.visit import Run, Visit
from mainspring.loops import run_apart
from mainspring.tasks.declare.handle import CallState, Handle
from mainspring.tasks.declare.options import CallOptions
from mainspring.tasks.declare.progress import HowFar
from mainspring.tasks.declare.task import Call, priority_of
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import Context, Transaction, concluded

R = TypeVar("R")


class InlineCall(NamedTuple):
    """A call that was enqueued, and run."""

    task: str
    arguments: dict[str, object]
    options: CallOptions


class InlineContext(Context):
    """What a task sees of such a run: the first attempt at a new call."""

    @property
    def worker_id(self) -> UUID | None:
        return None

    def transaction(self) -> Transaction:
        _missing("ctx.transaction()")

    def progress(self, done: float, note: str | None = None) -> None:
        """Nobody follows it."""


@contextmanager
def inline(app: Mainspring) -> Iterator[list[InlineCall]]:
    """Run calls of this application's tasks at the enqueue, in the caller; gives the list of them."""
    runner = _Inline()
    names = ("enqueue_call", "enqueue_calls", "enqueue_calls_sync")
    enqueuer = vars(app._enqueuer)
    enqueuer.update({name: getattr(runner, name) for name in names})
    try:
        yield runner.calls
    finally:
        for name in names:
            del enqueuer[name]


class _Inline:
    """Stands in the place of what enqueues, and answers what became of the calls."""

    def __init__(self) -> None:
        self.calls: list[InlineCall] = []
        self._results: dict[str, object] = {}

    async def enqueue_call(self, call: Call[R], on: Caller | None) -> Handle[R]:
        handle, returned, context = self._begun(call)
        if inspect.isawaitable(returned):
            returned = await returned
        return self._ended(call, handle, context, returned)

    async def enqueue_calls(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        return [await self.enqueue_call(call, on) for call in list(calls)]

    def enqueue_calls_sync(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        found = []
        for call in list(calls):
            handle, returned, context = self._begun(call)
            if inspect.iscoroutine(returned):
                returned = run_apart(returned)
            found.append(self._ended(call, handle, context, returned))
        return found

    def _begun(self, call: Call[R]) -> tuple[Handle[R], object, Context | None]:
        task = call.task
        if task.settings.remote:
            raise MainspringError(
                f"task {task.name!r} is run by an actor elsewhere, so inline has nothing to call"
            )
        id, version = new_visit()
        options = call.options
        payload = call.payload.decode()
        arguments = task.signature.decode(payload)
        self.calls.append(InlineCall(task.name, dict(arguments), options))
        visit = Visit(
            0, options.key or id, task.name, UUID(id), options.group, priority_of(task, options),
            0.0, version, 0, 0, options.expires_at, payload,
        )  # fmt: skip
        run = Run(visit, token=version, started=clock.local(), began=clock.local())
        info = RunInfo(run, dict(arguments))
        context: Context | None = None
        if (parameter := task.signature.context_parameter) is not None:
            encode = task.signature.encode_result
            context = InlineContext(run, encode, cast("Connections", None), None)
            arguments[parameter] = context
        handle: Handle[R] = Handle(task.name, options.key or id, id, "new", self)
        if needs := task.signature.needs:
            return handle, _provided(task.function, arguments, needs, info), context
        return handle, task.function(**arguments), context

    def _ended(
        self, call: Call[R], handle: Handle[R], context: Context | None, returned: object
    ) -> Handle[R]:
        signature = call.task.signature
        result = signature.encode_result(concluded(context, returned))
        self._results[handle.id] = signature.decode_result(result)
        return handle

    # -- of handles

    def look_up_sync(self, handle: Handle[object]) -> CallState:
        return CallState("done", self._results[handle.id], None)

    async def look_up(self, handle: Handle[object]) -> CallState:
        return self.look_up_sync(handle)

    def cancel_sync(self, handle: Handle[object], reason: str | None, on: Caller | None) -> str:
        return "done"

    async def cancel(self, handle: Handle[object], reason: str | None, on: Caller | None) -> str:
        return "done"

    def run_now_sync(self, handle: Handle[object], on: Caller | None) -> str:
        return "done"

    async def run_now(self, handle: Handle[object], on: Caller | None) -> str:
        return "done"

    def how_far_sync(self, handle: Handle[object]) -> HowFar:
        return HowFar("done", None)

    async def how_far(self, handle: Handle[object]) -> HowFar:
        return HowFar("done", None)


async def _provided(
    function: Callable[..., object],
    arguments: Mapping[str, object],
    needs: Mapping[str, Provider[object]],
    info: RunInfo,
) -> object:
    """Call a function with what it needs, which is ended after it."""
    async with AsyncExitStack() as stack:
        returned = function(**arguments, **await Provided(()).values(needs, info, stack))
        return await returned if inspect.isawaitable(returned) else returned


def _missing(what: str) -> NoReturn:
    raise MainspringError(
        f"{what} needs the engine, which inline leaves out; test this task with run_until_idle"
    )
