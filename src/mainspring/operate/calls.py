"""Live calls of tasks by a filter: what bulk orders are carried out on. Nothing here locks.

Steps of processes, and visits of the engine and of other layers, are no calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.operate.keys import stored_keys
from mainspring.operate.parked import ParkedPlace
from mainspring.operate.statements import SQL
from mainspring.operate.visits import STATES
from mainspring.redact import read_rules

WINDOW = 2000  # rows that are looked at for one page: most of them may not fit


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls: all conditions hold. `key` is an id or the key within `group`; `state` is waiting,
    scheduled, running or parked; `fields` are arguments by name, compared as text; `since` and `until` are
    about when a call was enqueued."""

    queue: str | None = None
    key: str | None = None
    group: str | None = None
    state: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise InvalidSetting(f"state must be one of {', '.join(STATES)}, got {self.state!r}")

    @property
    def is_empty(self) -> bool:
        """Whether it means all of them: an empty text is no condition."""
        return not any(asdict(self).values())


@dataclass(frozen=True, slots=True)
class CallWindow:
    """The rows after a key that were looked at."""

    count: int
    last: str | None


class CallsPage(NamedTuple):
    """Calls that fit, and the key after which to go on; None: there are no more."""

    places: list[ParkedPlace]
    after: str | None


async def page_calls(
    database: Database, tx: Tx, wanted: CallFilter, after: str | None
) -> CallsPage:
    """The calls that fit among the next so many rows, in the order of keys."""
    texts = {name: _text(value) for name, value in wanted.fields.items()}
    if texts:
        (await read_rules(tx)).check_search(wanted.queue, texts)
    window = await tx.one(SQL["page_visits"], CallWindow, after=after, most=WINDOW)
    if window.last is None:
        return CallsPage([], None)
    found = await tx.rows(
        SQL["list_calls"],
        ParkedPlace,
        after=after,
        upto=window.last,
        queue=wanted.queue,
        grp=wanted.group,
        keys=None if wanted.key is None else stored_keys(wanted.key, wanted.group),
        state=wanted.state,
        names=list(wanted.fields),
        texts=list(texts.values()),
        since=wanted.since,
        until=wanted.until,
    )
    return CallsPage(found, window.last if window.count == WINDOW else None)


async def count_calls(database: Database, tx: Tx, wanted: CallFilter) -> int:
    """How many there are."""
    count, after = 0, None
    while True:
        page = await page_calls(database, tx, wanted, after)
        count += len(page.places)
        if (after := page.after) is None:
            return count


def _text(value: object) -> str:
    """As PostgreSQL shows a field of JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
