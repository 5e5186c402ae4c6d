"""Processes that schedules start: a tick is a visit here, whose run starts the process as it settles.

The tick's key, `schedule@tick`, is the process's own id: however often it is run, it is started once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.errors import UnknownCipherKey
from mainspring.jobs import START_QUEUE
from mainspring.kernel import Alone, Done, Outcome, QueueSettings, Run, own_queue
from mainspring.processes.commit.start import Begin, start_steps
from mainspring.processes.record.sealed_values import opened_value
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.sealing import SEALED, Sealing


class ScheduledStart(msgspec.Struct, frozen=True):
    """What a schedule starts: the payload of its ticks."""

    type: str
    args: msgspec.Raw  # a JSON object
    attrs: msgspec.Raw = msgspec.Raw(b"{}")
    args_version: int = 1


_read = msgspec.json.Decoder(ScheduledStart).decode


def start_payload(
    type: str, args: str, attrs: Mapping[str, object] | None = None, args_version: int = 1
) -> str:
    """The payload of the ticks that start a process of a type."""
    written = msgspec.Raw(msgspec.json.encode(attrs or {}))
    start = ScheduledStart(type, msgspec.Raw(args.encode()), written, args_version)
    return msgspec.json.encode(start).decode()


def are_same(sealing: Sealing, stored: str, made: str) -> bool:
    """Whether two payloads of ticks say the same, though each is encrypted in its own way."""
    if not (SEALED in stored and SEALED in made):
        return False
    try:
        first, second = (opened_value(sealing, text, "a payload") for text in (stored, made))
    except UnknownCipherKey:
        return False
    return bool(msgspec.json.decode(first) == msgspec.json.decode(second))


def start_queue(database: Database, pool: str) -> QueueSettings:
    """The queue whose visits start the processes of a pool."""

    async def handle(run: Run) -> Outcome:
        start = _read(run.visit.payload)
        steps = start_steps(
            start.type,
            run.visit.key,
            bytes(start.args).decode(),
            shard_count=database.shard_count,
            attrs=bytes(start.attrs).decode(),
            args_version=start.args_version,
            begin=Begin(priority=run.visit.priority),
        )

        async def write(connection: Connection) -> None:
            await connection.follow(steps)

        return Done(writer=Alone(write))

    retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)
    return QueueSettings(
        name=own_queue(START_QUEUE, pool),
        handler=handle,
        pool=pool,
        kind="start",
        retry=retry,
        beside=True,
    )
