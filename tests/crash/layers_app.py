"""The application of the tests of connections: tasks, a process, a kind and reactive tasks."""

from __future__ import annotations

from typing import Any

from mainspring import Context, Mainspring, Promise, RetryPolicy, Untouched, Update
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta

TABLE = """
create table if not exists listing (
  id bigint primary key, title text not null default '', price integer not null default 0,
  version bigint not null default 1
)
"""
SOON = RetryPolicy(attempts=100, first=0.05, most=0.2)


class Price:
    """The price is the title's length."""

    def should_process(self, found: dict[str, Any], state: Any) -> bool:
        return bool(found["price"] != len(found["title"]))

    async def process(self, found: dict[str, Any], state: Any) -> Update | Untouched:
        return Update(price=len(found["title"]))

    async def saved(self, event: Any) -> None: ...


def make(url: str | None = None) -> Mainspring:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    raw = app.data("raw.orders").param("n", kind="integer")
    mart = app.data("mart.orders").param("n", kind="integer")
    app.entities("listing", table="public.listing", key="id").stage()(Price)

    @app.task(retry=SOON)
    async def square(n: int) -> int:
        return n * n

    @app.task(retry=SOON)
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    @app.task(retry=SOON)
    async def held(n: int) -> int:
        return n

    @app.task(retry=SOON)
    async def booked(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("select %s", (n,))

    @app.process(retry=SOON)
    def sums(n: int) -> Promise[int]:
        return add([square(i) for i in range(n)])

    @app.task(when=Delta(raw), produces=[mart], retry=SOON)
    async def build(run: ReactiveRun) -> None:
        run.advance(mart, run.current[raw], if_greater=True)

    @app.task(when=Delta(mart), retry=SOON)
    async def report(run: ReactiveRun) -> None: ...

    return app


app = make()
