"""What a worker does with a call of a Django task: its function, in a thread, with Django's signals.

A run that raises is tried again as the queue's retry policy says; the task is finished when no more will
come. An async function has an event loop of its own in that thread, where `sync_to_async` leads back to it,
so both sorts have the thread's connections.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils import timezone

from mainspring import Context, RetryPolicy
from mainspring.kernel.outcome import Parked
from mainspring.kernel.retry import judge
from mainspring_django.api import (
    FAILED,
    RUNNING,
    SUCCESSFUL,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from mainspring_django.connections import fresh
from mainspring_django.results import Wanted

if TYPE_CHECKING:
    from mainspring_django.backend import MainspringBackend

_context: ContextVar[Context] = ContextVar("mainspring_django.context")


def current_context() -> Context:
    """The run of the Django task that calls this: its `idempotency_key`, `cancelled`, `transaction()`."""
    try:
        return _context.get()
    except LookupError:
        raise RuntimeError(
            "no task runs here: current_context() is for the functions of Django tasks while a worker "
            "of Mainspring runs them"
        ) from None


def run_call(ctx: Context, wanted: Wanted, retry: RetryPolicy) -> object:
    """Run it; answers what it returned, as JSON has it."""
    with fresh():
        backend, result = _begun(ctx, wanted)
        task = result.task
        token = _context.set(ctx)
        try:
            given = (TaskContext(task_result=result),) if task.takes_context else ()
            returned = normalize_json(task.call(*given, *result.args, **result.kwargs))
        except Exception as error:
            outcome = judge(retry, failures=ctx.attempt, error=error)
            if isinstance(outcome, Parked) and not ctx.stopped:
                path = f"{type(error).__module__}.{type(error).__qualname__}"
                text = outcome.error or ""
                result.errors.append(TaskError(exception_class_path=path, traceback=text))
                _finish(backend, result, FAILED)
            raise
        finally:
            _context.reset(token)
        object.__setattr__(result, "_return_value", returned)
        _finish(backend, result, SUCCESSFUL)
        return returned


def _begun(ctx: Context, wanted: Wanted) -> tuple[type[MainspringBackend], TaskResult[object]]:
    """Its result as the database has it, with this run; a run that just began may not be there yet."""
    from mainspring_django.backend import MainspringBackend

    task = wanted.find_task()
    backend = task.get_backend()
    assert isinstance(backend, MainspringBackend)
    now = timezone.now()
    result = wanted.result(str(ctx.id), RUNNING)
    if task.takes_context or ctx.attempt > 1:
        result = backend.find(ctx.id) or result
    _set(result, "status", RUNNING)
    if len(result.worker_ids) < ctx.attempt:
        result.worker_ids.append(str(ctx.worker_id))
        _set(result, "last_attempted_at", now)
    if result.started_at is None:
        _set(result, "started_at", now)
    task_started.send(type(backend), task_result=result)
    return type(backend), result


def _finish(
    backend: type[MainspringBackend], result: TaskResult[object], status: TaskResultStatus
) -> None:
    _set(result, "status", status)
    _set(result, "finished_at", timezone.now())
    task_finished.send_robust(backend, task_result=result)


def _set(result: TaskResult[object], name: str, value: datetime | TaskResultStatus) -> None:
    object.__setattr__(result, name, value)
