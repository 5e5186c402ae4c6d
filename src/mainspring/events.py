"""Events: what the logger "mainspring" says, facts included, however logging is set up.

An event is a short name (`run.ended`) with facts in `extra`. Whoever formats records in a structured way
finds them there. Everybody else reads the text of the record, so it names them, too.
"""

from __future__ import annotations

import logging
from typing import Any

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """What was told in `extra`. (No attribute of the record: any name may be one of these.)"""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


class Event(logging.LogRecord):
    """A record whose text is its event and the facts."""

    def getMessage(self) -> str:
        facts = [f"{name}={value}" for name, value in facts_of(self).items()]
        return " ".join([super().getMessage(), *facts])


class EventLogger(logging.Logger):
    """A logger whose records are events."""

    def makeRecord(self, *args: Any, **named: Any) -> logging.LogRecord:
        record = super().makeRecord(*args, **named)
        record.__class__ = Event
        return record


# Whoever set it up before the first import keeps what was set.
logging.getLogger("mainspring").__class__ = EventLogger
