"""What `app.worker(...)` takes."""

from __future__ import annotations

from typing import TypedDict
from uuid import UUID


class WorkerOptions(TypedDict, total=False):
    """What `WorkerSettings` takes, for checkers of `app.worker(...)`."""

    pool: str
    concurrency: int
    lease: float
    poll: float
    grace: float
    page: int
    connections: int
    helpers: int | None
    helper_runs: int
    fence: str
    history_days: int
    worker_id: UUID | None
    exit_mark: int | None
