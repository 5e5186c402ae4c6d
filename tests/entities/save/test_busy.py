"""Entities that are saved without end, in ways that no loop guard sees."""

from __future__ import annotations

import logging

import pytest

from mainspring import clock as moment
from mainspring.entities.save import loop_guard
from mainspring.entities.save.loop_guard import HOUR, WARN_AT, Busy


def test_the_thousandth_save_of_an_entity_in_an_hour_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: loops through hooks, other entities and timers are seen by their number."""
    now = [100.0]
    monkeypatch.setattr(moment, "local", lambda: now[0])
    counted = Busy("listing")

    with caplog.at_level(logging.WARNING, "mainspring"):
        for _ in range(2 * WARN_AT):
            counted.saved("7", "price")
        counted.saved("8", "price")
    (said,) = caplog.records
    now[0] += HOUR
    for _ in range(WARN_AT - 1):
        counted.saved("7", "price")

    assert said.msg == "entity.busy"
    assert (said.__dict__["key"], said.__dict__["saves"]) == ("7", WARN_AT)
    assert len(caplog.records) == 1


def test_quiet_entities_are_forgotten_before_busy_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_guard, "MOST_BUSY", 10)
    counted = Busy("listing")
    for _ in range(5):
        counted.saved("busy", "price")

    for n in range(100):
        counted.saved(f"quiet {n}", "price")

    assert len(counted._counts) <= 10
    assert counted._counts["busy"] == 5
