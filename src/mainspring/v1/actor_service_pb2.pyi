import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from mainspring.v1 import body_pb2 as _body_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SettledAs(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLED_AS_UNSPECIFIED: _ClassVar[SettledAs]
    SETTLED_AS_ACCEPTED: _ClassVar[SettledAs]
    SETTLED_AS_ALREADY: _ClassVar[SettledAs]
    SETTLED_AS_REFUSED: _ClassVar[SettledAs]
    SETTLED_AS_INVALID: _ClassVar[SettledAs]
    SETTLED_AS_BUSY: _ClassVar[SettledAs]
SETTLED_AS_UNSPECIFIED: SettledAs
SETTLED_AS_ACCEPTED: SettledAs
SETTLED_AS_ALREADY: SettledAs
SETTLED_AS_REFUSED: SettledAs
SETTLED_AS_INVALID: SettledAs
SETTLED_AS_BUSY: SettledAs

class PullTasksRequest(_message.Message):
    __slots__ = ("actors", "limit", "wait", "worker", "pull_id", "again")
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PULL_ID_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    actors: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    wait: _duration_pb2.Duration
    worker: str
    pull_id: str
    again: bool
    def __init__(self, actors: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., worker: _Optional[str] = ..., pull_id: _Optional[str] = ..., again: _Optional[bool] = ...) -> None: ...

class PullTasksResponse(_message.Message):
    __slots__ = ("tasks", "pause")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[PulledTask]
    pause: _duration_pb2.Duration
    def __init__(self, tasks: _Optional[_Iterable[_Union[PulledTask, _Mapping]]] = ..., pause: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PulledTask(_message.Message):
    __slots__ = ("ticket", "actor", "process_id", "task_id", "args_json", "idempotency_key", "attempt", "held_until", "beat_every", "deadline", "trace")
    class TraceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    HELD_UNTIL_FIELD_NUMBER: _ClassVar[int]
    BEAT_EVERY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    actor: str
    process_id: str
    task_id: str
    args_json: str
    idempotency_key: str
    attempt: int
    held_until: _timestamp_pb2.Timestamp
    beat_every: _duration_pb2.Duration
    deadline: _timestamp_pb2.Timestamp
    trace: _containers.ScalarMap[str, str]
    def __init__(self, ticket: _Optional[str] = ..., actor: _Optional[str] = ..., process_id: _Optional[str] = ..., task_id: _Optional[str] = ..., args_json: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt: _Optional[int] = ..., held_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., beat_every: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trace: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BeatTasksRequest(_message.Message):
    __slots__ = ("tickets",)
    TICKETS_FIELD_NUMBER: _ClassVar[int]
    tickets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tickets: _Optional[_Iterable[str]] = ...) -> None: ...

class BeatTasksResponse(_message.Message):
    __slots__ = ("beaten",)
    BEATEN_FIELD_NUMBER: _ClassVar[int]
    beaten: _containers.RepeatedCompositeFieldContainer[Beaten]
    def __init__(self, beaten: _Optional[_Iterable[_Union[Beaten, _Mapping]]] = ...) -> None: ...

class Beaten(_message.Message):
    __slots__ = ("held_until", "stop")
    HELD_UNTIL_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    held_until: _timestamp_pb2.Timestamp
    stop: str
    def __init__(self, held_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., stop: _Optional[str] = ...) -> None: ...

class SettleTasksRequest(_message.Message):
    __slots__ = ("worker", "settlements")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    def __init__(self, worker: _Optional[str] = ..., settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("ticket", "result_json", "decision_json", "failure", "release")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    DECISION_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    result_json: str
    decision_json: str
    failure: _body_pb2.Problem
    release: Release
    def __init__(self, ticket: _Optional[str] = ..., result_json: _Optional[str] = ..., decision_json: _Optional[str] = ..., failure: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SettleTasksResponse(_message.Message):
    __slots__ = ("settled",)
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    settled: _containers.RepeatedCompositeFieldContainer[Settled]
    def __init__(self, settled: _Optional[_Iterable[_Union[Settled, _Mapping]]] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("settled_as", "problem")
    SETTLED_AS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    settled_as: SettledAs
    problem: _body_pb2.Problem
    def __init__(self, settled_as: _Optional[_Union[SettledAs, str]] = ..., problem: _Optional[_Union[_body_pb2.Problem, _Mapping]] = ...) -> None: ...
