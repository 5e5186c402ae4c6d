"""Requests about states of stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.client.messages import from_body, new_id, to_body
from mainspring.client.remote_call import RemoteCall
from mainspring.v1 import state_service_pb2 as v1


@dataclass(frozen=True, slots=True)
class StateRead:
    """A stage's state of an entity; version 0: there is none."""

    id: str
    value: Any
    version: int
    schema: int


def get(kind: str, stage: str, ids: Sequence[str]) -> RemoteCall[list[StateRead]]:
    """States of a stage, in the order of the ids."""
    return RemoteCall(
        "StateService/GetStates",
        v1.GetStatesRequest(kind=kind, stage=stage, ids=ids),
        v1.GetStatesResponse,
        lambda answer: [
            StateRead(s.id, from_body(s.body) if s.HasField("body") else None, s.version, s.schema)
            for s in answer.states
        ],
    )


def set_one(
    kind: str, stage: str, id: str, value: object, version: int, schema: int
) -> RemoteCall[tuple[bool, int]]:
    """Replace a state if it has this version; whether it was done, and the version that it has now."""
    body = None if value is None else to_body(value)
    return RemoteCall(
        "StateService/SetState",
        v1.SetStateRequest(
            kind=kind,
            stage=stage,
            state=v1.State(id=id, body=body, version=version, schema=schema),
            request_id=new_id(),
        ),
        v1.SetStateResponse,
        lambda answer: (bool(answer.set), int(answer.version)),
    )
