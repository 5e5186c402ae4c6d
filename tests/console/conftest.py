"""The application of the console's tests, and its console asked without a browser."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import httpx
import pytest
from console_plant import EVERYBODY, HOSTILE, Page, Visit, declare

from mainspring import Mainspring
from mainspring.console import Console, Viewer
from mainspring.testing import run_until_idle


@pytest.fixture
async def plant(mainspring_app: Mainspring) -> Mainspring:
    """The application after some work: done, parked, scheduled, waiting for a person."""
    app = mainspring_app
    declare(app)
    await app.migrate()
    await app.tasks["greet"].enqueue("world")
    await app.tasks["greet"].options(key=f"later {HOSTILE}", delay=3600).enqueue("you")
    for n in range(3):
        await app.tasks["charge"].options(key=f"c{n}").enqueue(f"{n} {HOSTILE}")
    await app.processes["order"].options(id="o-1", attrs={"city": HOSTILE}).start(1)
    await app.kinds["page"].put("p1", Page("one"))  # type: ignore[attr-defined]
    await app.advance(app.loaded, datetime(2026, 1, 1, tzinfo=UTC), why=HOSTILE)  # type: ignore[attr-defined]
    await run_until_idle(app)
    return app


@pytest.fixture
def visit() -> Visit:
    """Ask a console as a browser would; `viewer`: who asks, None: a stranger."""

    def make(
        app: Mainspring, viewer: Viewer | None = EVERYBODY, prefix: str = "", **settings: object
    ) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        async def authenticate(_: object) -> Viewer | None:
            return viewer

        console = Console(app, authenticate=authenticate, **settings)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(console, root_path=prefix)
        return httpx.AsyncClient(transport=transport, base_url="http://console")

    return make
