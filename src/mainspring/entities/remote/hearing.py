"""`saved` of stages elsewhere: the relay's consumer of such a stage.

An entity's events go in one list, in their order. The service says up to which number it heard them: that
is acknowledged, and what comes after it is sent again. Only what the stage reads leaves.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from mainspring import clock
from mainspring.entities.declare.consumer import ManySink, relay_queue
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.state import Stored
from mainspring.entities.outbox.send import SIDE_BY_SIDE
from mainspring.entities.remote.call_line import CallLine, Size, TooLarge
from mainspring.entities.remote.items import (
    Bad,
    HeardUpTo,
    Refusal,
    SavedEvent,
    SavedEvents,
    StageRef,
)
from mainspring.entities.remote.peer import CALL_BYTES, StagePeer
from mainspring.entities.remote.peers import Peers
from mainspring.errors import EventRefused, InvalidAnswer, PutOff, StageFailed

ENTITIES = 50  # in a call


class EventParts(msgspec.Struct):
    """What an event carries, not read further."""

    entity: dict[str, msgspec.Raw] | None = None
    state: msgspec.Raw = msgspec.Raw(b"null")
    schema: int = 1  # of the state
    changed: dict[str, msgspec.Raw] | None = None


class PackedState(msgspec.Struct, forbid_unknown_fields=True):
    """A state that is a message, as an event's JSON has it."""

    type: str = msgspec.field(name="@type")
    value: str


_parts = msgspec.json.Decoder(EventParts).decode
_packed = msgspec.json.Decoder(PackedState).decode
_encode = msgspec.json.Encoder().encode


class RemoteHearer:
    """Tells a stage's service what was saved. The relay hands each entity's events over by themselves; the
    calls are made up with those of others in the service's line."""

    decodes = False  # JSON goes on as it is
    most = 1
    calls = SIDE_BY_SIDE

    def __init__(self, peer: StagePeer, stage: Stage) -> None:
        assert stage.remote is not None
        self.endpoint = peer.endpoint
        self._peer = peer
        self._stage = stage
        self._place = stage.remote
        self._ref = StageRef(stage.kind, stage.name)
        self._line: CallLine[SavedEvents, HeardUpTo | Bad] = peer.line(
            self._ref, self._size, self._call, word="saved"
        )

    def _size(self) -> Size:
        return Size(ENTITIES, self._peer.description(self._ref).most_bytes or CALL_BYTES)

    async def _call(
        self, now: datetime, items: Sequence[SavedEvents]
    ) -> list[tuple[str, HeardUpTo | Bad]]:
        return await self._peer.calls.hear(self._ref, items, self._place.saved_timeout)

    async def send_many(self, groups: list[list[Saved]]) -> list[tuple[int, Exception | None]]:
        """Tell of entities' events; says of each how many were heard, and what stopped the rest."""
        return [await self._send(events) for events in groups]

    async def _send(self, events: list[Saved]) -> tuple[int, Exception | None]:
        try:
            await self._peer.meet(self._ref)
            reads = self._peer.description(self._ref).reads or self._stage.settings.reads
            told = fitting([event_of(event, reads) for event in events], self._size().bytes)
            item = SavedEvents(events[0].key, told)
            said = await self._line(item, now=clock.local(), alone=False)
        except TooLarge as error:
            return 0, EventRefused(f"{error}; name fewer fields by reads=")
        except Exception as error:
            return 0, error
        if isinstance(said, Bad):
            return 0, InvalidAnswer(f"stage {self._stage.name!r} elsewhere: {said.why}")
        taken = sum(event.number <= said.number for event in told)
        return taken, self._stopped(said, taken, len(told))

    def _stopped(self, said: HeardUpTo, taken: int, told: int) -> Exception | None:
        if said.problem is not None:
            return _error_of(self._stage.name, said.problem)
        if taken == told:
            return None
        return InvalidAnswer(
            f"stage {self._stage.name!r} elsewhere heard events up to number {said.number}, and says "
            "no problem with those after it"
        )


def _error_of(stage: str, problem: Refusal) -> Exception:
    text = f"stage {stage!r} elsewhere said {problem}"
    if problem.final:
        return EventRefused(text)
    if problem.retry_after is not None:
        return PutOff(text, problem.retry_after)
    return StageFailed(text)


def fitting(events: list[SavedEvent], most: int) -> list[SavedEvent]:
    """The first of them that fit into a call, one at least."""
    found, weight = events[:1], events[0].size
    for event in events[1:]:
        weight += event.size
        if weight > most - 1000:
            break
        found.append(event)
    return found


def event_of(event: Saved, reads: Collection[str] | None) -> SavedEvent:
    """An event as a stage elsewhere gets it: of the entity only what the stage reads."""
    parts = _parts(event.body) if event.body else EventParts()
    entity = None if parts.entity is None else _text(parts.entity, reads)
    return SavedEvent(
        number=event.number,
        what=event.what,
        stage=event.stage,
        entity=entity,
        state=_state(parts),
        entity_version=event.entity_version,
        state_version=event.state_version,
        changed=_text(parts.changed or {}, reads),
        created_at=event.created_at,
        idempotency_key=event.idempotency_key,
    )


def _text(fields: Mapping[str, msgspec.Raw], reads: Collection[str] | None) -> str:
    kept = {name: raw for name, raw in fields.items() if reads is None or name in reads}
    return _encode(kept).decode()


def _state(parts: EventParts) -> Stored | None:
    raw = bytes(parts.state)
    if raw == b"null":
        return None
    if b'"@type"' in raw:
        try:
            packed = _packed(raw)
        except msgspec.ValidationError:
            pass  # JSON that has such a field
        else:
            return Stored(parts.schema, None, b64decode(packed.value), packed.type)
    return Stored(parts.schema, raw.decode())


def hearers(peers: Peers, kinds: Iterable[DeclaredKind]) -> dict[str, ManySink]:
    """Who is told of what was saved elsewhere, by the queue of the relay."""
    return {
        relay_queue(kind.name, stage.name): RemoteHearer(peers.of(stage), stage)
        for kind in kinds
        for stage in kind.stages.values()
        if stage.remote is not None and stage.remote.hears
    }
