"""What the command line loads: `manage.py mainspring ...` names it as MAINSPRING_APP, for worker processes
too. Each app's module `tasks` is imported, where tasks of Mainspring's own are declared."""

from __future__ import annotations

import django
from django.utils.module_loading import autodiscover_modules

from mainspring_django.application import application

django.setup()
autodiscover_modules("tasks")
app = application()
