import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from mainspring.v1 import body_pb2 as _body_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("kind", "stage", "features")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("features", "reads", "writes", "asks", "hears", "schema", "state_types", "max_items", "max_bytes")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    HEARS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STATE_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    features: _containers.RepeatedScalarFieldContainer[str]
    reads: _containers.RepeatedScalarFieldContainer[str]
    writes: _containers.RepeatedScalarFieldContainer[str]
    asks: bool
    hears: bool
    schema: int
    state_types: _containers.RepeatedScalarFieldContainer[str]
    max_items: int
    max_bytes: int
    def __init__(self, features: _Optional[_Iterable[str]] = ..., reads: _Optional[_Iterable[str]] = ..., writes: _Optional[_Iterable[str]] = ..., asks: _Optional[bool] = ..., hears: _Optional[bool] = ..., schema: _Optional[int] = ..., state_types: _Optional[_Iterable[str]] = ..., max_items: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("id", "entity", "entity_version", "state", "state_version", "state_schema", "crawl", "trace")
    class TraceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    ENTITY_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CRAWL_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    id: str
    entity: _body_pb2.Body
    entity_version: int
    state: _body_pb2.Body
    state_version: int
    state_schema: int
    crawl: bool
    trace: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., entity: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., entity_version: _Optional[int] = ..., state: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., state_version: _Optional[int] = ..., state_schema: _Optional[int] = ..., crawl: _Optional[bool] = ..., trace: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ShouldProcessRequest(_message.Message):
    __slots__ = ("kind", "stage", "now", "items")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    now: _timestamp_pb2.Timestamp
    items: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class ShouldProcessResponse(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, _Mapping]]] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("id", "wanted", "visit_at", "problem")
    ID_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    VISIT_AT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    id: str
    wanted: bool
    visit_at: _timestamp_pb2.Timestamp
    problem: _body_pb2.Problem
    def __init__(self, id: _Optional[str] = ..., wanted: _Optional[bool] = ..., visit_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ...) -> None: ...

class ProcessRequest(_message.Message):
    __slots__ = ("kind", "stage", "now", "items")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    stage: str
    now: _timestamp_pb2.Timestamp
    items: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, kind: _Optional[str] = ..., stage: _Optional[str] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class ProcessResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("id", "untouched", "update", "problem", "state", "visit_at", "visit_in")
    ID_FIELD_NUMBER: _ClassVar[int]
    UNTOUCHED_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VISIT_AT_FIELD_NUMBER: _ClassVar[int]
    VISIT_IN_FIELD_NUMBER: _ClassVar[int]
    id: str
    untouched: Untouched
    update: Update
    problem: _body_pb2.Problem
    state: NewState
    visit_at: _timestamp_pb2.Timestamp
    visit_in: _duration_pb2.Duration
    def __init__(self, id: _Optional[str] = ..., untouched: _Optional[_Union[Untouched, _Mapping]] = ..., update: _Optional[_Union[Update, _Mapping]] = ..., problem: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ..., state: _Optional[_Union[NewState, _Mapping]] = ..., visit_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., visit_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Untouched(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Update(_message.Message):
    __slots__ = ("patch", "entity", "mask")
    PATCH_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    patch: _body_pb2.Body
    entity: _body_pb2.Body
    mask: _field_mask_pb2.FieldMask
    def __init__(self, patch: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., entity: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class NewState(_message.Message):
    __slots__ = ("body", "schema")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    body: _body_pb2.Body
    schema: int
    def __init__(self, body: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., schema: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "what", "stage", "entity", "state", "entity_version", "state_version", "changed_json", "created_at", "idempotency_key")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    number: int
    what: str
    stage: str
    entity: _body_pb2.Body
    state: _body_pb2.Body
    entity_version: int
    state_version: int
    changed_json: str
    created_at: _timestamp_pb2.Timestamp
    idempotency_key: str
    def __init__(self, number: _Optional[int] = ..., what: _Optional[str] = ..., stage: _Optional[str] = ..., entity: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., state: _Optional[_Union[_body_pb2.Body, _Mapping]] = ..., entity_version: _Optional[int] = ..., state_version: _Optional[int] = ..., changed_json: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class EntityEvents(_message.Message):
    __slots__ = ("id", "events")
    ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, id: _Optional[str] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class SavedRequest(_message.Message):
    __slots__ = ("kind", "consumer", "entities")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    consumer: str
    entities: _containers.RepeatedCompositeFieldContainer[EntityEvents]
    def __init__(self, kind: _Optional[str] = ..., consumer: _Optional[str] = ..., entities: _Optional[_Iterable[_Union[EntityEvents, _Mapping]]] = ...) -> None: ...

class SavedResponse(_message.Message):
    __slots__ = ("heard",)
    HEARD_FIELD_NUMBER: _ClassVar[int]
    heard: _containers.RepeatedCompositeFieldContainer[Heard]
    def __init__(self, heard: _Optional[_Iterable[_Union[Heard, _Mapping]]] = ...) -> None: ...

class Heard(_message.Message):
    __slots__ = ("id", "number", "problem")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    problem: _body_pb2.Problem
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., problem: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ...) -> None: ...
