"""The application of the kill tests: the stage listing/rank is where ADDRESS says."""

from __future__ import annotations

import os

from mainspring import Mainspring

app = Mainspring()
listing = app.entities("listing", table="public.listing", key="id")
listing.remote_stage(
    "rank",
    os.environ["ADDRESS"],
    reads=["id", "title", "price"],
    writes=["rank"],
    ask=False,
    saved=True,
    crash_limit=2,
)
