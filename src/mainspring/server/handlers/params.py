"""ParamService: params advanced, moved back, read and watched (R1, R13).

An equal value moves nothing, so an advance may be sent again. A rewind names the revision that its caller
saw. The revision of several params is the sum of theirs: each only rises, so no change can be missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.errors import InvalidRequest, MovedOn, UnknownParam
from mainspring.reactive.declare import params as reactive_params
from mainspring.reactive.model.values import AnyParam, Kind, Param, Value, from_raw, split_key
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.store import Store
from mainspring.server.handlers.waiting import Lookout
from mainspring.server.statements import SQL
from mainspring.v1 import param_service_pb2

MOST_PARAMS = 500
ALIVE_SECONDS = 20.0
STREAM_SECONDS = 25 * 60.0


class ServedParam(NamedTuple):
    """A param as it stands."""

    name: str
    kind: Kind
    value: str | None
    revision: int
    changed_at: datetime | None
    changed_by: str | None


class ParamsTogether(NamedTuple):
    """Params that were asked for together."""

    rows: tuple[ServedParam, ...]

    @property
    def revision(self) -> int:
        return sum(row.revision for row in self.rows)


class ParamCalls:
    """The service's calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lookout: Lookout[tuple[str, ...], ParamsTogether] = Lookout(self._look)
        self._closing = False

    async def close(self) -> None:
        """Let those go who wait, and end the streams."""
        self._closing = True
        await self._lookout.close()

    async def advance_params(
        self, caller: Caller, request: param_service_pb2.AdvanceParamsRequest
    ) -> param_service_pb2.AdvanceParamsResponse:
        """Set params forward, all or none."""
        checks.count("params", request.params, MOST_PARAMS)
        changes = []
        for n, given in enumerate(request.params):
            caller.check("param.advance", checks.text(f"params[{n}].name", given.name))
            value = _value(f"params[{n}].value", given.value if given.HasField("value") else None)
            changes.append((self._param(given.name, value), value))
        checks.no_twice("params", (param.key for param, _ in changes))
        why = checks.optional_text("why", request.why, checks.WHY_BYTES)
        async with self._store.turn():
            moved = await self._store.app.advance_many(
                changes, if_greater=request.if_greater, by=caller.name, why=why or None
            )
        return param_service_pb2.AdvanceParamsResponse(moved=[moved[param] for param, _ in changes])

    async def rewind_param(
        self, caller: Caller, request: param_service_pb2.RewindParamRequest
    ) -> param_service_pb2.RewindParamResponse:
        """Move a param back, if it still is what the caller saw."""
        caller.check("param.rewind", checks.text("name", request.name))
        to = _value("to", request.to if request.HasField("to") else None)
        chunks = [_value(f"chunks[{n}]", chunk) for n, chunk in enumerate(request.chunks)]
        param = self._param(request.name, to)
        why = checks.optional_text("why", request.why, checks.WHY_BYTES)
        steps = reactive_params.rewind(param, to, chunks=chunks, by=caller.name, why=why or None)
        async with self._store.transaction() as tx:
            if request.revision:
                seen = await tx.first(SQL["lock_param"], int, name=param.key)
                if seen not in (None, request.revision):
                    raise MovedOn(
                        f"param {param.key!r} has revision {seen}, not {request.revision}: it was changed "
                        "since; look at it again"
                    )
            affected = await tx.follow(steps)
        return param_service_pb2.RewindParamResponse(
            affected=[
                param_service_pb2.Affected(
                    task=found.task,
                    seen=_message(found.seen),
                    in_flight=found.in_flight,
                    running=found.running,
                    repair=found.repair,
                )
                for found in affected
            ]
        )

    async def get_params(
        self, caller: Caller, request: param_service_pb2.GetParamsRequest
    ) -> param_service_pb2.GetParamsResponse:
        """Params as they stand; waits until one of them has moved on."""
        names = _names(caller, request.names)
        wait = checks.wait_of(request, request.wait)
        found = await self._read(names, request.newer_than, wait)
        return param_service_pb2.GetParamsResponse(
            params=[_told(row) for row in found.rows], revision=found.revision
        )

    async def watch_params(
        self, caller: Caller, request: param_service_pb2.WatchParamsRequest
    ) -> AsyncIterator[param_service_pb2.WatchParamsResponse]:
        """All of them, then those that moved; an empty answer now and then says that it is alive."""
        names = _names(caller, request.names)
        found = await self._read(names, 0, 0.0)
        yield param_service_pb2.WatchParamsResponse(
            params=[_told(row) for row in found.rows], snapshot=True
        )
        now = asyncio.get_running_loop().time
        until = now() + STREAM_SECONDS
        while now() < until and not self._closing:
            new = await self._read(names, found.revision, ALIVE_SECONDS)
            pairs = zip(new.rows, found.rows, strict=True)
            moved = [_told(row) for row, old in pairs if row.revision != old.revision]
            found = new
            yield param_service_pb2.WatchParamsResponse(params=moved)

    def _param(self, name: str, value: Value) -> AnyParam:
        """The param as the code declares it, or of the kind of its value."""
        if (declared := self._store.app.params.get(name)) is not None:
            return declared
        kind: Kind = "version" if isinstance(value, str) else "integer"
        if isinstance(value, datetime):
            kind = "instant"
        return Param(*split_key(name), kind)

    async def _read(self, names: tuple[str, ...], newer_than: int, wait: float) -> ParamsTogether:
        found = await self._lookout.wait(names, lambda them: them.revision > newer_than, wait)
        if found is None:
            rows = await self._store.rows(SQL["read_params"], ServedParam, names=list(names))
            known = {row.name for row in rows}
            raise UnknownParam(next(name for name in names if name not in known), known)
        return found

    async def _look(
        self, wanted: Sequence[tuple[str, ...]]
    ) -> dict[tuple[str, ...], ParamsTogether]:
        names = sorted({name for names in wanted for name in names})
        rows = await self._store.rows(SQL["read_params"], ServedParam, names=names)
        known = {row.name: row for row in rows}
        return {
            names: ParamsTogether(tuple(known[name] for name in names))
            for names in wanted
            if all(name in known for name in names)
        }


def _names(caller: Caller, names: Sequence[str]) -> tuple[str, ...]:
    checks.count("names", names, MOST_PARAMS)
    for n, name in enumerate(names):
        caller.check("param.read", checks.text(f"names[{n}]", name))
    checks.no_twice("names", names)
    return tuple(names)


def _value(field: str, given: param_service_pb2.Value | None) -> Value:
    match given.WhichOneof("kind") if given is not None else None:
        case "instant":
            assert given is not None
            return checks.instant(field, given.instant)
        case "integer":
            assert given is not None
            return given.integer
        case "version":
            assert given is not None
            return checks.text(field, given.version, checks.WHY_BYTES)
        case _:
            raise InvalidRequest(field, "is not set: an instant, an integer or a version")


def _message(value: Value | None) -> param_service_pb2.Value | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        found = param_service_pb2.Value()
        found.instant.FromDatetime(value)
        return found
    if isinstance(value, str):
        return param_service_pb2.Value(version=value)
    return param_service_pb2.Value(integer=value)


def _told(row: ServedParam) -> param_service_pb2.Param:
    value = None if row.value is None else from_raw(row.kind, row.value)
    told = param_service_pb2.Param(
        name=row.name, value=_message(value), revision=row.revision, changed_by=row.changed_by
    )
    if row.changed_at is not None:
        told.changed_at.FromDatetime(row.changed_at)
    return told
