from mainspring.v1 import body_pb2 as _body_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class State(_message.Message):
    __slots__ = ("id", "body", "version", "schema")
    ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    id: str
    body: _body_pb2.Body
    version: int
    schema: int
    def __init__(self, id: _Optional[str] = ..., body: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., version: _Optional[int] = ..., schema: _Optional[int] = ...) -> None: ...

class GetStatesRequest(_message.Message):
    __slots__ = ("kind", "stage", "ids")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStatesResponse(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[State]
    def __init__(self, states: _Optional[_Iterable[_Union[State, _Mapping]]] = ...) -> None: ...

class SetStateRequest(_message.Message):
    __slots__ = ("kind", "stage", "state", "request_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    state: State
    request_id: str
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., state: _Optional[_Union[State, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetStateResponse(_message.Message):
    __slots__ = ("set", "version")
    SET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    set: bool
    version: int
    def __init__(self, set: _Optional[bool] = ..., version: _Optional[int] = ...) -> None: ...
