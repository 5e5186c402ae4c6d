"""Django's connections, and the aliases by which it knows them: the psycopg connection behind one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psycopg

from mainspring.db.caller.refused import failed, unusable
from mainspring.db.tx import SyncConnection
from mainspring.errors import InvalidSetting

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


def is_django(on: object) -> bool:
    """A connection of Django's or an alias; without Django in the process a text is nothing."""
    if isinstance(on, str):
        return True
    proxy = sys.modules.get("django.utils.connection")
    if proxy is not None and isinstance(on, proxy.ConnectionProxy):
        return hasattr(on, "ensure_connection")  # Django has proxies of other things, too
    base = sys.modules.get("django.db.backends.base.base")
    return base is not None and isinstance(on, base.BaseDatabaseWrapper)


def django_driver(on: object) -> SyncConnection:
    """The psycopg connection of it, opened if it is not."""
    wrapper = _by_alias(on) if isinstance(on, str) else _own_of(on)
    if wrapper.vendor != "postgresql":
        raise InvalidSetting(
            f"Django's database {wrapper.alias!r} given as on= is {wrapper.vendor}, not PostgreSQL"
        )
    if wrapper.in_atomic_block and wrapper.needs_rollback:
        raise failed(wrapper)
    wrapper.close_if_health_check_failed()
    wrapper.ensure_connection()
    found: object = wrapper.connection
    if not isinstance(found, psycopg.Connection):
        raise unusable(wrapper, "is psycopg2's; install psycopg 3, which Django then uses")
    return found


def _own_of(on: object) -> BaseDatabaseWrapper:
    """The connection itself, of the proxy that stands for this thread's."""
    from django.db import connections
    from django.utils.connection import ConnectionProxy

    return connections[on.alias] if isinstance(on, ConnectionProxy) else on


def _by_alias(alias: str) -> BaseDatabaseWrapper:
    if "django.db" not in sys.modules:
        raise InvalidSetting(
            "on= is a text, which stands for a database of Django's, and Django is not in use here; "
            "give a connection"
        )
    from django.db import connections

    if alias not in connections.settings:
        known = ", ".join(repr(name) for name in connections.settings)
        shown = "an address" if "://" in alias or "=" in alias else f"{alias[:40]!r}"
        raise InvalidSetting(
            f"on= is {shown}, and no database of Django's settings has that alias; there are {known}"
        )
    return connections[alias]
