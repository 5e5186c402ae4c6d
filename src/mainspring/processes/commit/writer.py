"""The writer of decisions: what the settler calls to commit the changes of many runs with their settles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mainspring.kernel import KERNEL_SQL, Run, Verdict, WorkerPort, settle_arguments
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.commit import Commit
from mainspring.processes.steps import run_steps


class Decisions:
    """The writer of changes: they and the settles of their runs are one transaction."""

    overlaps = True  # they lock in one order: as well two lines of a worker as two workers
    stands = False

    def __init__(
        self,
        shard_count: int,
        most: int,
        committed: Callable[[Commit], None],
        worker: WorkerPort,
    ) -> None:
        self.most = most
        self._worker = worker
        self._shard_count = shard_count
        self._committed = committed
        # The batch that is being committed on a connection; one that breaks takes its batch along.
        self._open: WeakKeyDictionary[Any, Commit] = WeakKeyDictionary()

    async def write(self, connection: Any, runs: Sequence[Run]) -> Sequence[Verdict]:
        changes = [_change_of(run) for run in runs]
        settle, worker_id = None, self._worker.worker_id
        if worker_id is not None and all(change.is_plain for change in changes):
            values = settle_arguments(runs, worker_id)
            settle = dict(zip(KERNEL_SQL["settle"].names, values, strict=True))
        commit = self._open[connection] = Commit(
            changes,
            self._shard_count,
            runs=runs,
            serves=self._worker.serves,
            settle=settle,
            worker_id=worker_id,
        )
        try:
            await run_steps(connection, commit.steps())
        except BaseException:
            for run, change in zip(runs, changes, strict=True):
                change.doubted = True
                run.note = change
            raise
        await _count(connection, runs, commit)
        return commit.verdicts

    def committed(self, connection: Any) -> None:
        """Told by the settler."""
        self._committed(self._open.pop(connection))


def _change_of(run: Run) -> TaskChange:
    """What the run noted; a wide one is made only now."""
    note = run.note
    return note if isinstance(note, TaskChange) else note()


async def _count(connection: Any, runs: Sequence[Run], commit: Commit) -> None:
    """Results that came too late to count, and what else the changes say."""
    counted = []
    for run, change, verdict in zip(runs, commit.changes, commit.verdicts, strict=True):
        name = "late_result" if verdict == "gone" else change.counts if verdict is None else None
        if name is not None:
            counted.append((run.visit.queue, name))
    if counted:
        count = KERNEL_SQL["count"]
        values = {"actors": [a for a, _ in counted], "names": [n for _, n in counted]}
        await connection.fetch(count.numbered, *count.arguments(values))
