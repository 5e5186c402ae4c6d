"""The line of answers by itself: nobody waits in it whom nobody looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mainspring.processes.commit.commit import BATCH
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote.answer_line import AnswerLine, GivenAnswer
from mainspring.processes.remote.places import RowPlaces
from mainspring.processes.remote.settling import SettledAs, Settling
from mainspring.processes.remote.ticket import Ticket

TICKET = Ticket("charge", 0, "", "task", "id", 1, 2, 3.0, 0, None)
ANSWER = Settling(TICKET, Decision(), UUID(int=0))


class HeldLine(AnswerLine):
    """Commits nothing; its two commits end in one turn of the event loop."""

    def __init__(self, settled: Any) -> None:
        super().__init__(None, dict, settled, RowPlaces())  # type: ignore[arg-type]  # the database is not asked
        self.begun = 0
        self.both = asyncio.Event()

    async def _once(self, given: Sequence[GivenAnswer]) -> dict[int, SettledAs]:
        self.begun += 1
        if self.begun == 2:
            self.both.set()
        await self.both.wait()
        return dict.fromkeys(range(len(given)), "accepted")


async def test_an_answer_that_comes_just_as_both_commits_end_is_taken() -> None:
    """P4: else it would wait until the next one comes, or its caller's patience ends."""
    later: list[asyncio.Task[list[SettledAs]]] = []

    def settled(_: Sequence[str]) -> None:
        if not later:  # its first step comes before anything that the end of a task sets off
            later.append(asyncio.create_task(line.settle([ANSWER])))

    line = HeldLine(settled)
    first = asyncio.create_task(line.settle([ANSWER] * BATCH))
    await asyncio.sleep(0)
    second = asyncio.create_task(line.settle([ANSWER] * BATCH))

    async with asyncio.timeout(10):
        assert {*await first, *await second} == {"accepted"}
        assert await later[0] == ["accepted"]
    await line.close()
