import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Value(_message.Message):
    __slots__ = ("instant", "integer", "version")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    instant: _timestamp_pb2.Timestamp
    integer: int
    version: str
    def __init__(self, instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., integer: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class Param(_message.Message):
    __slots__ = ("name", "value", "revision", "changed_at", "changed_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Value
    revision: int
    changed_at: _timestamp_pb2.Timestamp
    changed_by: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ..., revision: _Optional[int] = ..., changed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changed_by: _Optional[str] = ...) -> None: ...

class AdvanceParamsRequest(_message.Message):
    __slots__ = ("params", "if_greater", "why")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    IF_GREATER_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    params: _containers.RepeatedCompositeFieldContainer[Param]
    if_greater: bool
    why: str
    def __init__(self, params: _Optional[_Iterable[_Union[Param, _Mapping]]] = ..., if_greater: _Optional[bool] = ..., why: _Optional[str] = ...) -> None: ...

class AdvanceParamsResponse(_message.Message):
    __slots__ = ("moved",)
    MOVED_FIELD_NUMBER: _ClassVar[int]
    moved: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, moved: _Optional[_Iterable[bool]] = ...) -> None: ...

class RewindParamRequest(_message.Message):
    __slots__ = ("name", "to", "chunks", "why", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    to: Value
    chunks: _containers.RepeatedCompositeFieldContainer[Value]
    why: str
    revision: int
    def __init__(self, name: _Optional[str] = ..., to: _Optional[_Union[Value, _Mapping]] = ..., chunks: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., why: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class RewindParamResponse(_message.Message):
    __slots__ = ("affected",)
    AFFECTED_FIELD_NUMBER: _ClassVar[int]
    affected: _containers.RepeatedCompositeFieldContainer[Affected]
    def __init__(self, affected: _Optional[_Iterable[_Union[Affected, _Mapping]]] = ...) -> None: ...

class Affected(_message.Message):
    __slots__ = ("task", "seen", "in_flight", "running", "repair")
    TASK_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    task: str
    seen: Value
    in_flight: bool
    running: bool
    repair: str
    def __init__(self, task: _Optional[str] = ..., seen: _Optional[_Union[Value, _Mapping]] = ..., in_flight: _Optional[bool] = ..., running: _Optional[bool] = ..., repair: _Optional[str] = ...) -> None: ...

class GetParamsRequest(_message.Message):
    __slots__ = ("names", "wait", "newer_than")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    NEWER_THAN_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    wait: _duration_pb2.Duration
    newer_than: int
    def __init__(self, names: _Optional[_Iterable[str]] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., newer_than: _Optional[int] = ...) -> None: ...

class GetParamsResponse(_message.Message):
    __slots__ = ("params", "revision")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    params: _containers.RepeatedCompositeFieldContainer[Param]
    revision: int
    def __init__(self, params: _Optional[_Iterable[_Union[Param, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class WatchParamsRequest(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchParamsResponse(_message.Message):
    __slots__ = ("params", "snapshot")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    params: _containers.RepeatedCompositeFieldContainer[Param]
    snapshot: bool
    def __init__(self, params: _Optional[_Iterable[_Union[Param, _Mapping]]] = ..., snapshot: _Optional[bool] = ...) -> None: ...
