"""The backend: what is enqueued is a row in Django's own transaction, and its result is read from there.

Each of its QUEUES is a task of Mainspring's, named `django.QUEUE`, whose calls name their function.
So a task is found by its path wherever it is declared, and operators pause, limit and watch queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.db.caller import Verb, caller_tx_sync
from mainspring.errors import MainspringError
from mainspring_django.api import (
    READY,
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
)
from mainspring_django.application import application, is_postgres, options
from mainspring_django.results import Wanted, find_result
from mainspring_django.run import run_call

_RESULT = Verb("get_result", "aget_result")
# What OPTIONS may say of all queues, and in OPTIONS["queues"] of each: settings of @app.task.
QUEUE_OPTIONS = (
    *("pool", "retry", "timeout", "grace", "hold_after", "crash_limit"),
    *("concurrency", "rate"),
)
_MIDDLE = 5
_OURS = "runs_calls_of_django"
R = TypeVar("R")


class MainspringBackend(BaseTaskBackend):
    """`TASKS = {"default": {"BACKEND": "mainspring_django.MainspringBackend"}}`

    `QUEUES`: as Django has it. `OPTIONS`: settings of `app.task` for all queues (`retry`, `timeout`
    ...), and by `"queues": {"mails": {...}}` for one.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, object]) -> None:
        super().__init__(alias, params)
        self.queue_options = _queue_options(alias, self.options)

    def enqueue(
        self,
        task: Task[..., R],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> TaskResult[R]:
        """Enqueue a call in the transaction that Django has open, or in one of its own."""
        self.validate_task(task)
        result: TaskResult[R] = TaskResult(  # which makes JSON of the arguments, or refuses them
            task=task,
            id="",
            status=READY,
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        wanted = Wanted(
            task=task.module_path,
            args=result.args,
            kwargs=result.kwargs,
            backend=self.alias,
            queue_name=task.queue_name,
            priority=task.priority,
            run_after=_aware(task.run_after),
            enqueued_at=_aware(result.enqueued_at),
        )
        app = application()
        queue = app.find_task(self.queue_of(task.queue_name))
        calls = queue.options(at=wanted.run_after, priority=band(task.priority), on=app.alias)
        handle = calls.enqueue_sync(**msgspec.structs.asdict(wanted))
        object.__setattr__(result, "id", handle.id)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[object]:
        """What became of a call, in Django's transaction: one that was enqueued in it is found."""
        try:
            found = self.find(UUID(result_id))
        except (ValueError, TypeError, AttributeError):
            found = None
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    def find(self, id: UUID) -> TaskResult[object] | None:
        """The result of a call of this backend, if there is one."""
        app = application()
        with caller_tx_sync(app.alias, app.sync_pool(), _RESULT) as tx:
            return find_result(tx, id, set(self.queue_names()))

    def queue_of(self, queue_name: str) -> str:
        """The Mainspring queue of a queue of Django's. Without QUEUES any name is one, and all are one."""
        prefix = "django" if self.alias == "default" else f"django.{self.alias}"
        return f"{prefix}.{queue_name}" if self.queues else prefix

    def queue_names(self) -> list[str]:
        """All its queues in Mainspring."""
        return [self.queue_of(name) for name in sorted(self.queues)] or [self.queue_of("")]

    def check(self, **_: object) -> Iterable[checks.CheckMessage]:
        """For `manage.py check`: that there is a PostgreSQL to enqueue in."""
        try:
            alias = options().DATABASE
        except ImproperlyConfigured as error:
            return [checks.Error(str(error), id="mainspring.E001")]
        if not is_postgres(alias):
            text = f"Mainspring needs PostgreSQL, and the database {alias!r} is another"
            hint = "name a database by MAINSPRING = {'DATABASE': alias}"
            return [checks.Error(text, hint=hint, id="mainspring.E002")]
        return []


def band(priority: int) -> int:
    """Of 201 priorities the one of ten that it goes with: 0 in the middle, order kept."""
    return _MIDDLE + (ceil(priority / 25) if priority > 0 else -ceil(-priority / 20))


def declare_queues(app: Mainspring) -> None:
    """Make each queue of the project's backends a task of the application, in the place of those before."""
    for name in [name for name, task in app.tasks.items() if hasattr(task.function, _OURS)]:
        del app.tasks[name]
    for alias in task_backends:
        backend = task_backends[alias]
        if isinstance(backend, MainspringBackend):
            for queue in backend.queue_names():
                _declare_queue(app, backend, queue)


def _declare_queue(app: Mainspring, backend: MainspringBackend, queue: str) -> None:
    name = queue.rpartition(".")[2] if backend.queues else ""
    settings = {**backend.queue_options.get("", {}), **backend.queue_options.get(name, {})}
    retry = settings.get("retry") or RetryPolicy()

    def run(
        ctx: Context,
        task: str,
        args: list[Any],
        kwargs: dict[str, Any],
        backend: str,
        queue_name: str,
        priority: int = 0,
        run_after: datetime | None = None,
        enqueued_at: datetime | None = None,
    ) -> Any:
        assert isinstance(retry, RetryPolicy)
        wanted = Wanted(task, args, kwargs, backend, queue_name, priority, run_after, enqueued_at)
        return run_call(ctx, wanted, retry)

    vars(run).update({_OURS: True, "closes_connections": True})  # which it does itself
    try:
        app.task(name=queue, searchable=(), **settings)(run)  # type: ignore[call-overload]
    except (MainspringError, TypeError) as error:
        raise ImproperlyConfigured(f"TASKS[{backend.alias!r}]: {error}") from error


def _queue_options(alias: str, given: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Settings by queue; those of all under no name."""
    each = given.get("queues", {})
    if not isinstance(each, Mapping):
        raise ImproperlyConfigured(
            f"TASKS[{alias!r}]['OPTIONS']['queues'] must be a dict of dicts by queue"
        )
    found = {"": {name: value for name, value in given.items() if name != "queues"}}
    found |= {str(name): dict(settings) for name, settings in each.items()}
    for settings in found.values():
        if unknown := sorted(settings.keys() - set(QUEUE_OPTIONS)):
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]['OPTIONS'] has no {unknown[0]!r}; there are "
                f"{', '.join(QUEUE_OPTIONS)} and queues"
            )
    return found


def _aware(at: datetime | None) -> datetime | None:
    """Without USE_TZ Django's times are naive, in the zone of its settings."""
    if at is None:
        return None
    return (timezone.make_aware(at) if timezone.is_naive(at) else at).astimezone(UTC)
