"""Events as their rows in the outbox have them, and as one consumer gets them.

What a consumer has is deleted from the outbox, in the transaction that settles its run.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring import crash_points
from mainspring.db.database import Connection
from mainspring.db.tx import Tx
from mainspring.entities.declare.consumer import Consumer
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import typed_id
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.partial_model import model_of
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.state import Stored
from mainspring.entities.statements import SQL
from mainspring.kernel import Run, Verdict, lock_visits


class WaitingEvent(NamedTuple):
    """An event that waits for a consumer, as its row has it."""

    n: int  # of the question, from 1
    number: int
    stage: str | None
    what: str
    entity_version: int | None
    state_version: int | None
    body: str | None
    created_at: datetime
    outside: bool
    replay: int | None


class EventBody(msgspec.Struct):
    """What an event carries, in JSON."""

    entity: dict[str, object] | None = None
    state: object = None
    schema: int = 1  # of the state
    changed: dict[str, object] | None = None


_body = msgspec.json.Decoder(EventBody).decode


class Events:
    """Rows of the outbox as one consumer gets them. What they are read by is made once: a model of some
    fields costs as much as many events."""

    def __init__(self, kind: DeclaredKind, consumer: Consumer) -> None:
        self._kind = kind
        self._consumer = consumer
        self._part: Model | None = None
        if consumer.stage is not None and consumer.stage.settings.reads is not None:
            self._part = model_of(kind, consumer.stage)
        # A stage by its name, and by those that it had when an event was written.
        self._stages: dict[str, Stage] = {}
        for found in kind.stages.values():
            for name in (found.name, *found.settings.was):
                self._stages.setdefault(name, found)

    def read(self, key: str, row: WaitingEvent) -> Saved:
        """The event of a row."""
        if not self._consumer.decodes:
            return self._undecoded(key, row)
        body = _body(row.body) if row.body else EventBody()
        return Saved(
            kind=self._kind.name,
            id=typed_id(self._kind, key, body.entity),
            consumer=self._consumer.name,
            number=row.number,
            what=row.what,
            stage=row.stage,
            entity=self._entity(body.entity) if body.entity else None,
            state=self._state(row.stage, body),
            entity_version=row.entity_version,
            state_version=row.state_version,
            changed=body.changed or {},
            created_at=row.created_at,
            outside=row.outside,
            key=key,
            body=row.body,
            replay=row.replay,
        )

    def _undecoded(self, key: str, row: WaitingEvent) -> Saved:
        """For a sink that sends JSON as it is."""
        return Saved(
            kind=self._kind.name,
            id=key,
            consumer=self._consumer.name,
            number=row.number,
            what=row.what,
            stage=row.stage,
            entity=None,
            state=None,
            entity_version=row.entity_version,
            state_version=row.state_version,
            changed={},
            created_at=row.created_at,
            outside=row.outside,
            key=key,
            body=row.body,
            replay=row.replay,
        )

    def _entity(self, fields: dict[str, object]) -> object:
        """The entity by the kind's model. Where the row does not fit that, a stage's own hook still gets
        what its stage declares, as the stage itself does."""
        try:
            return self._kind.model.decode(fields)
        except msgspec.ValidationError:
            if self._part is None:
                raise
            return self._part.decode(fields)

    def _state(self, name: str | None, body: EventBody) -> object:
        """The state in an event, by its stage's type; as it lies there if the code lacks the stage."""
        state, stage = body.state, self._stages.get(name or "")
        if state is None or stage is None:
            return state
        if stage.state.is_message and isinstance(state, dict) and "@type" in state:
            stored = Stored(body.schema, None, b64decode(state["value"]), state["@type"])
        else:
            stored = Stored(body.schema, msgspec.json.encode(state).decode())
        return stage.state.decode(stored)


class Delivery(NamedTuple):
    """An event of an entity for one consumer."""

    shard: int
    kind: str
    key: str
    number: int
    consumer: str


class Acknowledge:
    """The writer of relays. A run's change is the list of its deliveries."""

    most = 500
    overlaps = True  # events are locked in one order: as well two lines of a worker as two workers
    stands = True  # an event that came meanwhile has its own delivery, and the visit stays due

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        answers = await lock_visits(connection, runs)
        counted = [run for run, at in zip(runs, answers, strict=True) if at in ("same", "moved")]
        if counted:
            await acknowledge(connection, (item for run in counted for item in run.change))
            crash_points.passed("relay.acknowledged")
        verdicts = {"locked": "locked", "gone": "gone"}
        return [verdicts.get(answer) for answer in answers]


async def acknowledge(tx: Tx, deliveries: Iterable[Delivery]) -> None:
    """Delete deliveries, and events nobody waits for any more."""
    items = sorted(deliveries)
    values = {
        "shards": [item.shard for item in items],
        "kinds": [item.kind for item in items],
        "keys": [item.key for item in items],
        "numbers": [item.number for item in items],
        "consumers": [item.consumer for item in items],
    }
    for name in ("acknowledge", "forget_events"):
        await tx.run(SQL[name], **values)
