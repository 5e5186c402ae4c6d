"""Django's interface of tasks: `django.tasks` where Django has it (6.0), else the package django-tasks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from mainspring.errors import MissingExtra

if find_spec("django.tasks") is None and find_spec("django_tasks") is None:
    raise MissingExtra("a backend for Django's tasks", "django_tasks", "django")

if TYPE_CHECKING or find_spec("django.tasks") is None:
    from django_tasks import task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json
else:
    from django.tasks import task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json

READY = TaskResultStatus("READY")
RUNNING = TaskResultStatus("RUNNING")
FAILED = TaskResultStatus("FAILED")
SUCCESSFUL = TaskResultStatus("SUCCESSFUL")

__all__ = [
    "FAILED",
    "READY",
    "RUNNING",
    "SUCCESSFUL",
    "BaseTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
