"""An application with something on every screen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import httpx

from mainspring import Mainspring, Promise, RetryPolicy, Untouched
from mainspring.console import Viewer
from mainspring.reactive import new_data

# What a stranger may write anywhere: markup, an escape of terminals, a mark that turns text around.
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e' onload='x"
EVERYBODY = Viewer("ann", frozenset({"*"}))
SAME_SITE = {"sec-fetch-site": "same-origin"}


@dataclass
class Page:
    title: str = ""


def declare(app: Mainspring) -> None:
    """One thing of each layer."""

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(retry=RetryPolicy(attempts=1))
    async def charge(note: str) -> None:
        raise ValueError(f"refused {HOSTILE}")

    @app.task(cron="0 3 * * *", zone="Europe/Berlin")
    async def nightly() -> None: ...

    approved = app.signal("approved", bool)

    @app.process
    def order(number: int) -> Promise[bool]:
        return approved.wait()

    loaded = app.data("raw.sales").param("loaded_to", external=True)

    @app.task(when=new_data(loaded))
    async def mart() -> None: ...

    pages = app.documents("page", model=Page)

    @pages.stage
    def title(page: Page) -> Untouched:
        return Untouched()

    app.page_kind, app.loaded, app.order = pages, loaded, order  # type: ignore[attr-defined]


Visit = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
