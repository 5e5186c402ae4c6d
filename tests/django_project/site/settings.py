"""A project with one app; the address of its database is in SHOP_URL."""

import os

from psycopg.conninfo import conninfo_to_dict

from mainspring import RetryPolicy

_given = conninfo_to_dict(os.environ["SHOP_URL"])
SECRET_KEY = "not one"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _given["dbname"],
        "USER": _given.get("user", ""),
        "PASSWORD": _given.get("password", ""),
        "HOST": _given.get("host", ""),
        "PORT": str(_given.get("port", "")),
        "CONN_MAX_AGE": int(os.environ.get("SHOP_MAX_AGE", "0")),
    }
}
INSTALLED_APPS = ["django_tasks", "mainspring_django", "shop"]
TASKS = {
    "default": {
        "BACKEND": "mainspring_django.MainspringBackend",
        "QUEUES": ["default", "mails", "once", "soon"],
        "OPTIONS": {
            "queues": {
                "mails": {"timeout": 30},
                "once": {"retry": RetryPolicy(attempts=1)},
                "soon": {"retry": RetryPolicy(first=0.0)},
            }
        },
    },
    "any": {"BACKEND": "mainspring_django.MainspringBackend", "QUEUES": []},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
