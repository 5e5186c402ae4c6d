"""StateService: private states of stages, read and replaced by compare-and-set (S11).

A request is told by its id: as long as the state has the version that it made, it is answered as done.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.entities.declare.stage import find
from mainspring.entities.declare.state import TYPE_PREFIX, Stored
from mainspring.errors import InvalidRequest, NotFound, UnknownStage
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.store import Store
from mainspring.server.statements import SQL
from mainspring.v1 import body_pb2, state_service_pb2

MOST_STATES = 500
ENTITY_BYTES = 1300


class StateRow(NamedTuple):
    """A state as its row has it."""

    n: int
    version: int | None
    schema: int | None
    body: str | None
    message: bytes | None
    message_type: str | None
    has_stage: bool


class RequestRow(NamedTuple):
    """A state's version, and whether this very request made it."""

    version: int
    is_same: bool


class StateCalls:
    """The service's calls."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def close(self) -> None:
        """Nobody waits here."""

    async def get_states(
        self, caller: Caller, request: state_service_pb2.GetStatesRequest
    ) -> state_service_pb2.GetStatesResponse:
        """States of a stage, in the order of the ids."""
        _check(caller, "state.read", request.kind, request.stage)
        checks.count("ids", request.ids, MOST_STATES)
        ids = [checks.text(f"ids[{n}]", id, ENTITY_BYTES) for n, id in enumerate(request.ids)]
        rows = await self._store.rows(
            SQL["read_states"], StateRow, kind=request.kind, stage=request.stage, ids=ids
        )
        if not rows[0].has_stage:
            raise UnknownStage(request.kind, request.stage, ())
        return state_service_pb2.GetStatesResponse(
            states=[
                state_service_pb2.State(
                    id=id, body=_body(row), version=row.version or 0, schema=row.schema or 0
                )
                for id, row in zip(ids, rows, strict=True)
            ]
        )

    async def set_state(
        self, caller: Caller, request: state_service_pb2.SetStateRequest
    ) -> state_service_pb2.SetStateResponse:
        """Replace a state if it still has the version that is given."""
        _check(caller, "state.write", request.kind, request.stage)
        request_id = checks.text("request_id", request.request_id, checks.ID_BYTES)
        if not request.HasField("state"):
            raise InvalidRequest("state", "is not set")
        if request.state.version < 0:
            raise InvalidRequest("state.version", "must be one that was read, or 0")
        stored = self._stored(request)
        place = {
            "kind": request.kind,
            "stage": request.stage,
            "id": checks.text("state.id", request.state.id, ENTITY_BYTES),
        }
        async with self._store.transaction() as tx:
            done = await tx.one(
                SQL["replace_state"],
                _as_given,
                **place,
                version=request.state.version,
                schema=stored.schema,
                body=stored.body,
                message=stored.message,
                message_type=stored.message_type,
            )
            if done is None:
                raise NotFound(f"kind {request.kind!r} has no entity {request.state.id!r}")
            if done:
                version = await tx.one(SQL["mark_request"], int, **place, request_id=request_id)
                return state_service_pb2.SetStateResponse(set=True, version=version)
            found = await tx.first(SQL["read_request"], RequestRow, **place, request_id=request_id)
        if found is None:
            return state_service_pb2.SetStateResponse(set=False, version=0)
        return state_service_pb2.SetStateResponse(set=found.is_same, version=found.version)

    def _stored(self, request: state_service_pb2.SetStateRequest) -> Stored:
        """The state as it is stored; where the code declares the stage, it must be able to read it."""
        given = request.state
        if given.schema < 0:
            raise InvalidRequest("state.schema", "must be 1 or more")
        schema = given.schema or 1
        stored = Stored(schema)
        if given.HasField("body"):
            form = given.body.WhichOneof("form")
            if form is None:
                raise InvalidRequest("state.body", "has neither json nor message")
            if form == "json":
                checks.json_of("state.body.json", given.body.json)
                stored = Stored(schema, body=given.body.json)
            else:
                name = checks.text("state.body.message.type_url", given.body.message.type_url)
                kept = name if "/" in name else TYPE_PREFIX + name
                stored = Stored(schema, message=given.body.message.value, message_type=kept)
        kind = self._store.app.kinds.get(request.kind)
        if kind is not None:
            find(kind, request.stage).state.decode(stored)
        return stored


def _as_given(done: bool | None) -> bool | None:
    return done


def _check(caller: Caller, verb: str, kind: str, stage: str) -> None:
    caller.check(verb, f"{checks.text('kind', kind)}/{checks.text('stage', stage)}")


def _body(row: StateRow) -> body_pb2.Body | None:
    if row.message is not None:
        found = body_pb2.Body()
        found.message.type_url = row.message_type or ""
        found.message.value = row.message
        return found
    return None if row.body is None else body_pb2.Body(json=row.body)
