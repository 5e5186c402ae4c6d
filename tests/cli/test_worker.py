"""`mainspring worker`: processes that are supervised, replaced, drained and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from mainspring import clock
from mainspring.cli import codes
from mainspring.cli.child import Orders
from mainspring.cli.supervisor import ProcessEnd, Supervisor
from mainspring.cli.worker import SourceWatch
from mainspring.db.database import Database
from mainspring.kernel.lease.watchdog import Watchdog
from mainspring.kernel.owned import Owned
from mainspring.testing import wait_until

APP = """
    import os, signal, time
    from mainspring import Mainspring
    app = Mainspring()

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task(crash_limit=1, hold_after=0)
    async def poison() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @app.task(hold_after=0)
    def hang() -> None:
        while True:
            time.sleep(0.01) if not os.path.exists("free") else exit()
"""


@pytest.fixture
def work(module, spawn):
    """Start a worker of a small application with a short lease."""
    module("work", APP)
    settings = ("--lease", "1", "--grace", "0.2", "--log-json")
    return lambda *arguments: spawn("worker", "work:app", *settings, *arguments)


def events(process: subprocess.Popen[str]) -> list[dict]:
    _, err = process.communicate(timeout=40)
    return [json.loads(line) for line in err.splitlines()]


def enqueue(url: str, *tasks: tuple[str, dict]) -> None:
    with psycopg.connect(url) as connection:
        for name, arguments in tasks:
            connection.execute("select mainspring.enqueue(%s, %s)", (name, json.dumps(arguments)))


def migrated(cli, url: str) -> None:
    """The tasks are known before the first worker comes."""
    os.environ["MAINSPRING_URL"] = url
    try:
        assert cli("migrate", "work:app").code == 0
    finally:
        del os.environ["MAINSPRING_URL"]


def test_a_draining_worker_does_what_is_due_and_exits_with_0(work, cli, database_url):
    """T14; T12: start, end, duration, worker and task of each run are logged."""
    migrated(cli, database_url)
    enqueue(database_url, ("add", {"a": 1, "b": 2}))

    process = work("--drain")
    seen = events(process)

    assert process.returncode == 0
    (ended,) = [event for event in seen if event["event"] == "run.ended"]
    assert (ended["queue"], ended["outcome"], ended["level"]) == ("add", "done", "info")
    assert {"worker", "duration_ms", "attempt", "key", "timestamp"} <= ended.keys()
    names = [event["event"] for event in seen]
    assert {"worker.started", "worker.stopped", "worker.process_drained"} <= set(names)


def test_a_process_that_a_poison_task_kills_is_replaced(work, cli, database_url):
    """T1: the neighbour's work gets done, the poison is parked."""
    migrated(cli, database_url)
    enqueue(database_url, ("poison", {}), ("add", {"a": 1, "b": 2}))

    process = work("--drain")
    seen = events(process)

    assert process.returncode == 0
    (died,) = [event for event in seen if event["event"] == "worker.process_died"]
    assert died["code"] == -signal.SIGKILL
    with psycopg.connect(database_url) as connection:
        parked = connection.execute(
            "select queue from mainspring.visit where parked_at is not null"
        ).fetchall()
    assert parked == [("poison",)]


def test_what_a_dead_process_had_does_not_wait_a_lease_time(work, cli, database_url):
    """T1: the supervisor saw it end, so it declares the worker dead at once."""
    migrated(cli, database_url)
    enqueue(database_url, ("poison", {}), ("add", {"a": 1, "b": 2}))

    process = work("--drain", "--lease", "120")
    seen = events(process)

    assert process.returncode == 0
    (buried,) = [event for event in seen if event["event"] == "worker.buried"]
    assert buried["shards"] == 1024


ELSEWHERE = """
    from mainspring import Mainspring
    app = Mainspring("postgresql://nobody:secret@127.0.0.1:1/x")

    @app.task(pool="mail")
    async def mail() -> None: ...
"""


def test_a_worker_serves_the_database_and_the_application_that_it_is_told(
    module, spawn, database_url
):
    """T14: --url goes before what the code says, its children have it too, and it is logged."""
    module("elsewhere", ELSEWHERE)

    arguments = ("--url", database_url, "--drain", "--log-json")
    process = spawn("worker", *arguments, MAINSPRING_APP="elsewhere:app", MAINSPRING_URL="")
    seen = events(process)

    assert process.returncode == 0
    (started,) = [event for event in seen if event["event"] == "worker.started"]
    assert started["database"] == Database(database_url).shown


def test_a_pool_that_the_application_does_not_have_is_warned_of(module, spawn, database_url):
    """T14"""
    module("elsewhere", ELSEWHERE)

    arguments = ("--url", database_url, "--drain", "--log-json", "--pool", "nope")
    seen = events(spawn("worker", "elsewhere:app", *arguments))

    (warning,) = [event for event in seen if event["event"] == "worker.pool_unused"]
    assert warning["pools"] == ["mail"]
    assert "nothing that elsewhere:app declares is in pool 'nope'" in warning["text"]


def test_dev_says_first_which_database_it_works_on(module, spawn, database_url):
    """T14"""
    module("work", APP)

    process = spawn("dev", "work:app")
    line = process.stdout.readline()
    process.terminate()
    process.communicate(timeout=40)

    assert line.strip() == Database(database_url).shown


def test_dev_shows_the_console_whose_link_logs_in(module, spawn, database_url):
    """T14: the first minute of a newcomer is a page."""
    module("work", APP)

    process = spawn("dev", "work:app")
    process.stdout.readline()
    link = process.stdout.readline().removeprefix("console: ").strip()
    with httpx.Client(follow_redirects=True) as browser:
        page = _when_it_listens(lambda: browser.get(link))
        assert page.status_code == 200
        assert "<h1>Overview</h1>" in page.text
    process.terminate()
    process.communicate(timeout=40)


def _when_it_listens(ask):
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except httpx.TransportError:
            assert time.monotonic() < deadline, "nobody listens"


def test_a_private_database_is_named_by_its_directory(tmp_path: Path):
    assert Database("postgresql://u@h/x", private_in=".mainspring").shown == (
        "private database in .mainspring"
    )
    assert Database("postgresql://u:secret@h:7/x").shown == "h:7, database x"


FAILING = """
    import sys
    from mainspring import Mainspring
    if sys.argv[0].endswith("child.py"):
        raise RuntimeError("not here")
    app = Mainspring()
"""


def test_a_drain_whose_processes_cannot_start_is_given_up(module, spawn):
    """T14: exit 0 means drained; this one says why it is not."""
    module("failing", FAILING)

    process = spawn("worker", "failing:app", "--drain", "--processes", "2", "--log-json")
    _, err = process.communicate(timeout=40)

    assert process.returncode == 2
    assert err.count('"event": "worker.given_up"') == 2
    assert "ended 3 times in a row (exit code 2) and is not started again" in err


async def test_a_worker_beside_a_stranger_of_the_release_before_ends_with_the_error(
    work, module, spawn, database_url
):
    """T2: the command says what is wrong and ends, instead of trying for ever."""
    module(
        "mail", "from mainspring import Mainspring\napp = Mainspring()\n@app.task\ndef mail(): ..."
    )
    work()
    await joined(database_url, 1)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update mainspring.worker set code = null")

    process = spawn("worker", "mail:app", "--lease", "1", "--log-json")
    _, err = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "pool 'default' is served by another application" in err


BILLING = """
    from mainspring import Mainspring
    app = Mainspring(pool="billing")

    @app.task
    def bill() -> None: ...
"""


def test_a_worker_serves_the_pool_of_its_application(module, spawn, database_url):
    """T2: without --pool; with it, another one."""
    module("billing", BILLING)

    process = spawn("worker", "billing:app", "--url", database_url, "--drain", "--log-json")
    seen = events(process)

    assert process.returncode == 0
    (started,) = [event for event in seen if event["event"] == "worker.started"]
    assert started["pool"] == "billing"
    assert "bill" in started["queues"]
    assert not [event for event in seen if event["event"] == "worker.pool_unused"]


class Blocking:
    """A process whose end never comes."""

    pid = 1

    def __init__(self) -> None:
        self.signals: list[int] = []

    def poll(self) -> None:
        return None

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def wait(self) -> None:
        raise AssertionError("waited for")


def test_a_signal_handler_only_takes_note():
    """T10: whatever is sent or waited for, it is not from within the handler."""
    supervisor = Supervisor(Orders("x:y", {}, 0), 1, grace=1, declare_dead=lambda *_: False)
    process = Blocking()
    supervisor._seats[0].process = process

    supervisor._signalled(signal.SIGINT, None)
    assert process.signals == []
    supervisor._turn()
    assert process.signals == [signal.SIGTERM]

    supervisor._signalled_at = 0
    supervisor._signalled(signal.SIGTERM, None)
    supervisor._turn()
    assert process.signals == [signal.SIGTERM]
    assert supervisor._over()


def test_while_code_is_written_a_process_that_cannot_be_waits_for_the_next_file():
    """Its error is told once, not at every try of a growing pause."""
    supervisor = Supervisor(
        Orders("x:y", {}, 0), 1, grace=1, declare_dead=lambda *_: False, gives_up=False
    )
    (seat,) = supervisor._seats

    supervisor._follow(seat, ProcessEnd(1, codes.USAGE, lived=0.1), had_joined=False)
    assert seat.start_at > time.monotonic() + 5

    supervisor._renew()
    assert seat.start_at == 0


def test_a_signal_is_heard_while_a_dead_process_is_buried():
    """T10: a database that is away keeps the notice of a death, not the supervisor."""
    away, asked = threading.Event(), threading.Event()

    def declare_dead(_: UUID, _fenced: bool) -> bool:
        asked.set()
        return away.wait(30)

    supervisor = Supervisor(Orders("x:y", {}, 0), 2, grace=1, declare_dead=declare_dead)
    dead, living = supervisor._seats
    dead.process = subprocess.Popen(["false"])
    dead.worker_id = uuid4()
    dead.process.wait()
    living.process = process = Blocking()
    supervisor._turn()
    assert asked.wait(10)

    supervisor._signalled(signal.SIGTERM, None)
    supervisor._turn()

    assert process.signals == [signal.SIGTERM]
    assert dead.process is None  # nothing takes its place before it is known what it was
    living.process = None
    assert not supervisor._over()  # others should not wait a lease time for its shards
    away.set()
    dead.death_notice._thread.join(10)
    supervisor._turn()
    assert supervisor._over()


def test_a_process_that_was_fenced_is_replaced_at_once_and_its_database_told_when_it_is_back():
    """T13: who cannot be told yet is told later: else others would count a death against its runs."""
    me, told, answers = uuid4(), list[tuple[UUID, bool]](), iter([None, None, True])
    back = threading.Event()

    def declare_dead(worker_id: UUID, fenced: bool) -> bool | None:
        told.append((worker_id, fenced))
        answer = next(answers)
        if answer:
            back.set()
        return answer

    supervisor = Supervisor(Orders("x:y", {}, 0), 1, grace=1, declare_dead=declare_dead)
    (seat,) = supervisor._seats
    owned = Owned()
    owned.worker_id = me  # not the first id: it was declared dead before, and joined again
    seat.mark, seat.worker_id = tempfile.TemporaryFile(), uuid4()  # noqa: SIM115
    watchdog = Watchdog(owned, 10.0, on=False, mark=seat.mark.fileno())
    watchdog.beaten(clock.local() - 9.5)
    watchdog.asking()
    seat.process = subprocess.Popen(["false"])
    seat.process.wait()

    supervisor._turn()

    assert seat.start_at > 0, "nobody waits until it is declared dead"
    assert back.wait(10)
    assert told == [(me, True)] * 3


async def counted(url: str, what: str, count: int) -> None:
    """Wait until the database has so many of something."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def there() -> bool:
            cursor = await connection.execute(f"select count(*) from mainspring.{what}")
            return (await cursor.fetchone())[0] == count

        await wait_until(there, 30)  # processes start slowly on a busy machine


async def joined(url: str, count: int) -> None:
    await counted(url, "worker", count)


async def held(url: str, count: int) -> None:
    await counted(url, "visit where pass is not null", count)


async def test_sigterm_is_passed_on_and_nothing_is_left(work, database_url):
    """T10"""
    process = work("--processes", "2")
    await joined(database_url, 2)

    process.terminate()
    seen = events(process)

    assert process.returncode == 0
    assert [e["event"] for e in seen].count("worker.stopped") == 2
    await joined(database_url, 0)


async def test_a_hung_thread_does_not_keep_a_stopping_worker(work, database_url, tmp_path: Path):
    """T10: what is left goes back at once."""
    process = work()
    await joined(database_url, 1)
    enqueue(database_url, ("hang", {}))
    await held(database_url, 1)

    process.terminate()
    process.communicate(timeout=30)

    assert process.returncode == 0
    await held(database_url, 0)


async def test_a_second_signal_ends_everything_at_once(work, database_url):
    """T10"""
    process = work("--grace", "60")
    await joined(database_url, 1)
    enqueue(database_url, ("hang", {}))
    await held(database_url, 1)

    process.send_signal(signal.SIGINT)
    while '"worker.stopping"' not in process.stderr.readline():
        pass
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=0.3)  # one within a tenth of a second is taken for an echo
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert process.returncode == 130


def test_changed_source_files_are_seen(tmp_path: Path):
    (tmp_path / "a.py").write_text("")
    (tmp_path / ".venv").mkdir()
    watch = SourceWatch(tmp_path)
    watch._next = 0

    assert not watch.changed()
    (tmp_path / ".venv" / "b.py").write_text("")
    watch._next = 0
    assert not watch.changed()
    (tmp_path / "c.py").write_text("")
    watch._next = 0
    assert watch.changed()
