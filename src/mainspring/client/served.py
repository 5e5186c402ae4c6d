"""A function that serves an actor, and a task that it is called with."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial

from mainspring.client import actors
from mainspring.client.messages import from_json
from mainspring.v1 import actor_service_pb2 as v1


@dataclass(eq=False, slots=True)
class AtWork:
    """A task that was pulled."""

    task: v1.PulledTask
    beat_every: float
    slot: asyncio.Task[None] | None = None  # that runs it just now

    def begin(self, slot: asyncio.Task[None]) -> None:
        """It is run here."""
        self.slot = slot

    def end(self) -> None:
        self.slot = None

    def stop(self) -> bool:
        """Whether it ran, and is told to end."""
        return self.slot is not None and self.slot.cancel()


class Served:
    """A function that serves an actor."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._takes_task = "task" in inspect.signature(function).parameters
        self.is_async = inspect.iscoroutinefunction(function)

    def call(self, task: v1.PulledTask) -> Callable[[], object]:
        """It with the arguments of a task."""
        args = from_json(task.args_json)
        if self._takes_task:
            args["task"] = actors.pulled_task(task)
        return partial(self._function, **args)


def running(called: object) -> Coroutine[object, object, object]:
    """What an async function gives when it is called."""
    assert inspect.iscoroutine(called)
    return called
