"""The writer of decisions: what the settler calls to commit the changes of many runs with their settles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainspring.kernel.outcome import Verdict
from mainspring.kernel.store import SQL as KERNEL_SQL
from mainspring.kernel.visit import Run
from mainspring.processes.commit import Commit
from mainspring.processes.drive import drive
from mainspring.processes.visits import Serves


class Decisions:
    """The writer of changes: they and the settles of their runs are one transaction."""

    stands = False

    def __init__(
        self,
        shard_count: int,
        most: int,
        committed: Callable[[Commit], None],
        serves: Serves,
    ) -> None:
        self.most = most
        self._serves = serves
        self._shard_count = shard_count
        self._committed = committed
        self._last: Commit | None = None  # the batch that is being committed

    async def write(self, connection: Any, runs: Sequence[Run]) -> Sequence[Verdict]:
        commit = self._last = Commit(
            [run.note for run in runs], self._shard_count, serves=self._serves
        )
        await drive(connection, commit.steps())
        await _count(connection, runs, commit.verdicts)
        return commit.verdicts

    def committed(self) -> None:
        """Told by the settler."""
        if self._last is not None:
            self._committed(self._last)
            self._last = None


async def _count(connection: Any, runs: Sequence[Run], verdicts: Sequence[Verdict]) -> None:
    """Results that came too late to count, and what else the changes say."""
    counted = []
    for run, verdict in zip(runs, verdicts, strict=True):
        name = "late_result" if verdict == "gone" else run.note.counts if verdict is None else None
        if name is not None:
            counted.append((run.visit.queue, name))
    if counted:
        count = KERNEL_SQL["count"]
        values = {"actors": [a for a, _ in counted], "names": [n for _, n in counted]}
        await connection.fetch(count.numbered, *count.arguments(values))
