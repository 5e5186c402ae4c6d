"""The app: `manage.py migrate` brings Mainspring's schema up to date when Django's migrations are done."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from mainspring_django.application import application, is_postgres, options


class MainspringConfig(AppConfig):  # type: ignore[misc]
    """Mainspring in Django."""

    name = "mainspring_django"
    verbose_name = "Mainspring"

    def ready(self) -> None:
        """Nothing connects before a migration, a task or a command does."""
        post_migrate.connect(_migrate, sender=self)


def _migrate(*, using: str, verbosity: int = 1, **given: object) -> None:
    """After `migrate`, and not after `flush`, which has no plan; where this is the database."""
    chosen = options()
    if "plan" not in given or not chosen.MIGRATE or using != chosen.DATABASE:
        return
    if not is_postgres(using):
        return
    from mainspring_django import (
        worker,  # all that is declared: kinds have triggers on their tables
    )

    assert worker.app is application()
    applied = worker.app.migrate_sync()
    if verbosity >= 1 and applied:
        print(f"  Applied migrations of Mainspring {applied[0]} to {applied[-1]}")
