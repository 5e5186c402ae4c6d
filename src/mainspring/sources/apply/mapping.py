"""The source's function, record by record. Pure but for the user's function; of a record only its place is
ever told, and the type and place of the error that it led to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainspring.errors import InvalidOutcome, MainspringError
from mainspring.failure_text import ENGINE, clean_text
from mainspring.shape import fault, shape, told
from mainspring.sources.declare.effects import (
    Advance,
    Delete,
    EditEntity,
    Effect,
    Enqueue,
    Put,
    SendSignal,
)
from mainspring.sources.declare.record import BrokerRecord
from mainspring.sources.declare.source import RecordSource

KNOWN = (Advance, Delete, EditEntity, Enqueue, Put, SendSignal)
# After so long the event loop has a turn (seconds).
YIELD_SECONDS = 0.005
TEXT_BYTES = 2_000


class Mapped(NamedTuple):
    """A record and what it does."""

    record: BrokerRecord
    effects: Sequence[Effect]


class BadRecord(NamedTuple):
    """A record that cannot be mapped, or whose effects cannot be had, and why."""

    record: BrokerRecord
    error_type: str
    error: str


async def map_records(
    source: RecordSource, records: Iterable[BrokerRecord]
) -> tuple[list[Mapped], list[BadRecord]]:
    """What the records do, and those that cannot be mapped; where the first of these stops the source, the
    records after it are left."""
    loop = asyncio.get_running_loop()
    yielded = loop.time()
    mapped: list[Mapped] = []
    bad: list[BadRecord] = []
    for record in records:
        try:
            mapped.append(Mapped(record, _effects(source.to(record))))
        except Exception as error:
            bad.append(bad_record(source, record, error))
            if source.on_error == "stop":
                break
        if loop.time() - yielded > YIELD_SECONDS:
            await asyncio.sleep(0)
            yielded = loop.time()
    return mapped, bad


def _effects(answer: object) -> Sequence[Effect]:
    if answer is None:
        return ()
    if isinstance(answer, KNOWN):
        return (answer,)
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes | dict):
        raise InvalidOutcome(f"to must return effects of mainspring.sources, got {shape(answer)}")
    effects = tuple(answer)
    for effect in effects:
        if not isinstance(effect, KNOWN):
            raise InvalidOutcome(
                f"to must return effects of mainspring.sources, got {shape(effect)} among them"
            )
    return effects


def bad_record(source: RecordSource, record: BrokerRecord, error: BaseException) -> BadRecord:
    """A record with what is told of its error."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    where = f"source {source.name!r}, {record.partition} offset {record.offset}"
    return BadRecord(record, name, clean_text(f"{where}: {_said(error, name)}", TEXT_BYTES))


def _said(error: BaseException, name: str) -> str:
    """Ours and msgspec's name fields and types; the server's text loses what it quotes. Whatever else an
    error says may be a value of the record."""
    if isinstance(error, MainspringError | msgspec.MsgspecError):
        return f"{name}: {fault(error)}"
    if getattr(error, "sqlstate", None):
        return f"{name}: {told(error)}"
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(ENGINE):
            place = f" in {code.co_name} ({Path(code.co_filename).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{name}{place}"
