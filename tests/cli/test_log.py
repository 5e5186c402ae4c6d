"""The lines of runs are written by hand, for structlog takes longer than a short task; to one effect."""

from __future__ import annotations

import json
import logging
import re
from uuid import UUID

import pytest

from mainspring.cli import log

FACTS = {
    "queue": "send",
    "key": "7",
    "id": UUID(int=7),
    "attempt": 1,
    "run": 12,
    "worker": "0b0e7a2e-9d6c-4a55-9a53-3a9a2b2b1111",
}
ENDED = {**FACTS, "outcome": "done", "duration_ms": 0.25}
ODD = ["with space", 'a "quote"', "it's", "a=b", "line\nbreak", "\t", "unité", "", "back\\slash"]


@pytest.fixture(params=[False, True], ids=["people", "json"])
def formatter(request: pytest.FixtureRequest):
    before, level = logging.getLogger().handlers[:], logging.getLogger("mainspring").level
    log.configure("info", json=request.param)
    [handler] = logging.getLogger().handlers
    logging.basicConfig(handlers=before, force=True)
    logging.getLogger("mainspring").setLevel(level)
    return handler.formatter


def both(formatter, event: str, facts: dict[str, object]) -> tuple[object, object]:
    """A record by hand and by structlog, without their moment."""
    logger = logging.getLogger("mainspring")
    record = logger.makeRecord("mainspring", logging.INFO, "f", 1, event, (), None, extra=facts)
    quick = formatter.format(record)
    assert formatter._quick is not None
    hand, formatter._quick = formatter._quick, None
    usual = formatter.format(record)
    formatter._quick = hand
    return timeless(quick), timeless(usual)


def timeless(line: str) -> object:
    if line.startswith("{"):
        found = json.loads(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("timestamp"))
        return found
    stamp, _, rest = line.partition("Z ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", stamp)
    return rest


@pytest.mark.parametrize(("event", "facts"), [("run.started", FACTS), ("run.ended", ENDED)])
def test_the_lines_of_a_run_are_as_structlog_writes_them(formatter, event, facts) -> None:
    """T12"""
    quick, usual = both(formatter, event, facts)

    assert quick == usual


@pytest.mark.parametrize("key", ODD)
def test_so_are_those_of_odd_keys(formatter, key) -> None:
    quick, usual = both(formatter, "run.ended", {**ENDED, "key": key})

    assert quick == usual


def test_whatever_went_wrong_is_left_to_structlog(formatter) -> None:
    record = logging.getLogger("mainspring").makeRecord(
        "mainspring", logging.WARNING, "f", 1, "run.ended", (), None, extra={**ENDED, "error": "no"}
    )
    formatter._quick = lambda _: pytest.fail("written by hand")

    assert "no" in formatter.format(record)


def test_any_name_may_be_a_fact(formatter) -> None:
    """A filter of the user's own may add what it likes."""
    quick, usual = both(formatter, "run.ended", {**ENDED, "facts": 7, "event_": "x"})

    assert quick == usual
