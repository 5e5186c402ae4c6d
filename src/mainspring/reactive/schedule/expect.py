"""Missed expectations: a task that says within what time it expects a success is reported (R14)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel import Again, Done, Outcome
from mainspring.reactive.statements import ask

log = logging.getLogger("mainspring")


class Expect:
    """Serves the expect visits of a worker."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, connection: Any, tasks: Sequence[str]) -> list[Outcome]:
        """Look whether the expected successes came; report those that did not, once each."""
        names = sorted(set(tasks))
        rows = {
            row["task"]: row
            for row in await ask(self._database, connection, "miss_expectations", tasks=names)
        }
        outcomes: dict[str, Outcome] = {}
        for name in names:
            row = rows.get(name)
            if row is None:
                outcomes[name] = Done()  # no expectation, paused or retired: offered again then
                continue
            if row["newly_missed"]:
                facts = {"task": name, "expected_by": str(row["due_at"])}
                log.error("reactive.expectation_missed", extra=facts)
            outcomes[name] = Again(at=row["again_at"])
        return [outcomes[task] for task in tasks]
