"""The watchdog: whose doing it is that it ends a process, as its mark tells."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from uuid import uuid4

import pytest

from mainspring import clock
from mainspring.kernel.lease.watchdog import EXIT_CODE, Watchdog, read_mark
from mainspring.kernel.owned import Owned


@pytest.fixture
def mark() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def watchdog(mark: int) -> Watchdog:
    owned = Owned()
    owned.worker_id = uuid4()
    return Watchdog(owned, 10.0, on=False, mark=mark)


def test_a_process_that_asked_in_vain_was_ended_by_the_network(mark: int) -> None:
    dog = watchdog(mark)
    dog.beaten(clock.local() - 9.5)
    dog.asking()

    assert read_mark(mark, EXIT_CODE) == (dog._owned.worker_id, True)
    assert read_mark(mark, -9) == (dog._owned.worker_id, False), "it was killed"


def test_a_process_that_did_not_even_ask_was_ended_by_what_it_ran(mark: int) -> None:
    """T13: a run that never lets go of the interpreter is found as one that kills."""
    dog = watchdog(mark)
    dog.asking()
    dog.beaten(clock.local() - 9.5)
    dog.answered()

    assert read_mark(mark, EXIT_CODE) == (dog._owned.worker_id, False)


def test_a_process_that_ended_before_its_time_was_not_ended_by_the_watchdog(mark: int) -> None:
    dog = watchdog(mark)
    dog.asking()
    dog.beaten(clock.local())

    assert read_mark(mark, EXIT_CODE) == (dog._owned.worker_id, False)


def test_a_process_that_never_joined_leaves_no_mark(mark: int) -> None:
    assert read_mark(mark, EXIT_CODE) == (None, False)
