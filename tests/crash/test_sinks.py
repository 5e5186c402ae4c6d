"""kill -9 of a worker that sends to a real broker, at each step of the relay: first arrivals in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats as nats_client
import psycopg
import pytest
import sink_app

from brokers import NatsServer, nats_server
from draws import fast_first
from kafka_broker import KafkaBroker, classes
from warm import WorkerProcess

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {"lease": 1.0, "poll": 0.1, "grace": 5.0}
BOXES, GOAL = 8, 4
# Every event that was ever committed, whatever the relay deletes.
AUDIT = """
create table audit (key text, number bigint);
create function audit_event() returns trigger language plpgsql as $$
begin
  insert into audit values (new.key, new.number);
  return new;
end $$;
create trigger audit after insert on mainspring.event for each row execute function audit_event();
"""


class Scene:
    """A database with boxes, workers on it, and a broker that they send to."""

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.url, self.folder, self._environment = url, folder, environment
        self._stack = ExitStack()
        self._count = 0
        self.sql(sink_app.TABLE)
        self.app, _ = sink_app.make(url)
        self.app.migrate_sync()
        self.sql(AUDIT)

    def close(self) -> None:
        self._stack.close()
        self.app.close_sync()
        for log in sorted(self.folder.glob("worker-*")):
            print(f"-- {log.name}\n{log.read_text()[-3000:]}")  # pytest shows it of a failed test

    def worker(self, *, die_at: str | None = None, gate: str | None = None) -> WorkerProcess:
        self._count += 1
        output = self._stack.enter_context((self.folder / f"worker-{self._count}").open("wb"))
        environment = {"CRASH_FOLDER": str(self.folder), **self._environment}
        if gate:
            environment["CRASH_GATE"] = gate
        found = WorkerProcess(
            "sink_app:app",
            self.url,
            die_at=die_at,
            path=HERE,
            output=output,
            environment=environment,
            **SETTINGS,
        )
        return self._stack.enter_context(found)

    def sql(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
            time.sleep(0.02)

    def at_rest(self) -> None:
        left = "select count(*) from mainspring.visit where parked_at is null"
        self.wait(lambda: self.sql(left) == [(0,)], "all is at rest")

    def check(self, got: list[tuple[str, int]]) -> None:
        """First arrivals per entity are all that was committed, in the order of their numbers."""
        wanted: dict[str, list[int]] = {}
        for key, number in self.sql("select key, number from audit order by number"):
            wanted.setdefault(key, []).append(number)
        assert {key: len(numbers) for key, numbers in wanted.items()} == {
            str(n): GOAL for n in range(BOXES)
        }
        for arrivals in (got, self.noted()):
            first: dict[str, list[int]] = {}
            for key, number in arrivals:
                if number not in first.setdefault(key, []):
                    first[key].append(number)
            assert first == wanted
        for table in ("event", "delivery", "violation"):
            assert self.sql(f"select * from mainspring.{table}") == []

    def noted(self) -> list[tuple[str, int]]:
        lines = (self.folder / "noted").read_text().splitlines()
        return [(key, int(number)) for key, number in map(str.split, lines)]

    def relay(self, step: str) -> None:
        """A worker dies at a step, another goes on."""
        victim = self.worker(die_at=step)
        self.worker(gate="heir")
        for n in range(BOXES):
            self.sql("insert into box (id, goal) values (%s, %s)", n, GOAL)
        victim.wait_dead()
        (self.folder / "heir").touch()
        self.at_rest()


RELAYING = [
    "relay.sending:9",
    "relay.sent:9",
    "relay.acknowledged:3",
    "relay.sending:1",
    "relay.sent:1",
    "relay.acknowledged:1",
    "settle.sending:6",
    "settle.answered:6",
    "relay.sent:30",
]


async def stored(server: NatsServer) -> list[tuple[str, int]]:
    connection = await nats_client.connect(server.url)
    try:
        stream = connection.jetstream()
        held = (await stream.stream_info("shop")).state.messages
        messages = [await stream.get_msg("shop", n) for n in range(1, held + 1)]
    finally:
        await connection.close()
    found = [m.headers or {} for m in messages]
    return [(h["ce-subject"], int(h["ce-sequence"])) for h in found]


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


@pytest.mark.parametrize("step", fast_first(RELAYING, 3))
def test_a_worker_killed_at_a_step_of_the_relay_leaves_nothing_out_of_nats(
    mainspring_url: str, tmp_path: Path, nats: NatsServer, monkeypatch: Any, step: str
) -> None:
    """S7: at least once, in order per entity; the other consumer is whole too."""
    monkeypatch.setenv("CRASH_NATS", nats.url)
    scene = Scene(mainspring_url, tmp_path)
    try:
        scene.relay(step)
        scene.check(asyncio.run(stored(nats)))
    finally:
        scene.close()


@pytest.mark.parametrize("step", fast_first(["relay.sent:9", "relay.sending:20"], 1))
def test_a_worker_killed_at_a_step_of_the_relay_leaves_nothing_out_of_kafka(
    mainspring_url: str, tmp_path: Path, monkeypatch: Any, step: str
) -> None:
    """S7: what the dead one's library had in its queue died with it."""
    if classes()[0] is None:
        pytest.skip(f"a real Kafka broker: {classes()[1]}")
    broker = KafkaBroker(tmp_path / "kafka")
    broker.start()
    try:
        broker.make("boxes", 3)
        monkeypatch.setenv("CRASH_KAFKA", broker.servers)
        monkeypatch.setenv("CRASH_TOPIC", "boxes")
        scene = Scene(mainspring_url, tmp_path)
        try:
            scene.relay(step)
            messages = broker.records("boxes", BOXES * GOAL)
            headers = [dict(m.headers() or []) for m in messages]
            got = [
                (str(h["ce_subject"], "utf-8"), int(h["ce_sequence"]))  # type: ignore[arg-type]
                for h in headers
            ]
            scene.check(got)
        finally:
            scene.close()
    finally:
        broker.kill()


def test_a_broker_that_is_killed_and_started_again_holds_nobody_else_up(
    mainspring_url: str, tmp_path: Path, nats: NatsServer, monkeypatch: Any
) -> None:
    """S7: the other consumer has all of it while the broker is down; no attempt is counted."""
    monkeypatch.setenv("CRASH_NATS", nats.url)
    scene = Scene(mainspring_url, tmp_path)
    try:
        scene.worker()
        scene.sql("insert into box (id, goal) select n, 1 from generate_series(0, %s) n", BOXES - 1)
        scene.wait(lambda: scene.sql("select count(*) from audit") == [(BOXES,)], "saves")
        nats.kill()
        scene.sql("update box set goal = %s", GOAL)
        noted = tmp_path / "noted"
        scene.wait(
            lambda: noted.exists() and len(scene.noted()) >= BOXES * GOAL, "the other has all"
        )
        failed = "select count(*) from mainspring.visit where attempt > 0 or parked_at is not null"
        assert scene.sql(failed) == [(0,)]
        nats.start()
        scene.at_rest()
        scene.check(asyncio.run(stored(nats)))
    finally:
        scene.close()


def test_a_worker_whose_database_connections_are_ended_again_and_again_leaves_nothing_out(
    mainspring_url: str, tmp_path: Path, nats: NatsServer, monkeypatch: Any
) -> None:
    """S7: an acknowledgement whose commit is unknown is sent again."""
    monkeypatch.setenv("CRASH_NATS", nats.url)
    scene = Scene(mainspring_url, tmp_path)
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and application_name like 'mainspring:%%'"
    )
    try:
        scene.worker()
        for n in range(BOXES):
            scene.sql("insert into box (id, goal) values (%s, %s)", n, GOAL)
            before = scene.sql("select count(*) from audit")
            scene.wait(lambda b=before: scene.sql("select count(*) from audit") != b, "one more")
            scene.sql(end, *())
        scene.at_rest()
        scene.check(asyncio.run(stored(nats)))
    finally:
        scene.close()
