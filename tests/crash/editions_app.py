"""Two releases of one application: the second raises the edition that its stage writes.

`EDITION` says which one this process carries: the stage is declared alike in both.
"""

from __future__ import annotations

import os
from typing import Any

from mainspring import Mainspring, Untouched, Update

TABLE = """
create table public.house (
  id bigint primary key, edition integer not null default 1, version bigint not null default 1)
"""


def make(url: str | None = None, edition: int = 1) -> Mainspring:
    app = Mainspring(url)
    houses = app.entities("house", table="public.house")

    @houses.stage
    class Evolve:
        def should_process(self, house: Any, state: Any) -> bool:
            return bool(house["edition"] < edition)

        def process(self, house: Any, state: Any) -> Untouched | Update:
            return Update(edition=edition) if house["edition"] < edition else Untouched()

    return app


app = make(edition=int(os.environ.get("EDITION", "1")))
