"""Consumers: who gets the events of a kind. The hooks of a stage, or a sink.

The hooks of a stage are one consumer, so that they hear of an entity in order: `saved` what the stage
saved, `state_changed` that its state was replaced from outside, `deleted` that the entity is gone. What a
stage has no method for is acknowledged unheard.

A sink gets every event of its kind; it is the seam for Kafka, NATS and the like:

    class Kafka:
        async def send(self, event: Saved) -> None:
            await self.producer.send_and_wait("listing", key=..., value=...)

    listing.sink("kafka", Kafka(...))

The consumers of a kind stand in the database, so that a save writes a delivery for each whether or not
the worker that saves knows it. One that is gone from the code keeps its deliveries until it is retired.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import msgspec

from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.stage import Stage
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidStage, NotFound
from mainspring.kernel import RetryPolicy, nearest

NAME_BYTES = 80


@runtime_checkable
class Sink(Protocol):
    """Where events go. It has acknowledged an event when `send` returns."""

    async def send(self, event: Saved) -> None:
        """Send one event; it may come again, with the same `idempotency_key`."""
        ...


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer of a kind: `stage` is whose hooks it is, None for a sink."""

    kind: str
    name: str
    call: Callable[[Saved], Any] | None = None  # of a sink
    stage: Stage | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    parallel: int | None = None
    timeout: float | None = None  # seconds of one run, which may deliver several events

    def hearer(self, what: str, outside: bool) -> Callable[[Saved], Any] | None:
        """The function that is called for such an event; None: nobody wants to hear it."""
        return self.call if self.stage is None else self.stage.hook(what, outside)

    @property
    def queue(self) -> str:
        """The queue of its relay visits."""
        return relay_queue(self.kind, self.name)


def relay_queue(kind: str, consumer: str) -> str:
    """The queue whose visits deliver the events of entities to a consumer."""
    return f"{kind}!{consumer}"


def declare_sink(
    kind: str,
    name: str,
    target: Sink | Callable[[Saved], Awaitable[None]],
    *,
    taken: Iterable[str],
    retry: RetryPolicy | None = None,
    parallel: int | None = None,
) -> Consumer:
    """A sink of a kind: an object with `send`, or a function of an event."""
    bad = [c for c in "/~!:" if c in name]
    if not name or len(name.encode()) > NAME_BYTES or not name.isprintable() or bad:
        raise InvalidStage(
            f"a sink's name must have 1 to {NAME_BYTES} printable bytes without '/', '~', '!' and "
            f"':', got {name!r} in kind {kind!r}"
        )
    if name in taken:
        raise InvalidStage(
            f"kind {kind!r} has a stage or a sink named {name!r} already; give the sink another name"
        )
    call = getattr(target, "send", target)
    if not callable(call) or inspect.isclass(target):
        raise InvalidStage(
            f"sink {name!r} must be an object with send(event), or a function, got {target!r}"
        )
    return Consumer(kind, name, call, None, retry or RetryPolicy(), parallel)


def consumers(stages: Iterable[Stage], sinks: Iterable[Consumer]) -> list[Consumer]:
    """All consumers of a kind as the code has them."""
    hooks = [
        Consumer(s.kind, s.name, None, s, s.settings.retry, timeout=s.settings.timeout)
        for s in stages
        if s.has_hook
    ]
    return [*hooks, *sinks]


def registration(listed: Iterable[Consumer]) -> str:
    """The consumers as register_consumers.sql takes them."""
    rows = [
        {
            "kind": c.kind,
            "name": c.name,
            "declared": {"stage": c.stage.name} if c.stage else {"sink": True},
        }
        for c in listed
    ]
    return msgspec.json.encode(rows).decode()


async def register(connection: Any, listed: Iterable[Consumer]) -> None:
    """Enter the consumers of the code; what it no longer has stays until it is retired."""
    await connection.fetch(SQL["register_consumers"].numbered, registration(listed))


async def retire(connection: Any, kind: str, name: str) -> int:
    """Take a consumer out for good: it gets nothing more, and what waited for it is dropped.

    In the caller's transaction. Answers how many deliveries were dropped.
    """
    rows = await connection.fetch(SQL["list_consumers"].numbered, kind)
    if name not in [row["name"] for row in rows]:
        known = [row["name"] for row in rows]
        raise NotFound(f"kind {kind!r} has no consumer {name!r}{nearest(name, known)}")
    statement = SQL["retire_consumer"]
    values = {"kind": kind, "consumer": name, "queue": relay_queue(kind, name)}
    dropped = await connection.fetch(statement.numbered, *statement.arguments(values))
    await connection.fetch(SQL["drop_events"].numbered, kind)
    return int(dropped[0]["deliveries"])
