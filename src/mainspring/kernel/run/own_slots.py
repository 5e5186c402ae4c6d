"""Slots of queues that have slots of their own: one task for each run, from its start on.

So a handler may keep its task in mind. How many there are at once, the queue says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainspring.kernel.visit import Run


class OwnSlots:
    """Of one worker. `execute` executes a run in a slot; `freed` is told when a queue has one again, and
    `unbegun` of a run that was stopped before its slot had its first step."""

    def __init__(
        self,
        execute: Callable[[Run, asyncio.Task[None]], Awaitable[object]],
        freed: Callable[[], None],
        unbegun: Callable[[Run], None],
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._execute = execute
        self._freed = freed
        self._unbegun = unbegun

    def start(self, run: Run) -> None:
        """Execute a run in a slot of its own."""

        has_begun = False

        async def execute() -> None:
            nonlocal has_begun
            has_begun = True
            await self._execute(run, slot)
            self._freed()

        def ended(slot: asyncio.Task[None]) -> None:
            self.tasks.discard(slot)
            if not (has_begun or run.hangs):
                self._unbegun(run)

        slot = asyncio.get_running_loop().create_task(execute(), name="mainspring.own_slot")
        run.enter(slot)
        self.tasks.add(slot)
        slot.add_done_callback(ended)
