"""A turn of the heart: few round trips, and beats between them where they take long."""

from __future__ import annotations

import logging
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mainspring.db.database import Database
from mainspring.db.session import Session
from mainspring.db.sql import Record, Statement, Values
from mainspring.errors import DatabaseUnavailable
from mainspring.kernel.statements import SQL
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, working


@pytest.fixture
def said() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    def listen(record: logging.LogRecord) -> bool:
        records.append(record)
        return True

    logging.getLogger("mainspring").addFilter(listen)
    yield records
    logging.getLogger("mainspring").removeFilter(listen)


async def test_a_turn_has_few_round_trips(visits: Visits, database_url: str) -> None:
    """T13: counted on the wire. At 200 ms each, 25 of them lasted as long as a lease of 5 s."""
    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate, hold_after=0.01), lease=10.0) as worker:
        await wait_until(lambda: visits.row("a")["holder"] is not None)
        heart, line = worker.heart, worker.heart._session._open.pgconn

        async def turn() -> None:
            before = heart._look_at
            heart.poke_beat()
            await wait_until(lambda: heart._look_at > before and not heart._turn_at)

        for _ in range(4):  # until every statement is prepared
            await turn()
        with tempfile.TemporaryFile() as trace:
            line.trace(trace.fileno())
            await turn()
            line.untrace()
            trace.seek(0)
            answers = trace.read().count(b"ReadyForQuery")
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None)

    assert 4 < answers <= 8


async def test_a_turn_of_slow_statements_beats_between_them(
    visits: Visits,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    said: list[logging.LogRecord],
) -> None:
    """T13: a turn that lasts longer than the lease loses it not."""
    send, sent = Session.send, list[str]()

    def slowly(self: Session, statement: Statement, values: Values) -> Sequence[Record]:
        sent.append(statement.name)
        if statement.name != "beat":
            time.sleep(0.25)
        return send(self, statement, values)

    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate), lease=1.5) as worker:
        await wait_until(lambda: len(gate.runs) == 1)
        monkeypatch.setattr(Session, "send", slowly)
        await wait_until(lambda: sent.count("read_held") == 3, 30)

        assert sent.count("beat") > sent.count("read_workers") + 3
        assert worker.owned.worker_id is not None
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None, 10)
        monkeypatch.undo()

    assert "worker.fenced" not in [record.msg for record in said]


async def test_a_lease_that_is_short_for_the_round_trip_is_said_once(
    visits: Visits,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    said: list[logging.LogRecord],
) -> None:
    send = Session.send

    def far_away(self: Session, statement: Statement, values: Values) -> Sequence[Record]:
        if statement.name == "beat":
            time.sleep(0.05)
        return send(self, statement, values)

    monkeypatch.setattr(Session, "send", far_away)
    async with working(database_url, queue(), lease=1.0):
        beats = "select beat from mainspring.worker"
        await wait_until(lambda: visits.value(beats) > 12, 30)

    [record] = [record for record in said if record.msg == "lease.short"]
    text: str = record.text  # type: ignore[attr-defined]
    assert "a round trip to the database takes" in text
    assert "which is long for a lease of 1 s: set lease to at least" in text


async def test_a_worker_far_from_its_database_leaves_in_order(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T10: a connect that takes longer than the heart would wait makes no stop a death."""
    connect = Database.connect_sync

    def far_away(self: Database, *args: Any, **options: Any) -> Any:
        time.sleep(0.5)
        return connect(self, *args, **options)

    gate = Gate()
    visits.offer("a")
    async with working(
        database_url, queue(handler=gate, hold_after=0.0), lease=1.0, grace=0.0
    ) as worker:
        await wait_until(lambda: visits.row("a")["holder"] is not None)
        monkeypatch.setattr(Database, "connect_sync", far_away)
        await worker.stop()

        assert visits.query("select id from mainspring.worker") == []
        assert visits.row("a")["holder"] is None


async def test_a_worker_that_leaves_sets_no_watchdog_on_its_process(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: the thread has ended, so nobody would call it off again."""
    async with working(database_url, queue(), lease=1.0) as worker:
        stopped: list[float] = []
        heart = worker.heart
        monkeypatch.setattr(heart.watchdog, "end", lambda: stopped.append(heart._beat_at))
        send = Session.send

        def slowly(self: Session, statement: Statement, values: Values) -> Sequence[Record]:
            if statement.name == "release_holds":
                time.sleep(0.25)  # a beat is due by then
            return send(self, statement, values)

        monkeypatch.setattr(Session, "send", slowly)
        await worker.stop()

        assert stopped == [heart._beat_at]


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield f"postgresql://nobody@127.0.0.1:{port}/nothing?sslmode=disable&gssencmode=disable"


def test_a_connect_that_hangs_is_not_waited_for(silent_address: str) -> None:
    """A5: the heart looks at its clock again, long before the lease has ended."""
    session = Session(Database(silent_address), patience=0.05)
    try:
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable, match=r"no connection to 127.0.0.1:.* yet"):
                session.run(SQL["read_clock"])
        threads = [t for t in threading.enumerate() if t.name == "mainspring.connect"]
        assert len(threads) == 1, "one attempt goes on; no second one beside it"
    finally:
        session.close()


def test_a_connect_that_hangs_can_be_cut(silent_address: str) -> None:
    session = Session(Database(silent_address))
    threading.Timer(0.2, session.cut).start()

    with pytest.raises(DatabaseUnavailable, match="no connection"):
        session.run(SQL["read_clock"])

    session.close()
