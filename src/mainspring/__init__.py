"""Mainspring: a durable reactive engine on PostgreSQL.

It runs code when something happens and never loses one of them. Everything it does is a *visit* in
one durable table: queue Q should look at key K at time T.

    app         the one object an application holds
    tasks       functions whose calls are durable
    entities    stages that bring each entity of a table to rest
    reactive    functions that run when the state of the data says so
    kernel      visits: offered, read, run and settled
    db          connections, statements, migrations, the private server
    testing     a moving clock, run until idle, crash points
    cli         the command line
"""

from importlib.metadata import version

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
    ResultTimeout,
    TaskFailed,
)
from mainspring.kernel.retry import RetryPolicy
from mainspring.reactive.context import ReactiveRun
from mainspring.tasks.context import Context
from mainspring.tasks.handle import Handle
from mainspring.tasks.task import Task

__version__ = version("mainspring")

__all__ = [
    "Change",
    "Context",
    "Crawl",
    "Dao",
    "DatabaseUnavailable",
    "Fenced",
    "Handle",
    "InvalidArguments",
    "Kind",
    "Mainspring",
    "MainspringError",
    "ReactiveRun",
    "ResultTimeout",
    "RetryPolicy",
    "Saved",
    "Sink",
    "Task",
    "TaskFailed",
    "Untouched",
    "Update",
    "now",
    "one_by_one",
]
