"""The server ends an engine's connection in the middle of a change, at a statement of the test's choice."""

from __future__ import annotations

from typing import Any

import pytest
from process_scene import Scene

from mainspring.db.database import Connection
from mainspring.testing import Clock

_END = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and application_name like 'mainspring:%%'
  and state like 'idle in transaction%%'
"""


def break_at(monkeypatch: pytest.MonkeyPatch, scene: Scene, name: str, *, after: str) -> list[str]:
    """End the connection once, before the statement `name` is sent in steps that have sent `after` (or
    send it now). Answers what was broken so far."""
    broken: list[str] = []
    follow = Connection.follow

    def watched(steps: Any) -> Any:
        seen, answer = False, None
        while True:
            try:
                statement, values = steps.send(answer)
            except StopIteration as end:
                return end.value
            seen = seen or statement.name == after
            if seen and statement.name == name and not broken:
                broken.append(name)
                assert scene.query(_END), "no transaction of an engine is open"
            answer = yield statement, values

    monkeypatch.setattr(Connection, "follow", lambda self, steps: follow(self, watched(steps)))
    return broken


async def run_on(scene: Scene) -> None:
    """Work, and once more when what was tried in vain is due again."""
    await scene.run()
    await Clock(scene.url).advance(60)
    await scene.run()
