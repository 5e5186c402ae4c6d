"""Functions with executor="process" run in helpers: JSON both ways, and no crash is the worker's (T13)."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helped
import helped_late
import msgspec
import psycopg
import pytest

from mainspring import Mainspring, Promise, RetryAfter, RetryPolicy, TaskFailed
from mainspring.db.database import Database
from mainspring.errors import InvalidTask
from mainspring.kernel import Run, WorkerPort
from mainspring.operate.history import HistoryFilter
from mainspring.tasks.helpers.failure import raised_again, raised_by
from mainspring.tasks.helpers.helpers import Helpers
from mainspring.tasks.helpers.messages import Raised
from mainspring.tasks.run.connections import Connections
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from visits import visit

PATIENCE = 60  # a helper starts late on a machine that has much to do
ONE_TRY = RetryPolicy(attempts=1)


def apart(app: Mainspring, function: Callable[..., Any], **settings: Any) -> Any:
    return app.task(executor="process", **settings)(function)


def work(app: Mainspring, **settings: Any) -> Any:
    # A starved worker that lost its lease would end its runs, and with them their helper.
    return app.worker(**(FAST_SETTINGS | {"helpers": 1, "lease": 5.0} | settings))


def is_there(mark: Path) -> Callable[[], bool]:
    return lambda: mark.exists()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


async def errors_of(app: Mainspring, handle: Any) -> list[tuple[str, str]]:
    past = await app.operator.history(HistoryFilter(key=handle.key))
    return [(run.outcome, (run.error or "").partition("\n")[0]) for run in past]


async def test_plain_and_async_functions_run_in_one_reused_process(app) -> None:
    """T13: arguments and results travel as JSON; the process is not the worker's, and is used again."""
    plain, other = apart(app, helped.who), apart(app, helped.who_async)
    async with work(app):
        handles = [await task.enqueue(n) for n in range(3) for task in (plain, other)]
        found = [await handle.result(timeout=PATIENCE) for handle in handles]

    assert sorted(number for number, _ in found) == [0, 0, 1, 1, 2, 2]
    pids = {pid for _, pid in found}
    # The first call may come while the helper that is started ahead is not ready.
    assert len(pids) <= 2
    assert os.getpid() not in pids
    assert not any(is_running(pid) for pid in pids)


async def test_a_helper_is_replaced_after_its_number_of_runs(app) -> None:
    plain = apart(app, helped.who)
    async with work(app, helper_runs=1):
        first = await (await plain.enqueue(1)).result(timeout=PATIENCE)
        second = await (await plain.enqueue(2)).result(timeout=PATIENCE)

    assert first[1] != second[1]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("signal", "ended by SIGSEGV"),
        ("killed", "ended by SIGKILL: somebody killed it, or the system was out of memory"),
        ("exit code", "ended with exit code 3"),
        ("with a child of its own", "ended with exit code 4"),
    ],
)
async def test_a_crash_is_an_attempt_and_the_worker_goes_on(app, how: str, said: str) -> None:
    """T13: it is named by its signal or exit code, and never the worker's end."""
    crash, plain = apart(app, helped.crash, retry=ONE_TRY), apart(app, helped.who)
    async with work(app):
        broken = await crash.enqueue(how)
        with pytest.raises(TaskFailed, match=f"HelperDied: the process that ran it {said}"):
            await broken.result(timeout=PATIENCE)
        assert (await (await plain.enqueue(1)).result(timeout=PATIENCE))[0] == 1

    assert [outcome for outcome, _ in await errors_of(app, broken)] == ["parked"]


async def test_what_crashed_is_tried_again(app, tmp_path: Path) -> None:
    task = apart(app, helped.crash_once, retry=RetryPolicy(first=0.01))
    async with work(app):
        handle = await task.enqueue(str(tmp_path / "mark"))
        assert await handle.result(timeout=PATIENCE) == "survived"

    assert [outcome for outcome, _ in await errors_of(app, handle)] == ["done", "retry"]


async def test_an_exception_keeps_its_class_text_and_place(app) -> None:
    """T13: a retry policy finds its class; none of its code is run again."""
    policy = RetryPolicy(attempts=5, give_up_on=(helped.OutOfPaper,))
    task = apart(app, helped.refuse, retry=policy)
    async with work(app):
        handle = await task.enqueue(7)
        with pytest.raises(TaskFailed, match="OutOfPaper: tray 7 has no green paper") as failed:
            await handle.result(timeout=PATIENCE)

    assert failed.value.error is not None
    assert "in refuse" in failed.value.error
    assert "helpers" not in failed.value.error
    assert len(await errors_of(app, handle)) == 1


async def test_a_function_may_say_when_to_come_again(app, tmp_path: Path) -> None:
    task = apart(app, helped.come_later)
    async with work(app):
        handle = await task.enqueue(str(tmp_path / "mark"))
        assert await handle.result(timeout=PATIENCE) == "later"

    assert len(await errors_of(app, handle)) == 1


@pytest.mark.parametrize("pauses", [None, "queue", "group"])
def test_what_it_says_of_others_comes_to_the_worker(pauses: Any) -> None:
    """T13: a RetryAfter that pauses its queue or group does so from a helper, too."""
    sent = raised_by(RetryAfter(5, "slow down", counts=True, pauses=pauses))
    found = raised_again(msgspec.json.decode(msgspec.json.encode(sent), type=Raised))
    assert isinstance(found, RetryAfter)
    assert (found.after, str(found), found.counts) == (5.0, "slow down", True)
    assert found.pauses == pauses


async def test_an_exit_is_a_failure_and_ends_nothing(app) -> None:
    task = apart(app, helped.leave, retry=ONE_TRY)
    async with work(app):
        with pytest.raises(TaskFailed, match="SystemExit: 3"):
            await (await task.enqueue()).result(timeout=PATIENCE)


@pytest.mark.skipif(sys.platform != "linux", reason="others do not refuse memory")
async def test_more_memory_than_allowed_is_an_attempt(app) -> None:
    """T13: memory_max is the process's; a function within it runs on."""
    task = apart(app, helped.devour, retry=ONE_TRY, memory_max=600 * 2**20)
    async with work(app):
        small, large = await task.enqueue(10**6), await task.enqueue(10**9)
        assert await small.result(timeout=PATIENCE) == 10**6
        with pytest.raises(TaskFailed, match="more than its memory_max of 629145600 bytes"):
            await large.result(timeout=PATIENCE)


async def test_the_context_of_a_helper(app, caplog: pytest.LogCaptureFixture, capfd) -> None:
    """T13: idempotency key, group, attempt, result and log lines; what is printed is no message."""
    task = apart(app, helped.facts)
    with caplog.at_level(logging.WARNING):
        async with work(app):
            handle = await task.options(group="g").enqueue()
            found = await handle.result(timeout=PATIENCE)

    assert found == {"key": handle.id, "group": "g", "attempt": 1}
    (line,) = [record for record in caplog.records if record.name == "helped"]
    assert (line.getMessage(), line.levelname, line.tray) == ("paper jam", "WARNING", 2)
    assert "this is no message" in capfd.readouterr().err


async def test_the_progress_of_a_helper_is_told(app) -> None:
    """T13: its last word, too, however often it spoke."""
    task = apart(app, helped.halfway)
    async with work(app):
        handle = await task.enqueue()
        assert await handle.result(timeout=PATIENCE) == "done"
    words = await app.operator.progress([handle.id])
    assert words[handle.id][:3] == (1.0, "row 1000", 1)


async def test_what_an_earlier_run_left_behind_says_nothing_of_a_later_one(app, tmp_path) -> None:
    """T13: a thread that goes on after its call does not speak for the next call of its helper."""
    task = apart(app, helped.leaves_a_thread)
    async with work(app):
        for n in range(3):  # the first may be in another helper than those that follow
            folder = tmp_path / str(n)
            folder.mkdir()
            first = await task.enqueue(str(folder), is_first=True)
            assert await first.result(timeout=PATIENCE) == "left"
            second = await task.enqueue(str(folder), is_first=False)
            if (found := await second.result(timeout=PATIENCE)) == "said":
                break
    assert found == "said"
    assert list(await app.operator.progress([first.id, second.id])) == []


async def test_a_note_that_is_no_text_is_refused(app) -> None:
    """T13: where it is said; the worker hears nothing that it cannot read."""
    task = apart(app, helped.says_a_number, retry=ONE_TRY)
    async with work(app):
        with pytest.raises(TaskFailed, match="progress must be text or None, got int: give str"):
            await (await task.enqueue()).result(timeout=PATIENCE)


async def test_a_helper_has_no_transaction_of_the_worker(app) -> None:
    task = apart(app, helped.commit, retry=ONE_TRY)
    async with work(app):
        with pytest.raises(TaskFailed, match="is not to be had with executor="):
            await (await task.enqueue()).result(timeout=PATIENCE)


@pytest.mark.parametrize(
    "function", [helped.until_told, helped.never_asks, helped.awaits, helped_late.encodes_late]
)
async def test_a_cancelled_run_is_told_and_cleans_up(app, tmp_path: Path, function: Any) -> None:
    """T13: ctx.cancelled, an interrupt, CancelledError, when its loop has gone: each before the kill."""
    mark = tmp_path / "mark"
    task = apart(app, function, hold_after=0, grace=20)
    async with work(app):
        handle = await task.enqueue(str(mark))
        await wait_until(is_there(mark), 20)
        assert await handle.cancel(reason="enough", wait=20) == "cancelled"

    assert mark.read_text() == "cleaned up"
    assert await errors_of(app, handle) == [("cancelled", "enough")]


async def test_one_that_hears_nothing_is_killed_after_its_grace(app, tmp_path: Path) -> None:
    """T13: cancel of running work: a signal first, then the kill; the worker's slots are free again."""
    mark = tmp_path / "mark"
    task, plain = apart(app, helped.deaf, hold_after=0, grace=0.1), apart(app, helped.who)
    async with work(app) as worker:
        handle = await task.enqueue(str(mark))
        await wait_until(lambda: mark.exists() and bool(mark.read_text()), 20)
        assert await handle.cancel(wait=20) == "cancelled"
        assert not is_running(int(mark.read_text()))
        assert not worker.runner.hanging.had_any
        await (await plain.enqueue(1)).result(timeout=PATIENCE)


async def test_a_timeout_kills(app, tmp_path: Path) -> None:
    """T13: a hard timeout, whatever the function does."""
    mark = tmp_path / "mark"
    task = apart(app, helped.deaf, timeout=0.2, grace=0.1, retry=ONE_TRY)
    async with work(app):
        handle = await task.enqueue(str(mark))
        with pytest.raises(TaskFailed, match=r"ran longer than its timeout of 0\.2 s"):
            await handle.result(timeout=PATIENCE)
        if mark.exists():
            assert not is_running(int(mark.read_text()))


async def test_no_more_run_at_once_than_there_are_helpers(app, tmp_path: Path) -> None:
    """T13: what finds no free helper waits in its queue, without a slot; threads and loops go on."""
    first, second = tmp_path / "1", tmp_path / "2"
    busy, plain = apart(app, helped.until_told, grace=20), apart(app, helped.who)

    @app.task
    async def light() -> str:
        return "done"

    async with work(app, concurrency=2):
        handle = await busy.enqueue(str(first))
        await wait_until(is_there(first), 20)
        others = [await busy.enqueue(str(second)), await plain.enqueue(1)]
        assert await (await light.enqueue()).result(timeout=PATIENCE) == "done"
        assert not second.exists()
        assert [await other.status() for other in others] == ["waiting", "waiting"]
        await handle.cancel(wait=20)
        await wait_until(is_there(second), 20)
        await others[0].cancel(wait=20)
        assert (await others[1].result(timeout=PATIENCE))[0] == 1


async def test_a_step_of_a_process_runs_in_a_helper(app) -> None:
    who = apart(app, helped.double)

    @app.process
    def four_times(number: int) -> Promise[int]:
        return who(who(number))

    async with work(app):
        handle = await four_times.start(3)
        assert await handle.result(timeout=PATIENCE) == 12


@pytest.mark.parametrize("how", ["cancelled twice", "closed"])
async def test_a_run_that_waits_for_a_helper_and_is_not_wanted_does_not_begin(
    app, database_url: str, tmp_path: Path, how: str
) -> None:
    """T13: neither when nobody waits for it any longer, nor when its worker has closed."""
    helpers = Helpers(Connections(Database(database_url), WorkerPort()), 1, runs_each=9)
    mark = tmp_path / "mark"
    run = Run(visit("crash_once"), 7, 0.0, 0.0)
    payload = msgspec.json.encode({"mark": str(mark)}).decode()
    call = asyncio.create_task(helpers.call(run, apart(app, helped.crash_once), payload))
    for _ in range(3):
        await asyncio.sleep(0)  # it starts a helper
    if how == "closed":
        await asyncio.wait_for(helpers.close(), 20)
    else:
        for _ in range(2):
            call.cancel()
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.gather(*helpers._calls, return_exceptions=True)
    await helpers.close()
    assert not mark.exists()


def test_what_a_process_cannot_run_is_refused(app) -> None:
    def inner() -> None: ...

    with pytest.raises(
        InvalidTask, match=r"made inside another one .*so write it at the top of a module"
    ):
        apart(app, inner)
    with pytest.raises(InvalidTask, match='executor must be "process" or None'):
        app.task(executor="fork")(helped.who)
    with pytest.raises(
        InvalidTask, match="memory_max=1000000000 is that of a process, and there is none"
    ):
        app.task(memory_max=10**9)(helped.who)
    with pytest.raises(InvalidTask, match="remote=True is run by an actor elsewhere"):
        apart(app, helped.double, remote=True)


async def test_a_module_that_cannot_be_imported_is_said(app, monkeypatch) -> None:
    monkeypatch.setattr(helped.double, "__module__", "no_such_module")
    task = apart(app, helped.double, retry=ONE_TRY)
    async with work(app):
        with pytest.raises(TaskFailed, match="No module named 'no_such_module'"):
            await asyncio.wait_for((await task.enqueue(1)).result(), 20)


@pytest.mark.skipif(sys.platform != "linux", reason="what hears nothing is killed by Linux alone")
async def test_helpers_end_with_a_worker_that_is_killed(database_url: str, tmp_path: Path) -> None:
    """T13: also one whose function hears nothing. Functions of the main module are found there."""
    mark = tmp_path / "mark"
    program = Path(__file__).with_name("helped_app.py")
    command = [sys.executable, str(program), database_url, str(mark)]
    worker = subprocess.Popen(command)  # noqa: ASYNC220
    try:
        await wait_until(mark.exists, 30)
        pid = int(mark.read_text())
        assert is_running(pid)
    finally:
        worker.kill()
        worker.wait()
    await wait_until(lambda: not is_running(pid), 20)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from mainspring.visit")  # what it held is nobody's now
