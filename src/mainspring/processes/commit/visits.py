"""The visits of processes: which queue, key, shard and payload each has. No I/O.

A task's visit is `(its actor, its id)`; the tasks of built-in actors and everything that the engine
itself does for a process are visits of its pool's engine queue, told apart by their keys. All of a
process lies on one shard, so that one worker hands it on from step to step; but a task in a group
lies with its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import NamedTuple
from uuid import UUID, uuid5

import msgspec

from mainspring.db.sql import Steps, numbers, rows, run, texts, words
from mainspring.ids import new_id, shard_of, token
from mainspring.kernel import DEFAULT_PRIORITY, KERNEL_SQL, NewlyParked, Visit, own_queue

QUEUE = "mainspring.process"
_shard_of = lru_cache(20_000)(shard_of)  # a process is asked for at every step
MARK = '{"@"'  # with which the payload of a process's visit begins


# Whether a worker itself starts the visits of a queue in a shard.
Serves = Callable[[str, int], bool]


class VisitRow(msgspec.Struct, frozen=True):
    """A visit as a run reads it, in the rows of statements that find visits by rules of this layer."""

    shard: int
    key: str
    queue: str
    id: UUID
    grp: str | None
    priority: int
    due: float
    version: int
    attempt: int
    crashes: int
    expires_at: datetime | None
    payload: str

    @property
    def visit(self) -> Visit:
        """As a run has it."""
        return Visit(*msgspec.structs.astuple(self)[: len(VisitRow.__struct_fields__)])


class NewVisit(msgspec.Struct, frozen=True):
    """A visit to be added."""

    queue: str
    key: str
    process_id: str
    id: str
    version: int
    due_at: datetime | None = None
    priority: int = DEFAULT_PRIORITY
    deadline_at: datetime | None = None
    group: str | None = None
    more: str | None = None  # JSON: what else the engine's visit says

    def payload(self) -> str:
        mark = f'{{"@": "{self.process_id}"'
        if self.more is not None:
            return f'{mark}, "more": {self.more}}}'
        if self.deadline_at is None:
            return mark + "}"
        return f'{mark}, "deadline": "{self.deadline_at.isoformat()}"}}'


@cache
def engine_of(pool: str) -> str:
    """The queue in which the engine works for the processes that were started in a pool."""
    return own_queue(QUEUE, pool)


def queue_of(actor: str, engine: str) -> str:
    """The queue in which an actor's tasks wait: its own, or the engine's for built-in ones."""
    return engine if actor.startswith("@") else actor


def task_visit(
    process_id: str,
    task: str,
    actor: str,
    *,
    engine: str,
    generation: int = 0,
    due_at: datetime | None = None,
    priority: int | None = None,
    deadline_at: datetime | None = None,
    group: str | None = None,
    version: int | None = None,
) -> NewVisit:
    """The visit by which a task is run. Its id is the idempotency key: task and generation."""
    return NewVisit(
        queue_of(actor, engine),
        task,
        process_id,
        key_of(task, generation),
        token() if version is None else version,
        due_at,
        DEFAULT_PRIORITY if priority is None else priority,
        deadline_at,
        group,
    )


def key_of(task: str, generation: int) -> str:
    """The idempotency key of a task: its id at first, another after each restart."""
    return task if generation == 0 else str(uuid5(UUID(task), str(generation)))


def engine_visit(
    kind: str,
    process_id: str,
    subject: str,
    *,
    id: str,
    engine: str,
    due_at: datetime | None = None,
    more: str | None = None,
) -> NewVisit:
    """A visit of the engine's own: look, timer, signal, await, child, cancel, restart, prune."""
    return NewVisit(engine, f"{kind}/{subject}", process_id, id, token(), due_at, more=more)


def asked_look(process_id: str, engine: str, due_at: datetime | None = None) -> NewVisit:
    """A look that a change of the process asks for: it need not check what every commit keeps true."""
    id = process_id
    return engine_visit("look", id, id, id=new_id(), engine=engine, due_at=due_at, more="1")


def is_process_visit(visit: Visit | NewlyParked) -> bool:
    """Whether a visit of a task's queue belongs to a process; else it is a plain call."""
    return visit.payload.startswith(MARK)


class Payload(msgspec.Struct, frozen=True):
    """What a visit of a process says of itself."""

    process_id: str = msgspec.field(name="@")
    deadline: datetime | None = None
    more: object = None


_payload = msgspec.json.Decoder(Payload)


def payload_of(visit: Visit | NewlyParked) -> Payload:
    """The payload of a visit of a process."""
    return _payload.decode(visit.payload)


def add_values(
    visits: Sequence[NewVisit], shard_count: int, serves: Serves, worker_id: UUID | None
) -> dict[str, object]:
    """The arguments of the kernel's add_visits.sql. What this worker serves
    it starts itself, if `as_read` answers it; others that sleep must be told of the rest."""
    shards = _shards(visits, shard_count)
    due_ats = [v.due_at for v in visits]
    groups = [v.group for v in visits]
    return {
        "shards": numbers([shards[v.group or v.process_id] for v in visits]),
        "keys": texts([v.key for v in visits]),
        "queues": texts([v.queue for v in visits]),
        "ids": words([v.id for v in visits]),
        "priorities": numbers([v.priority for v in visits]),
        "versions": numbers([v.version for v in visits]),
        "payloads": texts([v.payload() for v in visits]),
        "due_ats": due_ats if any(due_ats) else None,
        "groups": texts(groups) if any(groups) else None,
        "worker_id": worker_id,
        "waking": sorted(
            {
                v.queue
                for v in visits
                if v.due_at or v.group or not serves(v.queue, shards[v.process_id])
            }
        ),
    }


def insert_values(visits: Sequence[NewVisit], shard_count: int) -> dict[str, object]:
    """The arguments of the kernel's insert_new.sql."""
    return {**offer_values(visits, shard_count), "expires_ats": [None] * len(visits)}


def offer_values(visits: Sequence[NewVisit], shard_count: int) -> dict[str, object]:
    """The arguments of the kernel's offer.sql."""
    shards = _shards(visits, shard_count)
    return {
        "shards": [shards[v.group or v.process_id] for v in visits],
        "keys": [v.key for v in visits],
        "queues": [v.queue for v in visits],
        "ids": [v.id for v in visits],
        "groups": [v.group for v in visits],
        "priorities": [v.priority for v in visits],
        "due_ats": [v.due_at for v in visits],
        "versions": [v.version for v in visits],
        "payloads": [v.payload() for v in visits],
    }


def _shards(visits: Sequence[NewVisit], shard_count: int) -> dict[str, int]:
    """The shard of each route that these visits have."""
    routes = {visit.group or visit.process_id for visit in visits}
    return {route: _shard_of(route, shard_count) for route in routes}


def as_read(visits: Sequence[NewVisit], shard_count: int, now: datetime, at: float) -> list[Visit]:
    """Those of just committed visits that are due, as if they had been read."""
    due = [v for v in visits if v.due_at is None and v.group is None]
    ids = msgspec.convert([v.id for v in due], list[UUID])
    since = now.timestamp()
    return [
        Visit(
            _shard_of(v.process_id, shard_count), v.key, v.queue, id, None, v.priority, since,
            v.version, 0, 0, None, v.payload(), None, False, at,
        )
        for v, id in zip(due, ids, strict=True)
    ]  # fmt: skip


class VisitPlace(NamedTuple):
    """Where a visit lies: its primary key."""

    shard: int
    key: str
    queue: str


class DroppedVisit(NamedTuple):
    """A visit that is gone."""

    queue: str
    key: str
    was_held: bool  # by a run
    version: int


def find_places(visits: Sequence[tuple[str, str]]) -> Steps[list[VisitPlace]]:
    """Where the visits of tasks (queue, key) are: those in a group lie on its shard, not the process's."""
    keys, queues = [key for _, key in visits], [queue for queue, _ in visits]
    return (yield from rows(KERNEL_SQL["find_places"], VisitPlace, keys=keys, queues=queues))


def drop_steps(visits: Sequence[tuple[str, str]]) -> Steps[list[DroppedVisit]]:
    """Delete the visits of tasks (queue, key), wherever they are and whoever holds them."""
    places = yield from find_places(visits)
    return (yield from rows(KERNEL_SQL["drop_visits"], DroppedVisit, **_columns(places)))


def delete_steps(visits: Sequence[tuple[str, str, str]], shard_count: int) -> Steps[None]:
    """Delete visits (process, queue, key) of the engine that are not needed any more."""
    places = [
        VisitPlace(_shard_of(process_id, shard_count), key, queue)
        for process_id, queue, key in visits
    ]
    yield from run(KERNEL_SQL["delete_visits"], **_columns(places))


def offer_steps(visits: Sequence[NewVisit], shard_count: int) -> Steps[None]:
    """Add visits, or merge them into those that are there."""
    if visits:
        yield from run(KERNEL_SQL["offer"], **offer_values(visits, shard_count))


def insert_steps(visits: Sequence[NewVisit], shard_count: int) -> Steps[None]:
    """Add visits where there are none."""
    if visits:
        yield from run(KERNEL_SQL["insert_new"], **insert_values(visits, shard_count))


def _columns(places: Sequence[VisitPlace]) -> dict[str, object]:
    return {
        "shards": [place.shard for place in places],
        "keys": [place.key for place in places],
        "queues": [place.queue for place in places],
    }
