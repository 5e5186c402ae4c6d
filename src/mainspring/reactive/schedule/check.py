"""Checking a trigger: read everything in one statement, decide in memory, write if the turn holds.

A param is a value, so a check always reads what is true now and offers may merge at will. Two tokens
decide: the visit's version (the kernel's) sees to it that no change is missed, the task's turn that no
verdict on an old state starts anything. A visit that is superseded meanwhile comes again; a firing
that was written stands. Trees are data in the database: no user code is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import asyncpg
import msgspec

from mainspring.db.tx import Tx
from mainspring.errors import UnknownFormat
from mainspring.ids import new_ids, token, tokens
from mainspring.kernel import Again, Done, Outcome
from mainspring.reactive.decide.decide import (
    Current,
    Definition,
    Fire,
    OnRewind,
    RawRewind,
    SeenValue,
    View,
    Wait,
    decide,
    leaf_bits,
    leaves_json,
    rewinds_of,
)
from mainspring.reactive.decide.evaluate import Verdict
from mainspring.reactive.model import codec
from mainspring.reactive.model.gates import StoredGates, load_gates
from mainspring.reactive.model.values import Kind, Raw, RawSeen, Value, from_raw, moment_of
from mainspring.reactive.queues import Offered, nobody
from mainspring.reactive.statements import SQL

NEWER_SECONDS = 1.0  # a trigger that this release cannot read is left to another worker
LOCKED_SECONDS = 0.02  # the state was locked, or moved on: look again
PATIENCE = 10  # waits of a lock timeout each


class DefinitionRow(NamedTuple):
    """A definition as it is stored."""

    fingerprint: str
    format: int
    tree: str
    options: str


class StoredOptions(msgspec.Struct):
    """What else decides with a trigger."""

    gates: StoredGates
    on_rewind: OnRewind


class TaskRow(NamedTuple):
    """All that the check of a task has to know, of one snapshot. Texts are JSON."""

    task: str
    address: str
    fingerprint: str
    turn: int
    in_flight: bool
    paused: bool
    retired: bool
    request: str | None
    seen: str
    retry_at: datetime | None
    succeeded_at: datetime | None
    ended_at: datetime | None
    last_fired_at: datetime | None
    verdict: bool | None
    leaves: str | None
    since: datetime | None
    now: datetime
    params: str | None
    rewinds: str | None


class RawParam(NamedTuple):
    """A param as it is now; when it changed is read for a task with a debounce only."""

    value: Raw | None
    rewinds: int
    changed: int | None
    kind: Kind


class RunRequest(msgspec.Struct):
    """A manual run that somebody asked for."""

    record: bool = False
    by: str | None = None


class StoredLeaf(msgspec.Struct):
    """The verdict on a leaf at the last check that was stored."""

    true: bool


class WrittenCheck(NamedTuple):
    """A task whose check was written; one that fires has a visit in its run queue."""

    task: str
    queue: str
    fires: bool
    due_at: datetime
    hints: int


_options = msgspec.json.Decoder(StoredOptions).decode
_params = msgspec.json.Decoder(dict[str, RawParam]).decode
_seen = msgspec.json.Decoder(dict[str, RawSeen]).decode
_rewinds = msgspec.json.Decoder(list[RawRewind]).decode
_request = msgspec.json.Decoder(RunRequest).decode
_stored_leaves = msgspec.json.Decoder(list[StoredLeaf]).decode


class Definitions:
    """Definitions by fingerprint: they never change, so what is kept here cannot be stale."""

    def __init__(self) -> None:
        self._known: dict[str, Definition | str] = {}

    async def load(self, tx: Tx, fingerprints: Iterable[str]) -> None:
        """Have these at hand."""
        missing = sorted({f for f in fingerprints if f not in self._known})
        if missing:
            for row in await tx.rows(SQL["read_definitions"], DefinitionRow, fingerprints=missing):
                self._known[row.fingerprint] = _definition(row)

    def get(self, fingerprint: str) -> Definition | str:
        """The definition, or why this release cannot read it."""
        return self._known.get(fingerprint, "its definition is missing")


def _definition(row: DefinitionRow) -> Definition | str:
    try:
        trigger = codec.load(msgspec.json.decode(row.tree), format=row.format)
        options = _options(row.options)
        return Definition(trigger, load_gates(options.gates), options.on_rewind)
    except UnknownFormat as error:
        return str(error)


@dataclass(slots=True)
class Checked:
    """A task that was looked at."""

    row: TaskRow
    decision: Fire | Wait
    kind: str = "regular"
    record: bool = True

    @property
    def verdict(self) -> Verdict | None:
        return self.decision.verdict


async def read_tasks(
    tx: Tx, tasks: Iterable[str] = (), *, users_of: Sequence[str] = (), most: int | None = None
) -> list[TaskRow]:
    """All that the checks of these tasks, or of those that use these params, have to know."""
    names = sorted(set(tasks))
    return await tx.rows(SQL["read_checks"], TaskRow, tasks=names, params=list(users_of), most=most)


def view_of(row: TaskRow) -> View:
    """A task as the decision wants it."""
    params = _params_of(row)
    seen = _seen(row.seen)
    return View(
        seen={
            key: SeenValue(_value(params[key].kind, raw.value), raw.rewinds)
            for key, raw in seen.items()
            if key in params
        },
        rewinds_since=rewinds_of(
            _rewinds(row.rewinds or "[]"), {key: param.kind for key, param in params.items()}
        ),
        current={
            key: Current(_value(kind, raw), rewinds, _moment(changed))
            for key, (raw, rewinds, changed, kind) in params.items()
        },
        retry_at=row.retry_at,
        verdict=row.verdict,
        since=row.since,
        fired_at=row.last_fired_at,
        succeeded_at=row.succeeded_at,
        ended_at=row.ended_at,
    )


def _params_of(row: TaskRow) -> Mapping[str, RawParam]:
    return _params(row.params or "{}")


def _value(kind: Kind, raw: Raw | None) -> Value | None:
    return None if raw is None else from_raw(kind, raw)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else moment_of(micros)


class Check:
    """Serves the check visits of a worker."""

    def __init__(self, definitions: Definitions, *, offered: Offered = nobody) -> None:
        self._definitions = definitions
        self._offered = offered

    async def __call__(self, tx: Tx, tasks: Sequence[str]) -> list[Outcome]:
        """Look at these tasks; fire those whose time has come."""
        outcomes = await self.judge(tx, await read_tasks(tx, tasks))
        return [outcomes.get(task, Done()) for task in tasks]

    async def judge(self, tx: Tx, rows: Sequence[TaskRow]) -> dict[str, Outcome]:
        """Decide about tasks as they were read, and write it; returns the outcome of each."""
        await self._definitions.load(tx, [row.fingerprint for row in rows])
        outcomes: dict[str, Outcome] = {}
        checked: list[Checked] = []
        for row in rows:
            found = self.look(row)
            if isinstance(found, Checked):
                checked.append(found)
            else:
                outcomes[row.task] = found
        news = [c for c in checked if is_news(c)]
        written = await self.write(tx, news) if news else set()
        missed = {c.row.task for c in news} - written
        for c in checked:
            outcomes[c.row.task] = _outcome(c, missed)
        return outcomes

    def look(self, row: TaskRow) -> Checked | Outcome:
        """Decide about a task, as it was read."""
        if row.in_flight or row.paused or row.retired:
            return Done()  # the end, the resumption, the return offers a check
        definition = self._definitions.get(row.fingerprint)
        if isinstance(definition, str):
            return Again(after=NEWER_SECONDS, error=definition)
        decision = decide(definition, view_of(row), row.now)
        if row.request is not None:
            request = _request(row.request)
            fire = Fire(decision.verdict, f"asked for by {request.by or 'somebody'}")
            return Checked(row, fire, kind="manual", record=request.record)
        return Checked(row, decision)

    async def write(self, tx: Tx, checked: Sequence[Checked]) -> set[str]:
        """Write firings and news; returns the tasks whose turn was still the one that was read."""
        ordered = sorted(checked, key=lambda c: c.row.task)
        count = len(ordered)
        fires = [isinstance(c.decision, Fire) for c in ordered]
        rows = await _write_patiently(
            tx,
            tasks=[c.row.task for c in ordered],
            addresses=[c.row.address for c in ordered],
            turns=[c.row.turn for c in ordered],
            fires=fires,
            firings=[drawn if f else None for f, drawn in zip(fires, tokens(count), strict=True)],
            new_turns=list(tokens(count)),
            kinds=[c.kind for c in ordered],
            records=[c.record for c in ordered],
            captured=[_captured(c.row) for c in ordered],
            verdicts=[None if c.verdict is None else c.verdict.true for c in ordered],
            leaves=[_leaves(c.verdict) for c in ordered],
            causes=[c.decision.cause for c in ordered],
            noted=[c.verdict is not None or isinstance(c.decision, Fire) for c in ordered],
            ids=new_ids(count),
            token=token() >> 1,
        )
        for queue, due_at in {(row.queue, row.due_at) for row in rows if row.fires}:
            self._offered(queue, due_at)
        return {row.task for row in rows}


async def _write_patiently(tx: Tx, **values: object) -> list[WrittenCheck]:
    """Send it again while another scheduler has what it waits for. It compares what it writes to, and is
    alone in its transaction: so it may be sent twice."""
    for _ in range(PATIENCE):
        try:
            return await tx.rows(SQL["write_checks"], WrittenCheck, **values)
        except asyncpg.LockNotAvailableError:
            continue
    return await tx.rows(SQL["write_checks"], WrittenCheck, **values)


def _captured(row: TaskRow) -> str:
    """The values of all params of the tree as this check saw them; null where there is none."""
    params = _params_of(row)
    kept = {
        key: None if p.value is None else RawSeen(p.value, p.rewinds) for key, p in params.items()
    }
    return msgspec.json.encode(kept).decode()


def _leaves(verdict: Verdict | None) -> str | None:
    return None if verdict is None else msgspec.json.encode(leaves_json(verdict)).decode()


def is_news(checked: Checked) -> bool:
    """Whether there is anything to write: a firing, or another verdict of the tree or a leaf."""
    if isinstance(checked.decision, Fire):
        return True
    verdict = checked.verdict
    if verdict is None:
        return False
    if verdict.true != checked.row.verdict:
        return True
    stored = _stored_leaves(checked.row.leaves or "[]")
    return leaf_bits(verdict) != tuple(leaf.true for leaf in stored)


def _outcome(checked: Checked, missed: set[str]) -> Outcome:
    if checked.row.task in missed:
        return Again(after=LOCKED_SECONDS)
    if isinstance(checked.decision, Wait) and checked.decision.again_at is not None:
        return Again(at=checked.decision.again_at)
    return Done()
