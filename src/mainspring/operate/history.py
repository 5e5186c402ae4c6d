"""History: what was run, searched by queue, key, time, outcome, error and payload field (T7).

Every search rides an index. Fields that a queue declares searchable have one; others are compared
row by row and therefore only within a time span that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.sql import Statement
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.errors import InvalidSetting
from mainspring.kernel import KERNEL_SQL, read_now
from mainspring.operate.keys import stored_keys
from mainspring.operate.statements import SQL
from mainspring.redact import read_rules
from mainspring.redact.shown import shown_result, shown_visit

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
    fields: Mapping[str, object] = field(default_factory=dict)

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
    tx: Tx,
    wanted: HistoryFilter,
    *,
    limit: int = 100,
    before: HistoryPosition | None = None,
) -> list[PastRun]:
    """A page of past runs, newest first; the next page begins before its last one."""
    values = await _values(tx, wanted)
    values |= {
        "most": check_page(limit),
        "before_at": before.at if before else None,
        "before_run": before.run if before else None,
    }
    statement = _statement(wanted, is_indexed=values["searchable"] is not None)
    found: list[PastRun] = []
    if wanted.queue is None and wanted.key is None:
        for begin in _spans(wanted, before, await read_now(tx)):
            found = await tx.rows(SQL["search_all"], PastRun, **values | {"since": begin})
            if len(found) == limit:
                break
    if len(found) < limit:
        found = await tx.rows(statement, PastRun, **values)
    rules = await read_rules(tx)
    return [
        replace(shown_visit(r, rules, r.ended_at), result=shown_result(r, rules)) for r in found
    ]


def _spans(
    wanted: HistoryFilter, before: HistoryPosition | None, now: datetime
) -> Iterator[datetime]:
    """Where spans begin in which the newest runs of all queues are looked for, before all is."""
    ends = (before.at if before else None, wanted.until, now)
    end = min(at for at in ends if at is not None)
    for span in SPANS:
        if wanted.since is not None and end - span <= wanted.since:
            return
        yield end - span


async def count_history(database: Database, tx: Tx, wanted: HistoryFilter) -> int:
    """How many past runs fit (superseded ones left out)."""
    values = await _values(tx, wanted)
    statement = SQL["count_history" if wanted.key is None else "count_key"]
    return await tx.one(statement, int, **values)


class PutBackAnswer(NamedTuple):
    """What became of one past task."""

    run: int
    queue: str
    key: str
    id: UUID
    answer: str
    hints: int


async def put_back(
    database: Database,
    tx: Tx,
    past: Sequence[PastRun],
    *,
    until: datetime,
    fresh_ids: bool = False,
) -> list[PutBack]:
    """Put past tasks back to run again (T6); of one that ran several times until then, the last."""
    answers = await tx.rows(
        KERNEL_SQL["put_back"],
        PutBackAnswer,
        keys=[p.key for p in past],
        runs=[p.run for p in past],
        days=[p.day for p in past],
        fresh_ids=fresh_ids,
        until=until,
    )
    return [PutBack(a.run, a.queue, a.key, a.id, a.answer) for a in answers]


def field_text(value: object) -> str:
    """A field's value as the payload shows it in SQL: text as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _statement(wanted: HistoryFilter, *, is_indexed: bool) -> Statement:
    """The search that rides the best index for what is asked."""
    if wanted.key is not None:
        return SQL["search_key"]
    if is_indexed:
        return SQL["search_field"]
    failed = wanted.outcomes is None or set(wanted.outcomes) <= {"retry", "parked"}
    if wanted.error_type is not None and failed:
        return SQL["search_failed"]
    return SQL["search_all" if wanted.queue is None else "search_history"]


async def _values(tx: Tx, wanted: HistoryFilter) -> dict[str, object]:
    indexed, compared = await _fields(tx, wanted)
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


async def _fields(tx: Tx, wanted: HistoryFilter) -> tuple[list[str], dict[str, str]]:
    """The fields that the index answers, and those that are compared row by row."""
    if not wanted.fields:
        return [], {}
    declared = await tx.first(SQL["read_searchable"], set[str], queue=wanted.queue) or set()
    texts = {name: field_text(value) for name, value in wanted.fields.items()}
    (await read_rules(tx)).check_search(wanted.queue, texts)
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
