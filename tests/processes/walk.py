"""Decision commits walked by hand, statement by statement, so that two of them can meet anywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import psycopg
from process_scene import Scene

from mainspring.ids import token
from mainspring.kernel.outcome import Done
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.settle.batches import in_order, settle_arguments
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.visit import Run, Visit
from mainspring.processes.commit.change import change_of
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.task_input import StoredTask, read_values, task_input_of
from mainspring.processes.record.decision import Decision
from mainspring.processes.statements import SQL

_VISIT = """
select shard, key, queue, id, grp, priority, date_part('epoch', due_at), version, attempt, crashes,
  expires_at, payload::text
from mainspring.visit where key = %s
"""


async def _never(run: Run) -> Any:
    raise AssertionError("a walked run is not handled")


def take(scene: Scene, task: str) -> Run:
    """A run of a task's visit, as a worker would begin it."""
    [row] = scene.query(_VISIT, task)
    visit = Visit(*row)
    settings = QueueSettings(name=visit.queue, handler=_never, any_pass=True)
    return Run(visit, token(), time.time(), time.monotonic(), settings=settings)


def decided(scene: Scene, task: str, decision: Decision) -> Run:
    """A run of a task that is handed out now, with what it decided."""
    run = take(scene, task)
    [(process,)] = scene.query("select process_id::text from mainspring.task where id = %s", task)
    with psycopg.connect(scene.url) as connection:
        rows = connection.execute(SQL["read_tasks"].text, read_values([(process, task)])).fetchall()
    run.change, run.outcome = change_of(task_input_of(StoredTask(*rows[0])), decision), Done()
    return run


def _settle_values(runs: Sequence[Run]) -> dict[str, Any]:
    values = settle_arguments(runs, UUID(int=1))
    return dict(zip(KERNEL_SQL["settle"].names, values, strict=True))


class Walk:
    """One transaction that commits changes. `upto` stops before the statement of that name."""

    def __init__(
        self,
        scene: Scene,
        runs: Sequence[Run],
        isolation: Any = None,
        *,
        settles: bool = False,  # first, as the settler does with plain successes
    ) -> None:
        self.connection = psycopg.connect(scene.url, options="-c lock_timeout=20s")
        if isolation is not None:
            self.connection.isolation_level = isolation
        settle = _settle_values(runs) if settles else None
        changes = [run.change for run in runs]
        self.commit = Commit(changes, scene.database.shard_count, runs=runs, settle=settle)
        self._runs = runs
        self._steps = self.commit.steps()
        self._next: Any = next(self._steps)

    def upto(self, name: str) -> Walk:
        """Send statements until the next one is called so."""
        while self._next is not None and self._next[0].name != name:
            self._send()
        assert self._next is not None, f"the commit sends no {name}"
        return self

    def after(self, name: str) -> Walk:
        """Send statements, the one that is called so included."""
        self.upto(name)
        self._send()
        return self

    def in_background(self) -> Future[None]:
        """Go on to the end in a thread: the caller holds a lock that it will wait for."""
        future: Future[None] = Future()

        def work() -> None:
            try:
                self.finish()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        threading.Thread(target=work, daemon=True).start()
        return future

    def waits(self, scene: Scene, timeout: float = 10.0) -> None:
        """Wait until this transaction waits for a lock of another."""
        deadline = time.monotonic() + timeout
        pid = self.connection.info.backend_pid
        while not scene.query("select 1 from pg_locks where pid = %s and not granted", pid):
            assert time.monotonic() < deadline, "it waits for nobody"
            time.sleep(0.002)

    def finish(self) -> None:
        """Send the rest, settle what is to be settled, commit."""
        try:
            while self._next is not None:
                self._send()
            self._settle()
            self.connection.commit()
        finally:
            self.connection.close()

    def abandon(self) -> None:
        self.connection.rollback()
        self.connection.close()

    def _send(self) -> None:
        statement, values = self._next
        cursor = self.connection.execute(statement.text, values)
        rows = cursor.fetchall() if cursor.description else []
        try:
            self._next = self._steps.send(rows)
        except StopIteration:
            self._next = None

    def _settle(self) -> None:
        runs = []
        for run, verdict in zip(self._runs, self.commit.verdicts, strict=True):
            if isinstance(verdict, str):
                continue
            run.outcome = Done() if verdict is None else verdict
            runs.append(run)
        if runs:
            runs.sort(key=lambda r: (r.visit.shard, r.visit.key, r.visit.queue))
            cursor = self.connection.execute(KERNEL_SQL["settle"].text, _settle_values(runs))
            assert set(in_order(cursor.fetchall(), len(runs))) <= {"settled"}


def settle(scene: Scene, task: str, decision: Decision) -> Commit:
    """Commit one decision alone, at once."""
    walk = Walk(scene, [decided(scene, task, decision)])
    walk.finish()
    return walk.commit
