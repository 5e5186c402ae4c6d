"""What was offered while it ran is run again at once, not at the next sweep."""

from __future__ import annotations

from datetime import timedelta

from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, working


async def test_what_was_offered_while_it_ran_is_read_again_at_once(
    visits: Visits, database_url: str
) -> None:
    """T6: its visit is behind the cursor, and nobody tells of it a second time."""
    gate = Gate()
    visits.offer("a")
    visits.change("a", due_at=visits.now() - timedelta(hours=1))  # no look back goes so far
    async with working(database_url, queue(handler=gate), poll=60.0, lease=60.0) as worker:
        cursor = worker.reader.intake.levels["ring"][5]
        await wait_until(lambda: len(gate.runs) == 1)
        visits.offer("a")
        await wait_until(lambda: not cursor.more and cursor.position > gate.runs[0].visit.position)

        gate.open.set()
        await wait_until(lambda: len(gate.runs) == 2)
        await wait_until(lambda: visits.row("a") is None)
