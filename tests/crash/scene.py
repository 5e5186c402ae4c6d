"""A scene of the crash tests: a database, worker processes on it, and what must hold at the end."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import crash_app
import psycopg

from mainspring import Handle, testing
from warm import WorkerProcess

HERE = Path(__file__).parent
LEASE = 1.0
# Whoever is suspended amid a transaction has its locks, its own worker's row perhaps, until the server ends
# it after 30 seconds.
BURIED = 40.0
SETTINGS: dict[str, Any] = {"lease": LEASE, "poll": 0.1, "grace": 5.0}

_ENDED = "select count(*) from mainspring.visit where parked_at is null"
_OURS = """
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""


class Start(NamedTuple):
    """A line of the starts that the tasks note."""

    task: str
    n: int
    pid: int
    at: float


class Scene:
    """Use it as a context manager: at its end every process is killed."""

    place = "crash_app:app"  # what its workers serve
    process: type[testing.WorkerProcess] = WorkerProcess

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.app = crash_app.make(url)
        self.handles: list[Handle[Any]] = []
        self._stack = ExitStack()
        self._count = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._free = threading.Lock()

    def __enter__(self) -> Self:
        self.sql("create table if not exists effect (n integer not null)")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        self.app.close_sync()
        if self._connection:
            self._connection.close()
        for log in sorted(self.folder.glob("worker-*")):
            print(
                f"-- {log.name}\n{log.read_text()[-5000:]}"
            )  # pytest shows it of a test that failed

    # -- processes

    def worker(
        self,
        *,
        die_at: str | None = None,
        gate: str | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> WorkerProcess:
        """Start a worker process; with a gate it joins only when that is opened."""
        self._count += 1
        output = self._stack.enter_context((self.folder / f"worker-{self._count}").open("wb"))
        extra = {"CRASH_FOLDER": str(self.folder), **(environment or {})}
        if gate is not None:
            extra["CRASH_GATE"] = gate
        return self._stack.enter_context(
            self.process(
                self.place,
                self.url,
                die_at=die_at,
                path=HERE,
                output=output,
                environment=extra,
                **{**SETTINGS, **settings},
            )
        )

    def open(self, gate: str) -> None:
        """Let the workers behind a gate join."""
        (self.folder / gate).touch()

    def joined(self, *workers: WorkerProcess) -> None:
        """Wait until these have shards."""
        pids = [worker.process.pid for worker in workers]
        self.wait(lambda: set(pids) <= self.shards().keys(), "all workers have shards")

    def shards(self) -> dict[int, int]:
        """How many shards each process has."""
        rows = self.sql(
            "select w.process, count(*) from mainspring.worker w"
            " join mainspring.lease l on l.worker_id = w.id group by 1"
        )
        return {process: count for process, count in rows}

    def worker_ids(self) -> set[Any]:
        return {row[0] for row in self.sql("select id from mainspring.worker")}

    def backends(self, role: str = "") -> list[int]:
        """The server's processes that serve our workers (or one of their roles)."""
        query = f"select pid {_OURS} and starts_with(application_name, %s)"
        return [row[0] for row in self.sql(query, f"mainspring:{role}")]

    # -- work

    def enqueue(self, task: str, numbers: range, **arguments: Any) -> None:
        """Enqueue calls of a task, and remember that each must be done once."""
        calls = ({"n": n, **arguments} for n in numbers)
        self.handles += self.app.tasks[task].enqueue_many_sync(calls)

    def starts(self, task: str | None = None) -> list[Start]:
        """What was started so far, in order."""
        try:
            lines = (self.folder / "starts").read_text().splitlines()
        except FileNotFoundError:
            return []
        found = [Start(t, int(n), int(p), float(at)) for t, n, p, at in map(str.split, lines)]
        return [start for start in found if task in (None, start.task)]

    def sql(self, query: str, *values: Any) -> list[Any]:
        if not self._free.acquire(blocking=False):  # another thread is within a statement
            with psycopg.connect(self.url, autocommit=True) as connection:
                return _rows(connection, query, values)
        try:
            return self._ask(query, values)
        finally:
            self._free.release()

    def _ask(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        """On a connection that is kept: conditions are asked for again and again."""
        if self._connection is not None:
            try:
                return _rows(self._connection, query, values)
            except psycopg.OperationalError:
                if not self._connection.broken:
                    raise  # else: a fault has ended it
        self._connection = psycopg.connect(self.url, autocommit=True)
        return _rows(self._connection, query, values)

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = 60.0) -> None:
        """Wait until a named condition holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
            time.sleep(0.01)

    # -- what must hold

    def check(self, *, parked: int = 0, timeout: float = 60.0) -> None:
        """Wait for the end of all work: nothing lost, nothing done twice, no invariant broken."""
        self.wait(lambda: self.sql(_ENDED) == [(0,)], "every task has ended", timeout)
        assert [(parked,)] == self.sql("select count(*) from mainspring.visit")
        done = Counter(
            row[0]
            for row in self.sql(
                "select id::text from mainspring.history where outcome = 'done' and not superseded"
            )
        )
        stays = {row[0] for row in self.sql("select id::text from mainspring.visit")}
        assert {handle.id: 1 for handle in self.handles if handle.id not in stays} == dict(done)
        effects = self.sql("select n from effect order by n")
        wanted = self.sql(
            "select (payload ->> 'n')::int from mainspring.history"
            " where queue like 'effect%%' and outcome = 'done' order by 1"
        )
        assert wanted == effects
        self.wait(
            lambda: self.sql("select * from mainspring.violation") == [],
            "no invariant is broken",
            5,
        )


def _rows(connection: psycopg.Connection[Any], query: str, values: tuple[Any, ...]) -> list[Any]:
    cursor = connection.execute(query, values)  # type: ignore[arg-type]
    return cursor.fetchall() if cursor.description else []


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def stop(worker: WorkerProcess) -> None:
    """Ask a worker to stop, and wait until it has in order."""
    worker.send(signal.SIGTERM)
    assert worker.wait(60) == 0
