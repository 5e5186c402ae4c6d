"""The application of the crash tests of stages: one kind, a stage that saves, one that keeps state."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mainspring import Mainspring, Untouched, Update

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
TABLE = """
create table if not exists listing (
  id bigint primary key, title text not null default '', price integer not null default 0,
  hits integer not null default 0, version bigint not null default 1
)
"""


class Price:
    """The price is the title's length; its state counts its saves, as `hits` does."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return bool(found["price"] != len(found["title"]))

    async def process(self, found: dict[str, Any], state: Any) -> Update | Untouched:
        if found["price"] == len(found["title"]):
            return Untouched()
        return Update(price=len(found["title"]), hits=found["hits"] + 1, state=(state or 0) + 1)

    async def saved(self, event: Any) -> None: ...


class Notice:
    """Keeps the price that it has seen: a save of state alone."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return bool(state != found["price"])

    async def process(self, found: dict[str, Any], state: Any) -> Untouched:
        return Untouched(state=found["price"])


def make(url: str | None = None) -> Mainspring:
    app = Mainspring(url)
    kind = app.entities("listing", table="public.listing", key="id")
    kind.stage(interest=["title", "price"])(Price)
    kind.stage(reads=["price"])(Notice)
    return app


app = make()
if gate := os.environ.get("CRASH_GATE"):
    while not (FOLDER / gate).exists():
        time.sleep(0.01)
