"""The project's application: on the database that Django's settings name, with a queue for each of theirs.

It takes the place of a `Mainspring(...)` of one's own. The address is read when it is first used, so tests
get Django's test database. Connections of Django's are closed around each of its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections
from psycopg.conninfo import make_conninfo

from mainspring import Mainspring
from mainspring.errors import InvalidSetting
from mainspring.kernel.settings import DEFAULT_POOL
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.tasks.declare.task import Task
from mainspring_django.connections import closing

_SETTING = "MAINSPRING"
# Of Django's OPTIONS those that are not libpq's own.
_OF_DJANGO = {"pool", "server_side_binding", "isolation_level", "assume_role", "context"}


class Options(NamedTuple):
    """The setting MAINSPRING: the alias of the database, the pool of what names none, and whether
    `manage.py migrate` makes the schema."""

    DATABASE: str = "default"
    POOL: str = DEFAULT_POOL
    MIGRATE: bool = True


class Project(Mainspring):
    """See the module."""

    # Almost all goes over Django's own connections; one that is idle would keep Django from dropping the
    # database of its tests.
    plain_idle_for = 0.0

    def __init__(self, alias: str, *, pool: str) -> None:
        super().__init__(_address_of(alias), pool=pool)
        self.alias = alias
        self.knows_queues = False  # those of the setting TASKS
        self._redirected = False

    @property
    def is_placed(self) -> bool:
        """Django's settings name a database."""
        return True

    def redirect(self, url: str) -> None:
        """Use this database whatever Django's settings name."""
        self._redirected = True
        super().redirect(url)

    def _address(self) -> str:
        if not self._redirected:
            self._url = _address_of(self.alias)  # that of tests is made after the declarations
        return super()._address()

    def _declare(
        self, function: Callable[..., object], given: dict[str, object]
    ) -> Task[..., object] | ReactiveTask:
        if given.get("executor") == "process":
            raise InvalidSetting(
                f'task {given.get("name") or function.__name__!r}: executor="process" is not for the '
                "application of a Django project yet: leave it out, and the function runs in a thread"
            )
        return super()._declare(closing(function), given)


def application() -> Project:
    """The one of this process."""
    project = _made()
    if not project.knows_queues:
        from mainspring_django.backend import declare_queues

        project.knows_queues = True
        declare_queues(project)
    return project


@cache
def _made() -> Project:
    chosen = options()
    return Project(chosen.DATABASE, pool=chosen.POOL)


def options() -> Options:
    """The setting MAINSPRING, checked."""
    given = getattr(settings, _SETTING, {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(
            f"the setting MAINSPRING must be a dict, got a {type(given).__name__}"
        )
    if unknown := sorted(given.keys() - set(Options._fields)):
        raise ImproperlyConfigured(
            f"the setting MAINSPRING has no {unknown[0]!r}; there are {', '.join(Options._fields)}"
        )
    chosen = Options(**given)
    if chosen.DATABASE not in connections.settings:
        known = ", ".join(repr(alias) for alias in connections.settings)
        raise ImproperlyConfigured(
            f"MAINSPRING['DATABASE'] is {chosen.DATABASE!r}, and the databases are {known}"
        )
    return chosen


def is_postgres(alias: str) -> bool:
    """Whether it is a PostgreSQL to Django."""
    return bool(connections[alias].vendor == "postgresql")


def _address_of(alias: str) -> str:
    """What Django connects to, as libpq reads it."""
    if not is_postgres(alias):
        raise InvalidSetting(
            f"Django's database {alias!r} is {connections[alias].vendor}, and Mainspring needs "
            "PostgreSQL: name another by MAINSPRING = {'DATABASE': alias}"
        )
    given = connections[alias].settings_dict
    extra = {
        name: value
        for name, value in given.get("OPTIONS", {}).items()
        if name not in _OF_DJANGO and isinstance(value, str | int)
    }
    # An empty one is Django's way to leave it out.
    parts = {
        "dbname": given.get("NAME"),
        "user": given.get("USER"),
        "password": given.get("PASSWORD"),
        "host": given.get("HOST"),
        "port": given.get("PORT"),
    }
    return make_conninfo("", **extra, **{name: value for name, value in parts.items() if value})


def _forget(*, setting: str, **_: object) -> None:
    """Tests change settings: the next use sees them."""
    if setting == "TASKS" and _made.cache_info().currsize:
        _made().knows_queues = False


setting_changed.connect(_forget)
