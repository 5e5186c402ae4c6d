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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from mainspring.db.tx import Tx
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.stage import Stage
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidStage, NotFound
from mainspring.phrases import nearest
from mainspring.retry_policy import RetryPolicy

NAME_BYTES = 80
# What a new sink begins with: what is saved from now on, or every entity as it is.
STARTS = ("now", "snapshot")


@runtime_checkable
class Sink(Protocol):
    """Where events go. It has acknowledged an event when `send` returns."""

    async def send(self, event: Saved) -> None:
        """Send one event; it may come again, with the same `idempotency_key`."""
        ...


@runtime_checkable
class ManySink(Protocol):
    """Where events of many entities go in one call."""

    async def send_many(self, groups: list[list[Saved]]) -> Sequence[tuple[int, Exception | None]]:
        """Send the events of each entity in order; says of each how many were acknowledged and what stopped
        the rest. `most` and `calls` of the object say how many entities and calls there are at once."""
        ...


@runtime_checkable
class AwayTarget(Protocol):
    """A sink whose other side can be away. What it sends by raises EndpointAway then."""

    async def probe(self) -> None:
        """Try whether the other side is back; raises if it is not."""
        ...

    async def close(self) -> None:
        """The worker has stopped: let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer of a kind: `stage` is whose hooks it is, None for a sink."""

    kind: str
    name: str
    call: Callable[[Saved], object] | None = None  # of a sink
    stage: Stage | None = None
    target: object = (
        None  # what a sink was declared with; of a stage: who hears instead of its hooks
    )
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    parallel: int | None = None
    start: str = "now"  # or "snapshot": with every entity as it is
    timeout: float | None = None  # seconds of one run, which may deliver several events

    def hearer(self, what: str, outside: bool) -> Callable[[Saved], object] | None:
        """The function that is called for such an event; None: nobody wants to hear it."""
        if self.stage is None or self.target is not None:
            return self.call
        return hook_of(self.stage, what, outside)

    @property
    def away_target(self) -> AwayTarget | None:
        """The sink, if the other side can be away."""
        return self.target if isinstance(self.target, AwayTarget) else None

    @property
    def decodes(self) -> bool:
        """Whether entity and state are wanted as objects."""
        return bool(getattr(self.target, "decodes", True))

    @property
    def queue(self) -> str:
        """The queue of its relay visits."""
        return relay_queue(self.kind, self.name)


def hook_of(stage: Stage, what: str, outside: bool) -> Callable[[Saved], object] | None:
    """The method that hears such an event, if there is one: `saved` hears what the stage saved."""
    if what == "deleted":
        return stage.deleted
    return stage.state_changed if outside else stage.saved


def relay_queue(kind: str, consumer: str) -> str:
    """The queue whose visits deliver the events of entities to a consumer."""
    return f"{kind}!{consumer}"


def declare_sink(
    kind: str,
    name: str,
    target: Sink | ManySink | Callable[[Saved], object],
    *,
    taken: Iterable[str],
    retry: RetryPolicy | None = None,
    parallel: int | None = None,
    start: str = "now",
) -> Consumer:
    """A sink of a kind: an object with `send`, or a function of an event."""
    if start not in STARTS:
        raise InvalidStage(f"start of a sink must be one of {', '.join(STARTS)}, got {start!r}")
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
    call = getattr(target, "send", getattr(target, "send_many", target))
    if not callable(call) or inspect.isclass(target):
        raise InvalidStage(
            f"sink {name!r} must be an object with send(event) or send_many(groups), or a function, "
            f"got {target!r}"
        )
    return Consumer(
        kind,
        name,
        call,
        target=target,
        retry=retry or RetryPolicy(),
        parallel=parallel,
        start=start,
    )


def consumers(stages: Iterable[Stage], sinks: Iterable[Consumer]) -> list[Consumer]:
    """All consumers of a kind as the code has them."""
    hooks = [
        Consumer(s.kind, s.name, None, s, retry=s.settings.retry, timeout=s.settings.timeout)
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
            "start": c.start,
        }
        for c in listed
    ]
    return msgspec.json.encode(rows).decode()


async def register(tx: Tx, listed: Iterable[Consumer]) -> None:
    """Enter the consumers of the code; what it no longer has stays until it is retired."""
    await tx.run(SQL["register_consumers"], consumers=registration(listed))


async def retire(tx: Tx, kind: str, name: str) -> int:
    """Take a consumer out for good: it gets nothing more, and what waited for it is dropped.

    In the caller's transaction. Returns how many deliveries were dropped.
    """
    known = await tx.rows(SQL["list_consumers"], str, kind=kind)
    if name not in known:
        raise NotFound(f"kind {kind!r} has no consumer {name!r}{nearest(name, known)}")
    dropped = await tx.one(
        SQL["retire_consumer"], int, kind=kind, consumer=name, queue=relay_queue(kind, name)
    )
    await tx.run(SQL["drop_events"], kind=kind)
    return dropped
