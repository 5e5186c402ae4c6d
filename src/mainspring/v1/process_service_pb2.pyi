import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from mainspring.v1 import body_pb2 as _body_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ref(_message.Message):
    __slots__ = ("type", "id", "key")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    key: str
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class StartProcessRequest(_message.Message):
    __slots__ = ("type", "key", "id", "args_json", "attrs_json", "at", "priority")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ATTRS_JSON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    type: str
    key: str
    id: str
    args_json: str
    attrs_json: str
    at: _timestamp_pb2.Timestamp
    priority: int
    def __init__(self, type: _Optional[str] = ..., key: _Optional[str] = ..., id: _Optional[str] = ..., args_json: _Optional[str] = ..., attrs_json: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., priority: _Optional[int] = ...) -> None: ...

class StartProcessResponse(_message.Message):
    __slots__ = ("id", "is_new")
    ID_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    id: str
    is_new: bool
    def __init__(self, id: _Optional[str] = ..., is_new: _Optional[bool] = ...) -> None: ...

class GetProcessRequest(_message.Message):
    __slots__ = ("ref", "wait")
    REF_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    ref: Ref
    wait: _duration_pb2.Duration
    def __init__(self, ref: _Optional[_Union[Ref, _Mapping]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetProcessResponse(_message.Message):
    __slots__ = ("id", "state", "result_json", "problem", "parked")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    result_json: str
    problem: _body_pb2.Problem
    parked: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., result_json: _Optional[str] = ..., problem: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ..., parked: _Optional[str] = ...) -> None: ...

class ListProcessesRequest(_message.Message):
    __slots__ = ("type", "state", "attrs_json", "limit", "cursor")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTRS_JSON_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    type: str
    state: str
    attrs_json: str
    limit: int
    cursor: str
    def __init__(self, type: _Optional[str] = ..., state: _Optional[str] = ..., attrs_json: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListProcessesResponse(_message.Message):
    __slots__ = ("processes", "next_cursor")
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    processes: _containers.RepeatedCompositeFieldContainer[ListedProcess]
    next_cursor: str
    def __init__(self, processes: _Optional[_Iterable[_Union[ListedProcess, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ListedProcess(_message.Message):
    __slots__ = ("id", "key", "state", "attrs_json", "created_at", "ended_at", "parked")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTRS_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    id: str
    key: str
    state: str
    attrs_json: str
    created_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    parked: int
    def __init__(self, id: _Optional[str] = ..., key: _Optional[str] = ..., state: _Optional[str] = ..., attrs_json: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., parked: _Optional[int] = ...) -> None: ...

class SignalProcessRequest(_message.Message):
    __slots__ = ("ref", "name", "signal_id", "payload_json")
    REF_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    ref: Ref
    name: str
    signal_id: str
    payload_json: str
    def __init__(self, ref: _Optional[_Union[Ref, _Mapping]] = ..., name: _Optional[str] = ..., signal_id: _Optional[str] = ..., payload_json: _Optional[str] = ...) -> None: ...

class SignalProcessResponse(_message.Message):
    __slots__ = ("is_new",)
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    is_new: bool
    def __init__(self, is_new: _Optional[bool] = ...) -> None: ...

class CancelProcessRequest(_message.Message):
    __slots__ = ("ref",)
    REF_FIELD_NUMBER: _ClassVar[int]
    ref: Ref
    def __init__(self, ref: _Optional[_Union[Ref, _Mapping]] = ...) -> None: ...

class CancelProcessResponse(_message.Message):
    __slots__ = ("requested",)
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    requested: bool
    def __init__(self, requested: _Optional[bool] = ...) -> None: ...
