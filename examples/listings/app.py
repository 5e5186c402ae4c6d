"""The application that workers run: `mainspring worker listings.app:app`."""

from __future__ import annotations

from mainspring import Mainspring

from .catalogue import current
from .stages import declare
from .world import TableWorld

app = Mainspring()
listing = declare(app, TableWorld(), current())
