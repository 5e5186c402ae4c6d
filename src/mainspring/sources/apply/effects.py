"""The effects of a batch of records, many at once, in the transaction that is open.

In the engine's order of locks: documents and entities, signals, calls, params last. Effects of one kind
keep the order of their records; a document that is put again and again is written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from mainspring.db.database import Connection
from mainspring.db.sql import Steps, rows
from mainspring.entities.documents import Documents
from mainspring.errors import InvalidSetting, NotFound
from mainspring.processes.commit.signals import NewSignal, send_many_steps
from mainspring.processes.declare.decider_api import Signal
from mainspring.processes.registry import Registry
from mainspring.reactive.declare.advance import advance, find_param
from mainspring.reactive.model.values import AnyParam, Value, check_value
from mainspring.sources.apply.call_ids import call_id
from mainspring.sources.apply.mapping import Mapped
from mainspring.sources.declare.effects import Advance, Delete, EditEntity, Enqueue, Put, SendSignal
from mainspring.sources.statements import SQL
from mainspring.tasks.declare.handle import CallLookup
from mainspring.tasks.declare.task import Call
from mainspring.tasks.enqueue.by_function import place_values
from mainspring.tasks.enqueue.enqueue import CallBatch


class Host(Protocol):
    """What is needed of an application: what it declares."""

    params: dict[str, AnyParam]
    registry: Registry

    @property
    def lookup(self) -> CallLookup: ...


class BatchEffects:
    """The effects of one batch, sorted by what they write."""

    def __init__(self, host: Host, source: str, mapped: Sequence[Mapped]) -> None:
        self._host = host
        self._source = source
        self.calls: list[Call[object]] = []
        self._ids: list[str] = []
        self._signals: list[tuple[SendSignal, str]] = []
        self._params: dict[str, tuple[AnyParam, Value]] = {}
        self._documents: list[Put | Delete | EditEntity] = []
        for record, effects in mapped:
            for number, effect in enumerate(effects):
                match effect:
                    case Enqueue():
                        self.calls.append(effect.call)
                        self._ids.append(call_id(source, record, number))
                    case Advance():
                        self._advance(effect)
                    case SendSignal():
                        id = f"{source}/{record.partition}/{record.offset}/{number}"
                        self._signals.append((effect, id))
                    case Put() | Delete() | EditEntity():
                        self._documents.append(effect)

    def _advance(self, effect: Advance) -> None:
        param = find_param(self._host.params, effect.param)
        value = check_value(param, effect.value)
        known = self._params.get(param.key)
        if known is None or param.kind == "version" or _is_greater(value, known[1]):
            self._params[param.key] = (param, value)

    async def write(self, connection: Connection, *, again: bool) -> None:
        """Write all of them. `again`: some of the records were read before."""
        await self._write_documents(connection)
        if self._signals:
            await self._send(connection)
        if self.calls:
            await connection.follow(self._enqueue(connection, again))
        if self._params:
            steps = advance(
                self._params.values(),
                declared=self._host.params,
                if_greater=True,
                by=f"source {self._source}",
                why=None,
            )
            await connection.follow(steps)

    def _enqueue(self, connection: Connection, again: bool) -> Steps[None]:
        calls, database = self.calls, connection.database
        if not again:
            batch = CallBatch(calls, database, self._host.lookup, copies=True, ids=self._ids)
            yield from batch.steps()
            return
        yield from rows(SQL["enqueue_again"], str, **place_values(calls, self._ids))

    async def _send(self, connection: Connection) -> None:
        signals = []
        for effect, id in self._signals:
            name, payload = self._signal(effect)
            signals.append(NewSignal(_name(effect.process), effect.key, name, id, payload))
        shard_count = connection.database.shard_count
        steps = send_many_steps(signals, shard_count=shard_count, sent_by=f"source {self._source}")
        for (effect, _), is_sent in zip(self._signals, await connection.follow(steps), strict=True):
            if effect.required and not is_sent:
                raise NotFound(
                    f"no open process of type {_name(effect.process)!r} has the key that the signal "
                    f"{self._signal(effect)[0]!r} names; required=False lets such a signal go"
                )

    def _signal(self, effect: SendSignal) -> tuple[str, str]:
        """The signal's name, and its payload as JSON."""
        signal = effect.signal
        if isinstance(signal, str):
            known = self._host.registry.signals.get(signal)
            if known is None:
                names = ", ".join(sorted(self._host.registry.signals)) or "none"
                raise InvalidSetting(f"no signal is named {signal!r}; declared are {names}")
            signal = known
        assert isinstance(signal, Signal)
        return signal.name, self._host.registry.stored(signal.encode(effect.payload))

    async def _write_documents(self, connection: Connection) -> None:
        """Runs of puts and deletes of one kind are one write of each document, runs of edits one batch."""
        bodies: dict[str, str | None] = {}
        edits: list[EditEntity] = []
        before: Put | Delete | EditEntity | None = None
        for effect in self._documents:
            if before is not None and (
                before.kind is not effect.kind
                or isinstance(before, EditEntity) != isinstance(effect, EditEntity)
            ):
                await _write(connection, before, bodies, edits)
                bodies, edits = {}, []
            before = effect
            if isinstance(effect, EditEntity):
                edits.append(effect)
            elif isinstance(effect, Put):
                key, bodies[key] = effect.kind.text_of(effect.id, effect.value)
            else:
                bodies[effect.kind.key_of(effect.id)] = None
        if before is not None:
            await _write(connection, before, bodies, edits)


async def _write(
    connection: Connection,
    last: Put | Delete | EditEntity,
    bodies: Mapping[str, str | None],
    edits: Sequence[EditEntity],
) -> None:
    if isinstance(last, EditEntity):
        await last.kind.edit_within(connection, [(edit.id, edit.change) for edit in edits])
        return
    if not isinstance(last.kind, Documents):
        raise InvalidSetting(
            f"Put and Delete are for managed documents (app.documents), got kind {last.kind.name!r}"
        )
    await last.kind.write(connection, bodies)


def _name(process: object) -> str:
    return process if isinstance(process, str) else str(process.name)  # type: ignore[attr-defined]


def _is_greater(value: Value, known: Value) -> bool:
    if isinstance(value, datetime) and isinstance(known, datetime):
        return value > known
    return isinstance(value, int) and isinstance(known, int) and value > known
