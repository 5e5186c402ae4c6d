"""History: what was run, searched by queue, key, time, outcome, error and payload field (T7).

Every search rides an index. Fields that a queue declares searchable have one; others are compared
row by row and therefore only within a time span that the caller names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting
from mainspring.kernel.keys import stored_keys
from mainspring.kernel.query import ask, check_page, decoded

OUTCOMES = ("done", "again", "retry", "parked", "cancelled", "expired")
# How a task can have ended for good: only such can be put back.
FINAL = ("done", "cancelled", "expired")
# Without a queue the newest runs are looked for in spans that grow: most often the first has them.
SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7))
_TEXT_MOST = 500  # characters of 'field=value' that the index keeps


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which past runs. `key` is an id or the key within `group`; `error` a part of the error's
    text; `fields` are payload fields."""

    queue: str | None = None
    key: str | None = None
    group: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    outcomes: Sequence[str] | None = None
    error: str | None = None
    error_type: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for outcome in self.outcomes or ():
            if outcome not in OUTCOMES:
                raise InvalidSetting(
                    f"outcome must be one of {', '.join(OUTCOMES)}, got {outcome!r}"
                )
        if self.fields and self.queue is None:
            raise InvalidSetting(
                f"a search by field {sorted(self.fields)[0]!r} needs the queue: "
                "fields mean something in their own queue only"
            )


@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """Where a page of history ends: the next one begins below it."""

    at: datetime
    run: int


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run, or the calling off of a visit (its worker is then the nil id)."""

    day: date
    run: int
    id: UUID
    queue: str
    key: str
    group: str | None
    priority: int
    attempt: int  # 1 is the first
    outcome: str
    superseded: bool
    worker_id: UUID
    created_at: datetime
    due_at: datetime
    started_at: datetime
    ended_at: datetime
    duration_ms: float
    error_type: str | None
    error: str | None
    payload: Any
    result: Any

    @property
    def position(self) -> HistoryPosition:
        return HistoryPosition(self.ended_at, self.run)


@dataclass(frozen=True, slots=True)
class PutBack:
    """What became of the wish to put a past task back: 'put back', 'live' or 'repeated'."""

    run: int
    queue: str
    key: str
    id: UUID
    answer: str


async def search_history(
    database: Database,
    connection: Any,
    wanted: HistoryFilter,
    *,
    limit: int = 100,
    before: HistoryPosition | None = None,
) -> list[PastRun]:
    """A page of past runs, newest first; the next page begins before its last one."""
    values = await _values(database, connection, wanted)
    values |= {
        "most": check_page(limit),
        "before_at": before.at if before else None,
        "before_run": before.run if before else None,
    }
    statement = _statement(values)
    if wanted.queue is None and statement in ("search_all", "search_failed"):
        rows = await _search_spans(database, connection, statement, values)
    else:
        rows = await ask(database, connection, statement, **values)
    return [_past(row) for row in rows]


async def _search_spans(
    database: Database, connection: Any, statement: str, values: dict[str, Any]
) -> list[Any]:
    """The newest runs of all queues: of a short span, of longer ones until the page is full, of all."""
    now = (await ask(database, connection, "read_clock"))[0]["now"]
    end = min(at for at in (values["before_at"], values["until"], now) if at is not None)
    first = values["since"]
    for span in SPANS:
        begin = end - span
        if first is not None and begin <= first:
            break
        rows = await ask(database, connection, "search_all", **{**values, "since": begin})
        if len(rows) == values["most"]:
            return rows
    return await ask(database, connection, statement, **values)


async def count_history(database: Database, connection: Any, wanted: HistoryFilter) -> int:
    """How many past runs fit (superseded ones left out)."""
    values = await _values(database, connection, wanted)
    statement = "count_history" if values["keys"] is None else "count_key"
    rows = await ask(database, connection, statement, **values)
    return int(rows[0]["count"])


async def put_back(
    database: Database,
    connection: Any,
    past: Sequence[PastRun],
    *,
    until: datetime,
    fresh_ids: bool = False,
) -> list[PutBack]:
    """Put past tasks back to run again (T6); of one that ran several times until then, the last."""
    rows = await ask(
        database,
        connection,
        "put_back",
        keys=[p.key for p in past],
        runs=[p.run for p in past],
        days=[p.day for p in past],
        fresh_ids=fresh_ids,
        until=until,
    )
    return [PutBack(r["run"], r["queue"], r["key"], r["id"], r["answer"]) for r in rows]


def field_text(value: Any) -> str:
    """A field's value as the payload shows it in SQL: text as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _statement(values: Mapping[str, Any]) -> str:
    """The search that rides the best index for what is asked."""
    if values["keys"] is not None:
        return "search_key"
    if values["searchable"] is not None:
        return "search_field"
    failed = values["outcomes"] is None or set(values["outcomes"]) <= {"retry", "parked"}
    if values["error_type"] is not None and failed:
        return "search_failed"
    return "search_all" if values["queue"] is None else "search_history"


async def _values(database: Database, connection: Any, wanted: HistoryFilter) -> dict[str, Any]:
    indexed, compared = await _fields(database, connection, wanted)
    return {
        "queue": wanted.queue,
        "keys": None if wanted.key is None else stored_keys(wanted.key, wanted.group),
        "grp": wanted.group,
        "since": wanted.since,
        "until": wanted.until,
        "outcomes": None if wanted.outcomes is None else list(wanted.outcomes),
        "error": wanted.error,
        "error_type": wanted.error_type,
        "searchable": indexed or None,
        "fields": list(compared),
        "texts": list(compared.values()),
    }


async def _fields(
    database: Database, connection: Any, wanted: HistoryFilter
) -> tuple[list[str], dict[str, str]]:
    """The fields that the index answers, and those that are compared row by row."""
    if not wanted.fields:
        return [], {}
    rows = await ask(database, connection, "read_searchable", queue=wanted.queue)
    declared = set(rows[0]["searchable"]) if rows else set()
    texts = {name: field_text(value) for name, value in wanted.fields.items()}
    indexed = [f"{name}={text}"[:_TEXT_MOST] for name, text in texts.items() if name in declared]
    compared = {name: text for name, text in texts.items() if name not in declared}
    bounded = wanted.since is not None or wanted.key is not None or indexed
    if compared and not bounded:
        raise InvalidSetting(
            f"queue {wanted.queue!r} does not declare {sorted(compared)[0]!r} searchable, so only "
            "a named time span can be searched by it: give since, or declare "
            "@app.task(searchable=[...])"
        )
    return indexed, compared


def _past(row: Any) -> PastRun:
    values = dict(row)
    values["payload"] = decoded(values["payload"])
    values["result"] = decoded(values["result"])
    return PastRun(group=values.pop("grp"), **values)
