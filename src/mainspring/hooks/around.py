"""The hooks of one worker: around each call of a function for a run, and at its failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType
from typing import TypeVar

from mainspring.failure_text import below
from mainspring.hooks.depend import Provided, Provider
from mainspring.hooks.registry import AnyBlock, Hooks, yields_once
from mainspring.hooks.told import FailedRun, RunInfo
from mainspring.kernel import Handler, Outcome, Parked, Postponed, Run, outcome_of_error

log = logging.getLogger("mainspring")
T = TypeVar("T")
NOTHING: Mapping[str, Provider[object]] = MappingProxyType({})


class RunHooks:
    """What is done around runs."""

    def __init__(self, hooks: Hooks, provided: Provided) -> None:
        self._hooks = hooks
        self._provided = provided
        self._reports = bool(hooks.failures)

    async def call(
        self,
        run: Run,
        arguments: Mapping[str, object],
        call: Callable[[Mapping[str, object]], Awaitable[T]],
        needs: Mapping[str, Provider[object]] = NOTHING,
    ) -> T | None:
        """Call a function for a run, inside of the hooks, with its arguments and what it needs."""
        result = None  # as it stays when a hook takes the exception
        async with AsyncExitStack() as stack:
            info = RunInfo(run, arguments)
            for around in self._hooks.runs:
                stack.push(yields_once(around, "around_run"))
                await enter(stack, around(info))
            if needs:
                arguments = {**arguments, **await self._provided.values(needs, info, stack)}
            result = await call(arguments)
            info.returned(result)
        return result

    def reporting(self, handle: Callable[[Run], Awaitable[Outcome]]) -> Handler:
        """The same handler; its failures are reported."""
        if not self._reports:
            return handle

        async def handle_reporting(run: Run) -> Outcome:
            return await self.reported(run, handle(run))

        return handle_reporting

    async def reported(self, run: Run, running: Awaitable[T]) -> T:
        """What it comes to; a failure is reported before it goes on its way."""
        try:
            return await running
        except BaseException as caught:
            error = caught
        if self._reports:  # outside of `except`: what a hook raises is not led to by this
            await self._report(run, error)
        raise error

    async def _report(self, run: Run, error: BaseException) -> None:
        if (failed := failure_of(run, error)) is None:
            return
        for hook in self._hooks.failures:
            try:
                answer = hook(failed)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                facts = {
                    "hook": getattr(hook, "__qualname__", repr(hook)),
                    "queue": failed.run.task,
                }
                log.exception("hook.failed", extra=facts)


async def enter(stack: AsyncExitStack, block: AnyBlock) -> object:
    """Enter a block, async or plain, until the stack is left."""
    if isinstance(block, AbstractAsyncContextManager):
        return await stack.enter_async_context(block)
    return stack.enter_context(block)


def failure_of(run: Run, error: BaseException) -> FailedRun | None:
    """What is told of an exception; None where it is no failure: a stop, or a wish to come again."""
    if run.settled:
        return None
    if run.stopped == "timeout":
        late = TimeoutError(f"ran longer than its timeout of {run.settings.timeout:g} s")
        late.__cause__ = error
        error = late
    elif isinstance(error, asyncio.CancelledError) and run.stopped is None:
        return None  # its worker stops
    outcome = outcome_of_error(run, error)
    if outcome is None or isinstance(outcome, Postponed) or run.stopped == "cancelled":
        return None
    error.with_traceback(below(error.__traceback__))  # from the user's own code on
    return FailedRun(RunInfo(run), error, isinstance(outcome, Parked))
