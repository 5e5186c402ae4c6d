"""Mainspring: a durable reactive engine on PostgreSQL.

It runs code when something happens and never loses one of them. Everything it does is a *visit* in
one durable table: queue Q should look at key K at time T.

    app         the one object an application holds
    processes   graphs of tasks, decided by plain functions
    tasks       functions whose calls are durable
    entities    stages that bring each entity of a table to rest
    reactive    functions that run when the state of the data says so
    kernel      visits: offered, read, run and settled
    db          connections, statements, migrations
    embedded    a private PostgreSQL server in a directory of the project
    events      what the engine logs
    testing     a moving clock, run until idle, crash points
    server      the door for other languages: gRPC, tokens, scopes
    v1          its protocol, and what is generated from it
    client      a client of it, which needs grpcio alone
    cli         the command line

The names below are imported when they are first asked for: a command, or a program that only enqueues,
does not wait for what it does not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring import events as events
from mainspring.errors import (
    AlreadyEnqueued,
    DatabaseUnavailable,
    Fenced,
    InvalidArguments,
    MainspringError,
    NotDone,
    OutcomeUnknown,
    ResultTimeout,
    RetryAfter,
    TaskFailed,
)
from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.app import Mainspring
    from mainspring.breakers.breaker import Breaker
    from mainspring.entities.declare.consumer import Sink
    from mainspring.entities.declare.dao import Change, Dao, one_by_one
    from mainspring.entities.declare.event import Saved
    from mainspring.entities.declare.ids import Codec
    from mainspring.entities.declare.kind_settings import Crawl
    from mainspring.entities.declare.outcome import Untouched, Update, now
    from mainspring.entities.kind import Kind
    from mainspring.processes.declare.call_off import call_off
    from mainspring.processes.declare.decider_api import Signal, gather, scope, set_attrs, sleep
    from mainspring.processes.declare.flow import choose, every, for_each, repeat_until
    from mainspring.processes.declare.group import CallGroup
    from mainspring.processes.declare.handle import ProcessHandle
    from mainspring.processes.declare.lock import lock
    from mainspring.processes.declare.process import Process
    from mainspring.processes.declare.question import ProcessView, Question
    from mainspring.processes.declare.races import First, first_of, first_success, some_of
    from mainspring.processes.operate.search import ProcessFilter
    from mainspring.reactive.declare.context import ReactiveRun
    from mainspring.retry_policy import RetryPolicy
    from mainspring.tasks.declare.handle import Handle
    from mainspring.tasks.declare.promise import Failure, Outcome, Promise
    from mainspring.tasks.declare.task import Task
    from mainspring.tasks.declare.unique import Unique
    from mainspring.tasks.run.context import Context
    from mainspring.version import __version__ as __version__

__all__ = [
    "AlreadyEnqueued",
    "Breaker",
    "CallGroup",
    "Change",
    "Codec",
    "Context",
    "Crawl",
    "Dao",
    "DatabaseUnavailable",
    "Failure",
    "Fenced",
    "First",
    "Handle",
    "InvalidArguments",
    "Kind",
    "Mainspring",
    "MainspringError",
    "NotDone",
    "Outcome",
    "OutcomeUnknown",
    "Process",
    "ProcessFilter",
    "ProcessHandle",
    "ProcessView",
    "Promise",
    "Question",
    "ReactiveRun",
    "ResultTimeout",
    "RetryAfter",
    "RetryPolicy",
    "Saved",
    "Signal",
    "Sink",
    "Task",
    "TaskFailed",
    "Unique",
    "Untouched",
    "Update",
    "call_off",
    "choose",
    "every",
    "first_of",
    "first_success",
    "for_each",
    "gather",
    "lock",
    "now",
    "one_by_one",
    "repeat_until",
    "scope",
    "set_attrs",
    "sleep",
    "some_of",
]

if not TYPE_CHECKING:  # else every name would be there for a type checker
    __getattr__ = on_demand(
        __name__,
        {
            "app": "Mainspring",
            "entities.declare.consumer": "Sink",
            "entities.declare.kind_settings": "Crawl",
            "entities.declare.dao": "Change Dao one_by_one",
            "entities.declare.event": "Saved",
            "entities.declare.ids": "Codec",
            "entities.kind": "Kind",
            "entities.declare.outcome": "Untouched Update now",
            "breakers.breaker": "Breaker",
            "processes.declare.group": "CallGroup",
            "retry_policy": "RetryPolicy",
            "processes.declare.handle": "ProcessHandle",
            "processes.declare.lock": "lock",
            "processes.declare.process": "Process",
            "processes.operate.search": "ProcessFilter",
            "processes.declare.decider_api": "Signal gather scope set_attrs sleep",
            "processes.declare.call_off": "call_off",
            "processes.declare.flow": "choose every for_each repeat_until",
            "processes.declare.question": "ProcessView Question",
            "processes.declare.races": "First first_of first_success some_of",
            "reactive.declare.context": "ReactiveRun",
            "tasks.run.context": "Context",
            "tasks.declare.handle": "Handle",
            "tasks.declare.promise": "Failure Outcome Promise",
            "tasks.declare.task": "Task",
            "tasks.declare.unique": "Unique",
            "version": "__version__",
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
