"""Settling one run apart from the settler: its change and its visit, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from uuid import UUID

from mainspring.kernel import KERNEL_SQL, Done, Outcome, Run, clock, in_order, settle_arguments
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.commit import Commit
from mainspring.processes.steps import Step


def settle_steps(
    run: Run, outcome: Outcome, worker_id: UUID | None = None
) -> Generator[Step, list[Any], str]:
    """Write a run's outcome to its visit; answers as settle.sql does, but "before" where this run was
    settled earlier: perhaps by somebody else, so its outcome need not be this one."""
    run.outcome = outcome
    run.seconds = max(0.0, clock.local() - run.began)
    values = settle_arguments([run], worker_id)
    run.outcome = None
    settle = KERNEL_SQL["settle"]
    rows = yield settle, dict(zip(settle.names, values, strict=True))
    answer = in_order(rows, 1)[0]
    return "before" if answer == "settled" and len(rows) > 1 else answer


def change_steps(
    run: Run, change: TaskChange, shard_count: int, worker_id: UUID | None = None
) -> Generator[Step, list[Any], str]:
    """Commit what a run changes and settle it: "settled", or why nothing was written."""
    commit = Commit([change], shard_count, runs=[run], waiting=True)
    yield from commit.steps()
    verdict = commit.verdicts[0]
    if isinstance(verdict, str):
        return "before" if verdict == "settled" else verdict
    return (yield from settle_steps(run, Done() if verdict is None else verdict, worker_id))
