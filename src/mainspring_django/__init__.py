"""Mainspring in a Django project: a backend of its tasks, and `manage.py mainspring`.

    INSTALLED_APPS = [..., "mainspring_django"]
    TASKS = {"default": {"BACKEND": "mainspring_django.MainspringBackend"}}

`manage.py migrate` makes the schema, and `manage.py mainspring worker` runs the tasks. What is enqueued
inside of `atomic` is there if and only if that commits. `app` is the project's application, for tasks,
stages and processes of Mainspring's own.

api.py              Django's own tasks, or those of the package django-tasks
application.py      the project's application: its database, its queues
apps.py             the app: the schema after `migrate`
backend.py          enqueues, and reads results
connections.py      connections around each task that runs
models.py           none, which Django asks for
results.py          a call as Django's TaskResult
run.py              what a worker does with a call
worker.py           what the command line loads
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainspring_django.application import Project
    from mainspring_django.backend import MainspringBackend as MainspringBackend
    from mainspring_django.run import current_context as current_context

    app: Project

_HOMES = {"MainspringBackend": "backend", "current_context": "run"}


def __getattr__(name: str) -> object:
    """Nothing is imported before Django's settings are there."""
    if name == "app":
        from mainspring_django.application import application

        return application()
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
