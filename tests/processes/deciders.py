"""Running a decider without a database: what it records, as a decision."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from mainspring import Mainspring
from mainspring.processes.record.decision import Decision
from mainspring.processes.record.recorder import Recorder
from mainspring.tasks.declare.recording import recorder

URL = "postgresql://nobody@localhost/nothing"  # never connected to


def application() -> Mainspring:
    return Mainspring(URL)


def record(
    function: Callable[..., Any], *args: Any, given: Collection[str] = (), **settings: Any
) -> Decision:
    """The decision of a function run as a decider."""
    records = Recorder(given, decider=function.__name__, **settings)
    mark = recorder.set(records)
    try:
        returned = function(*args)
    finally:
        recorder.reset(mark)
    return records.conclude(returned, encode)


def encode(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


@dataclass
class Given:
    """An input of a task, as it is handed out."""

    promise: str = "p"
    kind: str = "value"
    outcome: str | None = "ok"
    result: str | None = None
    error: Any = None
