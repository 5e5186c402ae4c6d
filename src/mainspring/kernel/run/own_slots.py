"""Slots of queues' own: one task a run, which its handler may keep in mind. The queue says how many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainspring.kernel.visit import Run


class OwnSlots:
    """Of one worker. `execute` executes a run in a slot; `freed` is told once a turn of the event loop that
    a queue has one again, and `unbegun` of a run that was stopped before its slot had its first step."""

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
        self._tells: asyncio.Handle | None = None

    def _tell(self) -> None:
        self._tells = None
        self._freed()

    def start(self, run: Run) -> None:
        """Execute a run in a slot of its own."""
        has_begun = False

        async def execute() -> None:
            nonlocal has_begun
            has_begun = True
            await self._execute(run, slot)
            if not self._tells:
                self._tells = asyncio.get_running_loop().call_soon(self._tell)

        def ended(slot: asyncio.Task[None]) -> None:
            self.tasks.discard(slot)
            if not (has_begun or run.hangs):
                self._unbegun(run)

        slot = asyncio.get_running_loop().create_task(execute(), name="mainspring.own_slot")
        run.enter(slot)
        self.tasks.add(slot)
        slot.add_done_callback(ended)
