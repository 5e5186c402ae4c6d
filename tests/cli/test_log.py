"""The log of a worker: the ends of runs, written many at once, and what users' own code logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import sys
import threading
from typing import Any
from uuid import UUID

import pytest

from mainspring import clock
from mainspring.cli import log
from mainspring.kernel.outcome import DONE, Again, Done, Expired, Parked, Retry
from mainspring.kernel.run import run_log
from mainspring.kernel.run.suspended import running
from mainspring.kernel.visit import Run, Visit

WORKER = "0b0e7a2e-9d6c-4a55-9a53-3a9a2b2b1111"
ODD = [
    "with space", 'a "quote"', "it's", "a=b", "line\nbreak", "\t", "unité", "", "back\\slash",
    "\x1b[2J\x1b]0;pwned\x07RED", "\x1b]52;c;cHduZWQ=\x07", "abc\u202edef", "a\u2028b", "\x9b31m",
]  # fmt: skip


class Screen(io.StringIO):
    """Standard error as a terminal, or not."""

    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.fixture(params=["people", "colours", "json"])
def screen(request: pytest.FixtureRequest, own_logging: None, monkeypatch) -> Screen:
    found = Screen(tty=request.param == "colours")
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    log.configure("info", json=request.param == "json")
    return found


def ended(*runs: Run) -> None:
    """Runs have ended in a process whose only handler is ours; pytest has some of its own."""
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers[:] = [handler for handler in before if isinstance(handler, log.Handler)]
    try:
        run_log.ended(runs, WORKER)
    finally:
        root.handlers[:] = before


def run_of(key: str = "7", queue: str = "send", outcome: object = DONE) -> Run:
    visit = Visit(1, key, queue, UUID(int=7), None, 5, 0.0, 1, 0, 0, None, "{}")
    run = Run(visit, 12, 1763424000.25, clock.local())
    run.seconds, run.outcome = 0.000_25, outcome
    return run


def timeless(line: str) -> Any:
    """A line without its own moment."""
    if line.startswith("{"):
        found = json.loads(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("timestamp"))
        return found
    stamp, _, rest = line.partition("Z")
    assert re.fullmatch(r"(\x1b\[2m)?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", stamp)
    return rest


def both(screen: Screen, run: Run) -> tuple[Any, Any]:
    """The line of a run as it is written among many, and as any other record."""
    ended(run)
    first = screen.getvalue()
    run_log._ended(run, WORKER)
    second = screen.getvalue()[len(first) :]
    assert first.count("\n") == second.count("\n") == 1
    return timeless(first.rstrip("\n")), timeless(second.rstrip("\n"))


@pytest.mark.parametrize("outcome", [DONE, Done("1"), Again(), Expired()])
def test_the_lines_of_runs_are_as_those_of_other_events(screen: Screen, outcome) -> None:
    """T12"""
    quick, usual = both(screen, run_of(outcome=outcome))

    assert quick == usual


@pytest.mark.parametrize("key", ODD)
def test_so_are_those_of_odd_keys_and_none_steers_the_terminal(screen: Screen, key) -> None:
    quick, usual = both(screen, run_of(key))

    assert quick == usual
    if not isinstance(quick, dict):
        without_colours = re.sub(r"\x1b\[\d+m", "", screen.getvalue())
        assert all(c.isprintable() or c == "\n" for c in without_colours)


def test_the_end_of_a_run_has_both_times_duration_worker_task_and_outcome(
    screen: Screen, request
) -> None:
    """T12"""
    ended(run_of())
    if "[json" not in request.node.name:
        assert "duration_ms" in screen.getvalue()
        return
    found = json.loads(screen.getvalue())
    assert found["started_at"] == "2025-11-18T00:00:00.250000+00:00"
    assert found["ended_at"] == "2025-11-18T00:00:00.250250+00:00"
    assert (found["duration_ms"], found["worker"]) == (0.25, WORKER)
    assert (found["queue"], found["outcome"]) == ("send", "done")


def test_lines_keep_the_order_in_which_runs_ended(screen: Screen) -> None:
    """Those that failed among them."""
    outcomes = [DONE, DONE, Retry(1.0, "E", "E: no"), DONE, Parked("E", "E: no"), DONE]
    ended(*(run_of(f"key{n}", outcome=o) for n, o in enumerate(outcomes)))

    assert re.findall(r"key(\d)", screen.getvalue()) == ["0", "1", "2", "3", "4", "5"]


def test_runs_of_the_engine_s_own_queues_are_for_json(screen: Screen, request) -> None:
    ended(run_of(queue="mainspring.operation"))

    assert bool(screen.getvalue()) == request.node.name.endswith("[json]")


def test_a_handler_of_the_user_s_own_gets_a_record_for_each_run(screen: Screen) -> None:
    seen: list[Any] = []
    handler = logging.Handler()
    handler.emit = seen.append  # type: ignore[method-assign]
    ours = logging.getLogger("mainspring")
    ours.addHandler(handler)
    try:
        run_log.ended([run_of("a"), run_of("b")], WORKER)
    finally:
        ours.removeHandler(handler)

    assert [(record.msg, record.key) for record in seen] == [("run.ended", "a"), ("run.ended", "b")]
    assert screen.getvalue().count("run.ended") == 2


def test_a_line_that_cannot_be_written_costs_no_result(screen: Screen, monkeypatch) -> None:
    def broken(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(screen, "write", broken)

    ended(run_of())


def users_lines(screen: Screen) -> list[Any]:
    """What a user's code logs in a run, in its thread and in its background task."""

    async def task() -> None:
        running.set(run_of("order-9"))
        mine = logging.getLogger("shop.mail")
        mine.info("sent %s", "it")
        mine.debug("not shown")
        await asyncio.to_thread(mine.info, "in a thread")
        await asyncio.get_running_loop().create_task(_said(mine, "in the background"))

    asyncio.run(task())
    return screen.getvalue().splitlines()


async def _said(logger: logging.Logger, text: str) -> None:
    logger.info(text)


def test_what_users_log_is_shown_with_logger_task_id_and_attempt(screen: Screen, request) -> None:
    """T12: at --log-level info, in threads and background tasks too."""
    lines = users_lines(screen)

    assert len(lines) == 3
    for line, text in zip(lines, ("sent it", "in a thread", "in the background"), strict=True):
        if "[json" in request.node.name:
            found = json.loads(line)
            assert (found["event"], found["logger"], found["task"]) == (text, "shop.mail", "send")
            assert (found["id"], found["attempt"]) == (str(UUID(int=7)), 1)
        else:
            plain = re.sub(r"\x1b\[\d+m", "", line)
            assert f"[info] {text}" in plain
            assert "[shop.mail] task=send key=order-9 attempt=1" in plain
            assert f"id={UUID(int=7)}" in plain


def test_outside_of_runs_they_have_their_logger_alone(screen: Screen) -> None:
    thread = threading.Thread(target=logging.getLogger("shop").warning, args=("begun",))
    thread.start()
    thread.join()

    assert "shop" in screen.getvalue()
    assert "attempt" not in screen.getvalue()


def test_tracebacks_have_no_values_of_variables(screen: Screen) -> None:
    """A token in a local variable stays out of the log."""
    api_token = "CANARY-LOCAL"
    try:
        raise ValueError(f"a problem of {len(api_token)} letters \x1b[2J")
    except ValueError:
        logging.getLogger("shop").exception("it failed")

    assert "CANARY" not in screen.getvalue()
    assert "Traceback" in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()
