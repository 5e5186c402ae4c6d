"""Finding processes: by type, state, id, time, attributes, error and task; parked ones in groups.

Filters are plain data: they are what operations take, and they can be kept under a name.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.sql import words
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.errors import InvalidSetting, NotFound
from mainspring.phrases import nearest
from mainspring.processes.statements import SQL
from mainspring.redact import NOTHING, Redactor, Rules, read_rules
from mainspring.tasks.declare.options import check_time

STATES = ("open", "finished", "cancelled")
# Fewer processes than these that have a task are looked up; else those that have it are not far apart.
FEW = 300


class ProcessFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which processes are meant. All conditions must hold; without any, all processes are.

    `id`: the process's id or the user's. `task`: has a task of this actor. `error` (a text in it, or
    its type), `fingerprint`, `parked`: has a parked task of that kind (of `task`, if given).
    """

    type: str | None = None
    state: str | None = None
    id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    attrs: dict[str, Any] | None = None
    task: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    parked: bool = False
    inconsistent: bool = False

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise InvalidSetting(
                f"state must be one of {', '.join(STATES)}, got {self.state!r}"
                f"{nearest(self.state, STATES)}; parked tasks are found by parked=True"
            )
        check_time("since", self.since)
        check_time("until", self.until)

    @property
    def is_empty(self) -> bool:
        """Whether it means every process there is: an empty text or set of attributes is no condition."""
        return not any(msgspec.structs.astuple(self))

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> ProcessFilter:
        return msgspec.json.decode(text, type=ProcessFilter)

    def values(self) -> dict[str, object]:
        """The arguments of search_processes.sql that it gives."""
        return {
            "type": self.type,
            "state": self.state,
            "id": self.id,
            "uuid": _uuid(self.id),
            "since": self.since,
            "until": self.until,
            "attrs": None if not self.attrs else msgspec.json.encode(self.attrs).decode(),
            "inconsistent": self.inconsistent,
            "parked": self.parked or self.error is not None or self.fingerprint is not None,
            "actor": self.task,
            "fingerprint": self.fingerprint,
            "error": self.error,
        }


def _uuid(text: str | None) -> str | None:
    """A process's own id, if the text can be one."""
    try:
        return None if text is None else str(UUID(text))
    except ValueError:
        return None


class FoundProcess(msgspec.Struct, frozen=True):
    """A process in a list."""

    id: str
    type: str
    key: str
    state: str
    attrs: dict[str, Any]
    created_at: datetime
    ended_at: datetime | None
    generation: int
    inconsistent: str | None
    parked: int
    cancelling: bool = False  # its compensations run

    @property
    def position(self) -> tuple[datetime, str]:
        """From where the next page goes on."""
        return (self.created_at, self.id)


class ProcessRow(NamedTuple):
    """A row of search_processes.sql."""

    id: str
    type: str
    key: str
    state: str
    attrs: str  # JSON
    created_at: datetime
    ended_at: datetime | None
    generation: int
    inconsistent: str | None
    parked: int
    cancelling: bool

    def found(self, rule: Redactor = NOTHING) -> FoundProcess:
        """With its attributes read, but for those that are hidden."""
        attrs = msgspec.json.decode(self.attrs, type=dict[str, Any])
        return FoundProcess(**{**self._asdict(), "attrs": rule.value(attrs)})


class ParkedTaskGroup(msgspec.Struct, frozen=True):
    """Parked tasks that failed alike."""

    type: str
    actor: str
    fingerprint: str
    error_type: str | None
    count: int
    first_at: datetime
    last_at: datetime
    example: str | None
    process_id: str  # of the newest


class Repair(msgspec.Struct, frozen=True):
    """A defect that was found and repaired, by whom."""

    process_id: str
    task: str | None
    rule: str
    detail: str
    source: str
    repaired_at: datetime


# What a filter is kept for.


async def search(
    tx: Tx,
    wanted: ProcessFilter,
    *,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
) -> list[FoundProcess]:
    """Processes, newest first; `before` is the position of the last one of the page before."""
    values = wanted.values()
    rules = await check_search(tx, wanted)
    among = None
    if wanted.task is not None and not values["parked"]:
        among = await _with_task(tx, wanted.task)
    rows = await tx.rows(
        SQL["search_processes"],
        ProcessRow,
        **values,
        among=None if among is None else words(among),
        before_at=None if before is None else before[0],
        before_id=None if before is None else before[1],
        limit=check_page(limit),
    )
    return [row.found(rules.of(row.type)) for row in rows]


async def check_search(tx: Tx, wanted: ProcessFilter) -> Rules:
    """What is hidden; refuses a search by attributes that would tell it."""
    rules = await read_rules(tx)
    texts = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in (wanted.attrs or {}).items()
    }
    rules.check_search(wanted.type, texts)
    return rules


async def _with_task(tx: Tx, actor: str) -> list[str] | None:
    """The processes that have such a task, if they are few; of many a page is soon found."""
    found = await tx.rows(SQL["find_processes_of_task"], str, actor=actor, most=FEW)
    return found if len(found) < FEW else None


async def find_process(tx: Tx, id: str) -> FoundProcess:
    """The process of an id, or of a user's id that one type has; an error otherwise."""
    found = await search(tx, ProcessFilter(id=id), limit=5)
    if not found:
        raise NotFound(
            f"no process has the id {id!r}: it was never committed, or it was dropped by age"
        )
    if len(found) > 1:
        known = ", ".join(f"{p.type} {p.id}" for p in found)
        raise NotFound(f"several processes have the id {id!r}; name one by its own id: {known}")
    return found[0]


async def group_parked(
    tx: Tx, *, type: str | None = None, actor: str | None = None
) -> list[ParkedTaskGroup]:
    """Parked tasks by process type, actor and fingerprint, the largest group first."""
    found = await tx.rows(SQL["group_parked"], ParkedTaskGroup, type=type, actor=actor)
    rules = await read_rules(tx)
    if not rules:
        return found
    return [
        msgspec.structs.replace(
            g, example=g.example and rules.message([g.actor], g.example, g.last_at)
        )
        for g in found
    ]


async def list_repairs(tx: Tx, *, limit: int = 50) -> list[Repair]:
    """Repairs, newest first."""
    return await tx.rows(SQL["list_repairs"], Repair, limit=check_page(limit))
