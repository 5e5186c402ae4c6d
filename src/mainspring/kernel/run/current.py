"""The run that the code at hand belongs to: known in its context, its threads and its background tasks."""

from __future__ import annotations

from contextvars import ContextVar

from mainspring.kernel.visit import Run

running: ContextVar[Run | None] = ContextVar("mainspring.running", default=None)
