"""What a loop says of an outage."""

from __future__ import annotations

import logging

from mainspring.db.reconnecting import Reconnecting


def test_the_begin_and_the_end_of_an_outage_are_told_once(caplog) -> None:
    """Whoever reads the log knows whether the worker goes on."""
    caplog.set_level(logging.INFO, "mainspring")
    heart = Reconnecting("heart.waiting")
    heart.worked()
    for _ in range(3):
        heart.failed(OSError("refused"))
    heart.worked()
    heart.worked()
    heart.failed(OSError("refused"))

    told = [(record.levelname, record.message.split()[0]) for record in caplog.records]
    assert told == [
        ("WARNING", "heart.waiting"),
        ("INFO", "heart.back"),
        ("WARNING", "heart.waiting"),
    ]
