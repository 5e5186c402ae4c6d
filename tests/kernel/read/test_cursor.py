"""Cursors: no due visit is ever left behind without somebody who knows."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from mainspring.kernel.run.queue import Cursor
from mainspring.kernel.visit import START, Visit

OVERLAP = 0.5
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()


def visit(seconds: float, key: str = "a") -> Visit:
    return Visit(0, key, "ring", UUID(int=1), None, 5, NOON + seconds, 1, 0, 0, None, "{}")


def test_a_cursor_begins_at_the_start_and_wants_to_read() -> None:
    cursor = Cursor("ring", 5)

    assert (cursor.position, cursor.more, cursor.reading) == (START, True, False)


def test_a_full_page_moves_it_to_its_last_row() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()

    cursor.answered(visit(1, "z").position, full=True, close=NOON - OVERLAP)

    assert cursor.position == (NOON + 1, "z")
    assert cursor.more


def test_a_page_that_was_not_full_moves_it_to_its_last_visit() -> None:
    """Not to now: what was just settled is not walked over again, and nothing is passed over."""
    cursor = Cursor("ring", 5)
    last = visit(-10)
    cursor.sent()

    cursor.answered(last.position, full=False, close=NOON - OVERLAP)

    assert cursor.position == last.position
    assert not cursor.more


def test_an_empty_page_moves_it_close_to_now() -> None:
    """But not quite: a transaction that is still under way may commit a visit a moment older."""
    cursor = Cursor("ring", 5)
    cursor.sent()

    cursor.answered(None, full=False, close=NOON - OVERLAP)

    assert cursor.position == (NOON - OVERLAP, "")
    assert not cursor.more


def test_a_step_back_moves_it_before_the_visit() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.answered(None, full=False, close=NOON - OVERLAP)

    cursor.step_back(NOON - 60)

    assert cursor.position == (NOON - 60, "")
    assert cursor.more


def test_a_step_back_never_moves_it_forward() -> None:
    cursor = Cursor("ring", 5)

    cursor.step_back(NOON)

    assert cursor.position == START


def test_a_step_back_during_a_read_is_not_overwritten_by_it() -> None:
    """The read was sent before: what it found says nothing of the newcomer."""
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.step_back(NOON - 60)

    cursor.answered(visit(5).position, full=True, close=NOON - OVERLAP)

    assert cursor.position == (NOON - 60, "")
    assert cursor.more


def test_the_earliest_of_several_steps_back_counts() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.step_back(NOON - 60)
    cursor.step_back(NOON - 30)

    cursor.answered(None, full=False, close=NOON - OVERLAP)

    assert cursor.position == (NOON - 60, "")


def test_a_step_back_from_before_the_read_does_not_count_twice() -> None:
    cursor = Cursor("ring", 5)
    cursor.step_back(NOON - 60)
    cursor.sent()

    cursor.answered(None, full=False, close=NOON - OVERLAP)

    assert cursor.position == (NOON - OVERLAP, "")


def test_a_read_that_failed_taught_nothing() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.answered(visit(1).position, full=True, close=NOON - OVERLAP)
    before = cursor.position
    cursor.sent()

    cursor.failed()

    assert (cursor.position, cursor.more, cursor.reading) == (before, True, False)


def test_a_step_back_during_a_read_that_fails_stays() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.answered(None, full=False, close=NOON - OVERLAP)
    cursor.sent()
    cursor.step_back(NOON - 60)

    cursor.failed()

    assert cursor.position == (NOON - 60, "")


def test_a_restart_reads_everything_anew_even_during_a_read() -> None:
    cursor = Cursor("ring", 5)
    cursor.sent()
    cursor.restart()

    cursor.answered(visit(1).position, full=True, close=NOON - OVERLAP)

    assert cursor.position == START
    assert cursor.more
