"""What goes to a stage elsewhere and what comes back, without gRPC. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from mainspring.entities.declare.outcome import Answer
from mainspring.entities.declare.state import Stored
from mainspring.entities.remote.standing import Fault
from mainspring.errors import MainspringError

Found = TypeVar("Found")


class StageItem(msgspec.Struct, gc=False):
    """An entity as a stage elsewhere gets it."""

    id: str
    entity: str  # JSON of the declared fields
    entity_version: int | None
    state: Stored | None
    state_version: int
    crawl: bool
    run_of: UUID | None = None  # the visit that a run is of; a question has none

    @property
    def size(self) -> int:
        """Its bytes on the way, roughly."""
        state = 0 if self.state is None else self.state.size
        return 80 + len(self.id) + len(self.entity) + state


class SavedEvents(msgspec.Struct, gc=False):
    """Events of an entity, in order, each as its JSON parts."""

    id: str
    events: list[SavedEvent]

    @property
    def size(self) -> int:
        return 80 + len(self.id) + sum(event.size for event in self.events)


class SavedEvent(msgspec.Struct, gc=False):
    """An event for a stage elsewhere; entity and changed fields are JSON text."""

    number: int
    what: str
    stage: str | None
    entity: str | None
    state: Stored | None
    entity_version: int | None
    state_version: int | None
    changed: str
    created_at: datetime
    idempotency_key: str

    @property
    def size(self) -> int:
        state = 0 if self.state is None else self.state.size
        return 120 + len(self.entity or "") + len(self.changed) + state


class StageRef(NamedTuple):
    """A stage as its service knows it."""

    kind: str
    stage: str


class Refusal(msgspec.Struct, gc=False):
    """A stage said that it failed for this entity."""

    code: str
    message: str
    final: bool = False
    retry_after: float | None = None

    def __str__(self) -> str:
        return f"{self.code or 'problem'}: {self.message}"


class Bad(msgspec.Struct, gc=False):
    """What came back for this entity is no answer."""

    why: str


class HeardUpTo(msgspec.Struct, gc=False):
    """The service had all events of an entity up to this number, and what stopped it there."""

    number: int
    problem: Refusal | None = None


Processed: TypeAlias = Answer | Refusal | Bad
Asked: TypeAlias = bool | datetime | Refusal | Bad


class Description(msgspec.Struct, frozen=True):
    """What a service says that its stage needs and takes; empty where it says nothing."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    asks: bool = False
    hears: bool = False
    schema: int = 0  # the newest of its state that it reads
    most_items: int = 0
    most_bytes: int = 0


class CallFailed(MainspringError, code="call_failed"):
    """A call of a stage service failed as a whole."""

    def __init__(self, fault: Fault, message: str, *, retry_after: float | None = None) -> None:
        self.fault = fault
        self.retry_after = retry_after
        super().__init__(message)


class StageCalls(Protocol):
    """A service's calls, made by whoever has gRPC. Each raises CallFailed when it fails as a whole."""

    def sends(self, ref: StageRef, type_: type[object] | None) -> None:
        """What a stage's entities are sent as: messages of this class, or JSON."""
        ...

    async def describe(self, ref: StageRef, timeout: float) -> Description: ...

    async def check(self, timeout: float) -> None:
        """Whether it serves, if it can say so."""
        ...

    async def ask(
        self, ref: StageRef, now: datetime, items: Sequence[StageItem], timeout: float
    ) -> list[tuple[str, Asked]]: ...

    async def process(
        self, ref: StageRef, now: datetime, items: Sequence[StageItem], timeout: float
    ) -> list[tuple[str, Processed]]: ...

    async def hear(
        self, ref: StageRef, entities: Sequence[SavedEvents], timeout: float
    ) -> list[tuple[str, HeardUpTo | Bad]]: ...

    def remake(self) -> None:
        """A new channel from now on; calls under way end on the old one."""
        ...

    async def close(self) -> None: ...


def matched(ids: Sequence[str], answers: Iterable[tuple[str, Found]]) -> list[Found | Bad]:
    """The answers by their ids, in the order of the questions. Never by their places: one that was
    forgotten would give all that follow to others."""
    by_id: dict[str, Found | Bad] = {}
    unknown: list[str] = []
    wanted = set(ids)
    for id, answer in answers:
        if id not in wanted:
            unknown.append(id)
        elif id in by_id:
            by_id[id] = Bad("the service answered twice about this entity")
        else:
            by_id[id] = answer
    missing = "the service said nothing about this entity"
    if unknown:
        missing += f", and answered about {unknown[0]!r:.100}, of which it was not asked"
    return [by_id[id] if id in by_id else Bad(missing) for id in ids]
