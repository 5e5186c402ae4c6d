"""Hooks as a layer of the worker: its start and its stop, and the runs of stages.

Functions of tasks, steps and reactive tasks are called by the executor of tasks, which has the hooks around
each of them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection
from dataclasses import replace

from mainspring.hooks.around import RunHooks
from mainspring.hooks.depend import Provided, Provider
from mainspring.hooks.registry import Hooks, OnWorker
from mainspring.kernel import Layer, Outcome, QueueSettings, Run

log = logging.getLogger("mainspring")


class HookLayer(Layer):
    """The hooks of an application in one worker. The layer of tasks is one."""

    def __init__(self, hooks: Hooks, needed: Collection[Provider[object]]) -> None:
        """`needed`: what functions depend on."""
        self._hooks = hooks
        self._provided = Provided(needed)
        concerns = hooks.concern_runs or needed
        self.around = RunHooks(hooks, self._provided) if concerns else None
        self._started = False

    def wrap(self, queue: QueueSettings) -> QueueSettings:
        """A stage with the hooks around it. (A task has them inside of its handler.)"""
        return self.around_all(queue) if queue.kind == "stage" else queue

    def around_all(self, queue: QueueSettings) -> QueueSettings:
        """The same queue; the hooks are around its whole handler."""
        if (around := self.around) is None:
            return queue

        async def call(run: Run) -> Outcome:
            outcome = await around.call(run, {}, lambda _: queue.handler(run))
            if outcome is None:
                raise RuntimeError("a hook around the run took the exception of a stage")
            return outcome

        return replace(queue, handler=around.reporting(call))

    async def open(self) -> None:
        if self._started:  # it is called again while the database is away
            return
        self._started = True
        for hook in self._hooks.starts:
            try:
                await _called(hook)
            except Exception as error:
                raise RuntimeError(  # whatever it was, it was not our database
                    f"the worker_start hook {hook.__qualname__!r} failed: {type(error).__name__}: {error}"
                ) from error
        try:
            await self._provided.open()
        except Exception as error:
            raise RuntimeError(
                f"what runs depend on could not be made: {type(error).__name__}: {error}"
            ) from error

    async def close(self) -> None:
        if not self._started:
            return
        try:
            await self._provided.close()
        except Exception:
            log.exception("dependency.not_ended")
        for hook in reversed(self._hooks.stops):
            try:
                await _called(hook)
            except Exception:
                log.exception("hook.failed", extra={"hook": getattr(hook, "__qualname__", "")})


async def _called(hook: OnWorker) -> None:
    answer = hook()
    if inspect.isawaitable(answer):
        await answer
