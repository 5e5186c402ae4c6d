"""Mainspring: a durable reactive engine on PostgreSQL.

It runs code when something happens and never loses one of them. Everything it does is a *visit* in
one durable table: queue Q should look at key K at time T.

    app         the one object an application holds
    processes   graphs of tasks, decided by plain functions
    tasks       functions whose calls are durable
    entities    stages that bring each entity of a table to rest
    reactive    functions that run when the state of the data says so
    kernel      visits: offered, read, run and settled
    db          connections, statements, migrations, the private server
    events      what the engine logs
    testing     a moving clock, run until idle, crash points
    cli         the command line
"""

from importlib.metadata import version

from mainspring import events as events
from mainspring.app import Mainspring
from mainspring.entities.clock import now
from mainspring.entities.consumer import Sink
from mainspring.entities.crawl import Crawl
from mainspring.entities.dao import Change, Dao, one_by_one
from mainspring.entities.event import Saved
from mainspring.entities.kind import Kind
from mainspring.entities.outcome import Untouched, Update
from mainspring.errors import (
    DatabaseUnavailable,
    Fenced,
    InvalidArguments,
    MainspringError,
    NotDone,
    OutcomeUnknown,
    ResultTimeout,
    TaskFailed,
)
from mainspring.kernel.retry import RetryPolicy
from mainspring.processes.handle import ProcessHandle
from mainspring.processes.process import Process
from mainspring.processes.search import ProcessFilter
from mainspring.processes.verbs import First, Signal, first_of, gather, scope, set_attrs, sleep
from mainspring.reactive.context import ReactiveRun
from mainspring.tasks.context import Context
from mainspring.tasks.handle import Handle
from mainspring.tasks.promise import Failure, Outcome, Promise
from mainspring.tasks.task import Task

__version__ = version("mainspring")

__all__ = [
    "Change",
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
    "Promise",
    "ReactiveRun",
    "ResultTimeout",
    "RetryPolicy",
    "Saved",
    "Signal",
    "Sink",
    "Task",
    "TaskFailed",
    "Untouched",
    "Update",
    "first_of",
    "gather",
    "now",
    "one_by_one",
    "scope",
    "set_attrs",
    "sleep",
]
