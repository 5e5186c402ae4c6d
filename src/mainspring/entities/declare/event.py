"""Events: what was saved, as a consumer gets it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Saved:
    """Something that is in the database now: a stage's save, an outside change of its state, or a delete.
    A `snapshot` says what the entity is, to a consumer for which that was asked.

    It comes at least once, in order per entity and consumer. `idempotency_key` is the same every
    time it comes to this consumer; `number` rises per entity for ever, so a consumer may also keep
    the highest it has seen and drop what is not above.

        async def saved(self, event: Saved) -> None:
            await push(event.entity.owner, key=event.idempotency_key)
    """

    kind: str
    id: Any  # of the entity, by the type of its key
    consumer: str
    number: int
    what: str  # 'saved' (the entity, and perhaps the state), 'state', 'deleted', 'snapshot'
    stage: str | None  # whose save it was; None for a delete
    entity: Any  # as it was saved, by the kind's model; None if it is not known
    state: Any  # as it was saved; None if the stage has none
    entity_version: int | None
    state_version: int | None
    changed: dict[str, Any]  # field -> [before, after], as JSON
    created_at: datetime
    outside: bool = False  # the state was replaced from outside, not by its stage
    key: str = ""  # the entity's id as text
    replay: int | None = None  # the operation that brings it again
    body: str | None = None  # entity, state and changed fields as the database has them, in JSON

    @property
    def idempotency_key(self) -> str:
        """The same whenever this event comes to this consumer, and of no other event."""
        return f"{self.consumer}:{self.number}"
