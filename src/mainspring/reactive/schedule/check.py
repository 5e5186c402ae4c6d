"""Checking a trigger: read everything in one statement, decide in memory, write if the turn holds.

A param is a value, so a check always reads what is true now and offers may merge at will. Two tokens
decide: the visit's version (the kernel's) sees to it that no change is missed, the task's turn that no
verdict on an old state starts anything. A visit that is superseded meanwhile comes again; a firing
that was written stands. Trees are data in the database: no user code is needed here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.errors import UnknownFormat
from mainspring.kernel import Again, Done, Outcome, new_ids, token, tokens
from mainspring.reactive.decide.decide import (
    Current,
    Definition,
    Fire,
    View,
    Wait,
    decide,
    leaf_bits,
    leaves_json,
)
from mainspring.reactive.decide.evaluate import Verdict
from mainspring.reactive.decide.rewinds import Rewind, SeenValue
from mainspring.reactive.declare.params import from_raw
from mainspring.reactive.model import codec
from mainspring.reactive.model.gates import load_gates
from mainspring.reactive.model.values import Value, moment_of
from mainspring.reactive.queues import Offered, nobody
from mainspring.reactive.statements import ask, ask_patiently

log = logging.getLogger("mainspring")
_decode = msgspec.json.decode
NEWER_SECONDS = 1.0  # a trigger that this release cannot read is left to another worker
LOCKED_SECONDS = 0.02  # the state was locked, or moved on: look again


class Definitions:
    """Definitions by fingerprint: they never change, so what is kept here cannot be stale."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Definition | str] = {}

    async def load(self, connection: Any, fingerprints: Sequence[str]) -> None:
        """Have these at hand."""
        missing = sorted({f for f in fingerprints if f not in self._known})
        if not missing:
            return
        rows = await ask(self._database, connection, "read_definitions", fingerprints=missing)
        for row in rows:
            self._known[row["fingerprint"]] = _definition(row)

    def get(self, fingerprint: str) -> Definition | str:
        """The definition, or why this release cannot read it."""
        return self._known.get(fingerprint, "its definition is missing")


def _definition(row: Any) -> Definition | str:
    try:
        options = _decode(row["options"])
        return Definition(
            trigger=codec.load(_decode(row["tree"]), format=row["format"]),
            gates=load_gates(options["gates"]),
            on_rewind=options["on_rewind"],
        )
    except UnknownFormat as error:
        return str(error)


@dataclass(slots=True)
class Checked:
    """A task that was looked at."""

    row: Any
    decision: Fire | Wait
    kind: str = "regular"
    record: bool = True

    @property
    def verdict(self) -> Verdict | None:
        return self.decision.verdict


async def read_tasks(
    database: Database,
    connection: Any,
    tasks: Iterable[str] = (),
    *,
    users_of: Sequence[str] = (),
    most: int | None = None,
) -> list[Any]:
    """All that the checks of these tasks, or of those that use these params, have to know."""
    names = sorted(set(tasks))
    return await ask(
        database, connection, "read_checks", tasks=names, params=list(users_of), most=most
    )


def view_of(row: Any) -> View:
    """A row of read_checks.sql as the decision wants it."""
    params: dict[str, list[Any]] = _decode(row["params"] or "{}")
    seen: dict[str, list[Any]] = _decode(row["seen"])
    since: dict[str, list[Rewind]] = {}
    for key, number, raw, chunks in _decode(row["rewinds"] or "[]"):
        kind = params[key][3]
        to = from_raw(kind, raw)
        since.setdefault(key, []).append(Rewind(number, to, tuple(map(moment_of, chunks))))
    return View(
        seen={
            key: SeenValue(_value(params[key][3], raw), rewinds)
            for key, (raw, rewinds) in seen.items()
            if key in params
        },
        rewinds_since=since,
        current={
            key: Current(_value(kind, raw), rewinds, _moment(changed))
            for key, (raw, rewinds, changed, kind) in params.items()
        },
        retry_at=row["retry_at"],
        verdict=row["verdict"],
        since=row["since"],
        fired_at=row["last_fired_at"],
        succeeded_at=row["succeeded_at"],
        ended_at=row["ended_at"],
    )


def _value(kind: Any, raw: Any) -> Value | None:
    return None if raw is None else from_raw(kind, raw)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else moment_of(micros)


class Check:
    """Serves the check visits of a worker."""

    def __init__(
        self, database: Database, definitions: Definitions, *, offered: Offered = nobody
    ) -> None:
        self._database = database
        self._definitions = definitions
        self._offered = offered

    async def __call__(self, connection: Any, tasks: Sequence[str]) -> list[Outcome]:
        """Look at these tasks; fire those whose time has come."""
        rows = await read_tasks(self._database, connection, tasks)
        outcomes = await self.judge(connection, rows)
        return [outcomes.get(task, Done()) for task in tasks]

    async def judge(self, connection: Any, rows: Sequence[Any]) -> dict[str, Outcome]:
        """Decide about tasks as they were read, and write it; answers the outcome of each."""
        await self._definitions.load(connection, [row["fingerprint"] for row in rows])
        outcomes: dict[str, Outcome] = {}
        checked: list[Checked] = []
        for row in rows:
            found = self.look(row)
            if isinstance(found, Checked):
                checked.append(found)
            else:
                outcomes[row["task"]] = found
        news = [c for c in checked if is_news(c)]
        written = await self.write(connection, news) if news else set()
        missed = {c.row["task"] for c in news} - written
        for c in checked:
            outcomes[c.row["task"]] = _outcome(c, missed)
        return outcomes

    def look(self, row: Any) -> Checked | Outcome:
        """Decide about a task, as it was read."""
        if row["in_flight"] or row["paused"] or row["retired"]:
            return Done()  # the end, the resumption, the return offers a check
        definition = self._definitions.get(row["fingerprint"])
        if isinstance(definition, str):
            return Again(after=NEWER_SECONDS, error=definition)
        decision = decide(definition, view_of(row), row["now"])
        if row["request"] is not None:
            request = _decode(row["request"])
            cause = f"asked for by {request.get('by') or 'somebody'}"
            fire = Fire(decision.verdict, cause)
            return Checked(row, fire, kind="manual", record=bool(request.get("record")))
        return Checked(row, decision)

    async def write(self, connection: Any, checked: Sequence[Checked]) -> set[str]:
        """Write firings and news; answers the tasks whose turn was still the one that was read."""
        ordered = sorted(checked, key=lambda c: c.row["task"])
        count = len(ordered)
        fires = [isinstance(c.decision, Fire) for c in ordered]
        rows = await ask_patiently(
            self._database,
            connection,
            "write_checks",
            tasks=[c.row["task"] for c in ordered],
            addresses=[c.row["address"] for c in ordered],
            turns=[c.row["turn"] for c in ordered],
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
        for queue, due_at in {(row["queue"], row["due_at"]) for row in rows if row["fires"]}:
            self._offered(queue, due_at)
        return {row["task"] for row in rows}


def _captured(row: Any) -> str:
    """The values of all params of the tree as this check saw them; null where there is none."""
    params: dict[str, list[Any]] = _decode(row["params"] or "{}")
    kept = {key: None if v[0] is None else [v[0], v[1]] for key, v in params.items()}
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
    if verdict.true != checked.row["verdict"]:
        return True
    stored = _decode(checked.row["leaves"] or "[]")
    return leaf_bits(verdict) != tuple(leaf["true"] for leaf in stored)


def _outcome(checked: Checked, missed: set[str]) -> Outcome:
    if checked.row["task"] in missed:
        return Again(after=LOCKED_SECONDS)
    if isinstance(checked.decision, Wait) and checked.decision.again_at is not None:
        return Again(at=checked.decision.again_at)
    return Done()
