"""Settings that cannot be, and what is said."""

import django
from django.conf import settings

django.setup()

from django.core import checks  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import override_settings  # noqa: E402
from django_tasks import task_backends  # noqa: E402

from mainspring_django.application import Project, application  # noqa: E402

LITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
connections.settings = connections.configure_settings({**settings.DATABASES, "lite": LITE})
BACKEND = {"BACKEND": "mainspring_django.MainspringBackend"}

for given in ({"DATABASE": "lite"}, {"DATABASE": "none"}, {"URL": "x"}):
    with override_settings(MAINSPRING=given, TASKS={"default": BACKEND}):
        for found in checks.run_checks():
            if found.id.startswith("mainspring"):
                hint = f" ({found.hint})" if found.hint else ""
                print(f"{found.id[-4:]}: {found.msg}{hint}")

for options in ({"retries": 1}, {"timeout": -1}):
    with override_settings(TASKS={"default": {**BACKEND, "OPTIONS": options}}):
        try:
            task_backends["default"]
            application()
        except Exception as error:
            print(error)

try:
    Project("lite", pool="default")
except Exception as error:
    print(error)

try:
    application().task(executor="process")(len)
except Exception as error:
    print(error)
