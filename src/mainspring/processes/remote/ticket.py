"""Tickets: what an actor elsewhere shows when it beats, completes or fails a task that it pulled."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.kernel import DEFAULT_PRIORITY, PRIORITIES, START, QueueSettings, Run, Visit, clock

LATEST = 1e11  # seconds: a time that both sides can write


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Which attempt at which task. Its text is opaque, and as secret as the pass in it."""

    queue: str
    shard: int
    process_id: str
    task: str
    id: str  # of the visit: the idempotency key
    version: int
    run: int  # the pass
    started: float  # by the database's clock
    attempt: int  # failures before it
    priority: int = DEFAULT_PRIORITY  # the last release's tickets have none

    def encode(self) -> str:
        """As text."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode()

    @staticmethod
    def decode(text: str) -> Ticket:
        """From text; refuses what is none."""
        try:
            raw = base64.urlsafe_b64decode(text.encode())
            ticket = msgspec.msgpack.decode(raw, type=Ticket)
            for id in (ticket.process_id, ticket.task, ticket.id):
                UUID(id)
            if ticket.priority not in PRIORITIES or not 0 <= ticket.started < LATEST:
                raise ValueError
            return ticket
        except (msgspec.MsgspecError, binascii.Error, ValueError, AttributeError):
            raise InvalidArguments(
                f"{text!r:.60} is no ticket: give the text that pull answered, as it was"
            ) from None

    def run_of(self, settings: QueueSettings, now: float) -> Run:
        """The attempt as a run that is settled here. The visit's row has what the ticket leaves out."""
        visit = Visit(
            self.shard, self.task, self.queue, UUID(self.id), None, self.priority, START[0],
            self.version, self.attempt, 0, None, f'{{"@": "{self.process_id}"}}',
        )  # fmt: skip
        began = clock.local() - max(0.0, now - self.started)
        return Run(visit, self.run, self.started, began, settings=settings)


class Pulled(msgspec.Struct, frozen=True):
    """A task that was handed out to an actor elsewhere."""

    ticket: str
    actor: str
    process: str
    task: str
    args: dict[str, Any]
    key: str  # the idempotency key: the same over attempts, another after a restart
    attempt: int  # 1 for the first
    held_until: datetime  # without a beat until then the task is recovered
    deadline: datetime | None = None  # its task timeout
