"""Two releases of one application: the second adds a param to the trigger of each of its tasks.

`RELEASE` says which one this process carries. Each run notes its task and its release.
"""

from __future__ import annotations

import os

import psycopg

from mainspring import Mainspring
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta, all_of

TASKS = [f"mart-{number}" for number in range(12)]


def make(url: str | None = None, release: str = "old") -> Mainspring:
    app = Mainspring(url)
    orders = app.data("raw.orders").param("n", kind="integer")
    rates = app.data("raw.rates").param("n", kind="integer")
    when = Delta(orders) if release == "old" else all_of(Delta(orders), Delta(rates))

    def note(run: ReactiveRun) -> None:
        with psycopg.connect(os.environ["MAINSPRING_URL"], autocommit=True) as connection:
            connection.execute("insert into ran values (%s, %s)", (run.task, release))

    for name in TASKS:
        app.task(name=name, when=when)(note)
    return app


app = make(release=os.environ.get("RELEASE", "old"))
