"""Tickets: what an actor elsewhere shows when it beats, settles or gives back a task that it pulled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec

from mainspring.db.sql import Steps
from mainspring.errors import InvalidArguments
from mainspring.kernel import DEFAULT_PRIORITY, Visit
from mainspring.processes.remote.seal import AT_LEAST_SECONDS, Seals


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Which attempt at which task. Its text is sealed: nobody but this installation makes one."""

    queue: str
    shard: int
    process_id: str  # empty: a call of its own
    task: str  # the visit's key
    id: str  # of the visit: the idempotency key
    version: int
    run: int  # the pass
    started: float  # by the database's clock
    priority: int = DEFAULT_PRIORITY
    group: str | None = None

    def visit(self) -> Visit:
        """The visit as far as the ticket knows it. Its row has the rest."""
        payload = f'{{"@": "{self.process_id}"}}' if self.process_id else "{}"
        return Visit(
            self.shard, self.task, self.queue, UUID(self.id), self.group, self.priority, self.started,
            self.version, 0, 0, None, payload,
        )  # fmt: skip


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Ticket)
_arguments = msgspec.json.Decoder(dict[str, object]).decode


def sealed(ticket: Ticket, seals: Seals) -> str:
    """A ticket as text."""
    return seals.seal(_encoder.encode(ticket))


def open_steps(texts: Sequence[str], seals: Seals, url: str) -> Steps[list[Ticket | None]]:
    """Tickets from their texts; None for what was not sealed here."""
    yield from seals.read(url)
    opened = [seals.open(text) for text in texts]
    if None in opened and (yield from seals.read(url, believed=AT_LEAST_SECONDS)):
        opened = [seals.open(text) for text in texts]
    return [None if content is None else _read(content) for content in opened]


def _read(content: bytes) -> Ticket | None:
    try:
        return _decoder.decode(content)
    except msgspec.MsgspecError:  # of another release
        return None


def no_ticket(text: str) -> InvalidArguments:
    """What is said of a text that is no ticket."""
    return InvalidArguments(
        f"{text!r:.60} is no ticket: give the text that pull answered, as it was"
    )


class Pulled(msgspec.Struct, frozen=True, dict=True):
    """A task that was handed out to an actor elsewhere."""

    ticket: str
    actor: str
    process: str  # empty: a call of its own
    task: str
    args_json: str
    key: str  # the idempotency key: the same over attempts, another after a restart
    attempt: int  # 1 for the first
    held_until: datetime  # without a beat until then the task is recovered
    beat_every: float  # seconds
    deadline: datetime | None = None  # its task timeout

    @cached_property
    def args(self) -> dict[str, Any]:
        """The arguments by name."""
        return _arguments(self.args_json)
