"""kill -9 of a worker that relays events or crawls: nothing is left out, nothing comes out of order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import outbox_app
import psycopg
import pytest

from draws import fast_first
from warm import WorkerProcess

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {"lease": 1.0, "poll": 0.1, "grace": 5.0}
BOXES, GOAL = 8, 4
# Every event that was ever committed, whatever the relay deletes.
AUDIT = """
create table audit (key text, number bigint, reached integer);
create function audit_event() returns trigger language plpgsql as $$
begin
  insert into audit values (new.key, new.number, (new.body -> 'entity' ->> 'reached')::integer);
  return new;
end $$;
create trigger audit after insert on mainspring.event for each row execute function audit_event();
"""


class Outbox:
    """A database with boxes, worker processes on it, and what the consumers have noted."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self._stack = ExitStack()
        self._count = 0
        self.sql(outbox_app.TABLE)
        app, self.box = outbox_app.make(url)
        self.app = app
        app.migrate_sync()
        self.sql(AUDIT)

    def close(self) -> None:
        self._stack.close()
        self.app.close_sync()
        for log in sorted(self.folder.glob("worker-*")):
            print(f"-- {log.name}\n{log.read_text()[-3000:]}")  # pytest shows it of a failed test

    def worker(self, *, die_at: str | None = None, gate: str | None = None) -> WorkerProcess:
        self._count += 1
        output = self._stack.enter_context((self.folder / f"worker-{self._count}").open("wb"))
        environment = {"CRASH_FOLDER": str(self.folder), **({"CRASH_GATE": gate} if gate else {})}
        return self._stack.enter_context(
            WorkerProcess(
                "outbox_app:app",
                self.url,
                die_at=die_at,
                path=HERE,
                output=output,
                environment=environment,
                **SETTINGS,
            )
        )

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def sql(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
            time.sleep(0.02)

    def lines(self, file: str) -> list[list[str]]:
        try:
            return [line.split() for line in (self.folder / file).read_text().splitlines()]
        except FileNotFoundError:
            return []

    def check(self) -> None:
        """Every event came to both consumers, in order for whoever drops what he has seen."""
        left = "select count(*) from mainspring.visit where parked_at is null"
        self.wait(lambda: self.sql(left) == [(0,)], "all is at rest")
        wanted: dict[str, list[tuple[int, int]]] = {}
        for key, number, reached in self.sql("select * from audit order by number"):
            wanted.setdefault(key, []).append((number, reached))
        assert {key: [r for _, r in events] for key, events in wanted.items()} == {
            str(n): list(range(1, GOAL + 1)) for n in range(BOXES)
        }
        for consumer in ("hook", "sink"):
            got: dict[str, list[tuple[int, int]]] = {}
            for key, number, reached, state in self.lines(consumer):
                assert reached == state, "entity and state of one event were saved together"
                seen = got.setdefault(key, [])
                if not seen or int(number) > seen[-1][0]:
                    seen.append((int(number), int(reached)))
            assert got == wanted, consumer
        assert self.sql("select count(*) from mainspring.event") == [(0,)]
        assert self.sql("select count(*) from mainspring.delivery") == [(0,)]
        assert self.sql("select * from mainspring.violation") == []


@pytest.fixture
def outbox(mainspring_url: str, tmp_path: Path) -> Iterator[Outbox]:
    found = Outbox(mainspring_url, tmp_path)
    yield found
    found.close()


RELAYING = [
    "run.started:40",
    "run.ended:30",
    "settle.sending:5",
    "settle.answered:5",
    pytest.param("run.ended:60", marks=pytest.mark.slow),
    pytest.param("settle.sending:12", marks=pytest.mark.slow),
    pytest.param("settle.answered:12", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("step", fast_first(RELAYING, 3))
def test_a_worker_killed_while_it_relays_leaves_no_event_out(outbox: Outbox, step: str) -> None:
    """S7: at least once, in order per entity and consumer, through any crash."""
    victim = outbox.worker(die_at=step)
    outbox.worker(gate="heir")
    for n in range(BOXES):
        outbox.sql("insert into box (id, goal) values (%s, %s)", n, GOAL)

    victim.wait_dead()
    outbox.open("heir")

    outbox.check()


CRAWLING = ["settle.sending:2", "settle.answered:2", "run.ended:20", "page.read:8"]


@pytest.mark.parametrize("step", fast_first(CRAWLING, 2))
def test_a_worker_killed_while_it_crawls_leaves_no_entity_out(outbox: Outbox, step: str) -> None:
    """S18: the next worker goes on where the last step was committed."""
    outbox.sql("insert into box (id) select generate_series(1, 43)")
    outbox.sql("delete from mainspring.visit")
    begun = asyncio.run(crawl(outbox))
    victim = outbox.worker(die_at=step)
    outbox.worker(gate="heir")

    victim.wait_dead()
    outbox.open("heir")

    state = "select state::text, done, failed from mainspring.operation where id = %s"
    outbox.wait(lambda: outbox.sql(state, begun)[0][0] == "done", "the crawl is done")
    left = "select count(*) from mainspring.visit where queue like 'box%%'"
    outbox.wait(lambda: outbox.sql(left) == [(0,)], "all is at rest")
    assert outbox.sql(state, begun) == [("done", 43, 0)]
    assert {int(id) for (id,) in outbox.lines("asked")} == set(range(1, 44))
    assert outbox.sql("select * from mainspring.violation") == []


async def crawl(outbox: Outbox) -> int:
    begun = await outbox.box.crawl(["Look"])
    await outbox.app.close()
    assert begun.id is not None
    return begun.id
