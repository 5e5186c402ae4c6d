"""The database's time as a worker knows it: what is a jump of its clock, and what a slow answer."""

from __future__ import annotations

import pytest

from mainspring.kernel.owned import DatabaseTime


def known(epoch: float, at: float) -> DatabaseTime:
    """A time that was looked at once, without delay."""
    time = DatabaseTime()
    time.seen(epoch, sent=at, received=at)
    return time


@pytest.mark.parametrize("read_after", [0.0, 2.5, 5.0])
def test_a_slow_answer_is_no_jump(read_after: float) -> None:
    """It took 5 s; the clock may have been read at its begin, or just before its end."""
    time = known(1000.0, at=10.0)

    assert time.seen(1010.0 + read_after, sent=20.0, received=25.0) == 0
    assert time.at(25.0) == 1015.0


@pytest.mark.parametrize(("epoch", "jump"), [(1016.0, 1.0), (1008.5, -1.5)])
def test_what_lies_outside_of_sent_and_received_is_a_jump(epoch: float, jump: float) -> None:
    time = known(1000.0, at=10.0)

    assert time.seen(epoch, sent=20.0, received=25.0) == pytest.approx(jump)


def test_a_jump_that_a_slow_answer_hid_is_seen_by_the_next_one() -> None:
    time = known(1000.0, at=10.0)
    assert time.seen(1014.0, sent=20.0, received=25.0) == 0

    assert time.seen(1023.0, sent=30.0, received=30.01) == pytest.approx(2.99)
