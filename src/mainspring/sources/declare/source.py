"""A source with its settings: checked when it is declared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from mainspring.errors import InvalidSetting
from mainspring.sources.declare.broker import RecordBroker
from mainspring.sources.declare.effects import Effect
from mainspring.sources.declare.record import BrokerRecord

MapRecord: TypeAlias = Callable[[BrokerRecord], Effect | Iterable[Effect] | None]
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
STARTS = ("earliest", "latest")
ON_ERROR = ("stop", "reject")
QUEUE = "source/"


@dataclass(frozen=True, slots=True)
class RecordSource:
    """Records of a broker that have effects in this database."""

    name: str
    broker: RecordBroker
    to: MapRecord
    start: str
    on_error: str
    pool: str

    @property
    def queue(self) -> str:
        """The queue of its readers."""
        return QUEUE + self.name


def source(
    name: str,
    broker: RecordBroker,
    *,
    to: MapRecord,
    start: str | datetime,
    on_error: str,
    pool: str,
) -> RecordSource:
    """A source, if it can be one."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidSetting(
            f"a source's name must be 1 to 100 letters, digits, '_', '.' or '-', got {name!r}"
        )
    if not callable(to):
        raise InvalidSetting(f"source {name!r}: to must be a function of a record, got {to!r}")
    if on_error not in ON_ERROR:
        raise InvalidSetting(
            f"source {name!r}: on_error must be 'stop' or 'reject', got {on_error!r}"
        )
    return RecordSource(name, broker, to, start_text(start), on_error, pool)


def start_text(start: str | datetime) -> str:
    """Where to begin, as it is stored: 'earliest', 'latest', or an instant."""
    if isinstance(start, datetime) and start.tzinfo is not None:
        return start.isoformat()
    if isinstance(start, str) and start in STARTS:
        return start
    raise InvalidSetting(
        f"start must be 'earliest', 'latest' or a datetime with a time zone, got {start!r}"
    )
