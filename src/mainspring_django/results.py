"""A call as Django's TaskResult: from its live row, and the runs that history has of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.utils.module_loading import import_string

from mainspring.db.sql import decoded
from mainspring.db.tx import SyncTx
from mainspring.errors import MainspringError
from mainspring.operate.history import PastRun
from mainspring.operate.statements import SQL
from mainspring.operate.visits import LiveVisit
from mainspring_django.api import (
    FAILED,
    READY,
    RUNNING,
    SUCCESSFUL,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)

RUNS_SHOWN = 1000
_NOBODY = UUID(int=0)  # the worker of a call that was called off before it ran


class Wanted(msgspec.Struct, frozen=True):
    """A call of a Django task, as it travels: the arguments of the Mainspring task of its queue."""

    task: str  # the function's path
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    queue_name: str
    priority: int = 0
    run_after: datetime | None = None
    enqueued_at: datetime | None = None  # as its caller was told

    def find_task(self) -> Task[..., object]:
        """The task itself, as it was called."""
        found = import_string(self.task)
        if not isinstance(found, Task):
            raise MainspringError(
                f"{self.task} is a {type(found).__name__}, not a task: was its decorator taken away "
                "while calls of it waited?"
            )
        return found.using(
            priority=self.priority,
            queue_name=self.queue_name,
            run_after=self.run_after,
            backend=self.backend,
        )

    def result(self, id: str, status: TaskResultStatus) -> TaskResult[object]:
        """Its result, of which nothing else is known yet."""
        return TaskResult(
            task=self.find_task(),
            id=id,
            status=status,
            enqueued_at=self.enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=self.args,
            kwargs=self.kwargs,
            backend=self.backend,
            errors=[],
            worker_ids=[],
        )


def find_result(tx: SyncTx, id: UUID, queues: set[str]) -> TaskResult[object] | None:
    """What became of a call of one of these queues. The live row is read first: a call that ends between
    the two looks is then in history."""
    keys = [str(id)]
    live = [
        visit
        for visit in tx.rows(SQL["find_visit"], LiveVisit, keys=keys, queue=None, grp=None)
        if visit.queue in queues
    ]
    asked = dict.fromkeys(SQL["search_key"].names) | {"fields": [], "texts": []}
    found = tx.rows(SQL["search_key"], PastRun, **asked | {"keys": keys, "most": RUNS_SHOWN})
    runs = [run for run in reversed(found) if run.queue in queues and not run.superseded]
    if not live and not runs:
        return None
    visit = live[0] if live else None
    payload = visit.payload if visit is not None else runs[-1].payload
    wanted = msgspec.convert(decoded(payload), Wanted)
    result = wanted.result(str(id), _status(visit, runs))
    _fill(result, visit, runs)
    return result


def _status(visit: LiveVisit | None, runs: Sequence[PastRun]) -> TaskResultStatus:
    if visit is None:
        done = runs[-1].outcome == "done"
        return SUCCESSFUL if done else FAILED
    if visit.state == "parked":
        return FAILED
    return RUNNING if visit.state == "running" else READY


def _fill(result: TaskResult[object], visit: LiveVisit | None, runs: Sequence[PastRun]) -> None:
    """A TaskResult is frozen to its users; backends set its fields so."""
    ran = [run for run in runs if run.worker_id != _NOBODY]
    starts = [run.started_at for run in ran]
    workers = [str(run.worker_id) for run in ran]
    if visit is not None and visit.started_at is not None and visit.holder is not None:
        starts.append(visit.started_at)
        workers.append(str(visit.holder))
    last = runs[-1] if runs else None
    ended = last is not None and (visit is None or visit.state == "parked")
    values: dict[str, object] = {
        "started_at": starts[0] if starts else None,
        "last_attempted_at": starts[-1] if starts else None,
        "finished_at": last.ended_at if last is not None and ended else None,
        "worker_ids": workers,
        "errors": [
            TaskError(exception_class_path=_path(run.error_type), traceback=run.error or "")
            for run in runs
            if run.error_type is not None
        ],
    }
    if result.status is SUCCESSFUL:
        values["_return_value"] = decoded(runs[-1].result)
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _path(error_type: str) -> str:
    return error_type if "." in error_type else f"builtins.{error_type}"
