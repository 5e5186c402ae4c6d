"""Fixtures for pytest: a database of its own for every test, an application on it, a clock.

`mainspring_server` is started once a session (and once per xdist worker) when a test first asks;
`mainspring_url` is a fresh database in it; `mainspring_app` a `Mainspring` on that, `mainspring_use` puts
an application of yours there, both closed after the test; `mainspring_clock` moves its time. Sessions that
use none of them start nothing. Async tests may be run by pytest-asyncio or by anyio.

It is a package of its own because pytest imports it at every start, in projects that test other
things too: Mainspring itself is imported when a fixture is first asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mainspring.app import Mainspring
    from mainspring.testing.clock import Clock
    from mainspring.testing.database import TestServer


@pytest.fixture(scope="session")
def mainspring_server() -> Iterator[TestServer]:
    """A PostgreSQL for this session: private, or the one that MAINSPRING_TEST_DSN names."""
    from mainspring.testing.database import TestServer

    with TestServer.from_environment() as server:
        yield server


@pytest.fixture
def mainspring_url(mainspring_server: TestServer) -> Iterator[str]:
    """The address of a fresh, migrated database, dropped after the test."""
    with mainspring_server.database() as url:
        yield url


@pytest.fixture
def mainspring_clock(mainspring_url: str) -> Clock:
    """The engine's time in the test's database, which the test may move."""
    from mainspring.testing.clock import Clock

    return Clock(mainspring_url)


@pytest.fixture
def mainspring_app(mainspring_url: str, _mainspring_apps: list[Mainspring]) -> Mainspring:
    """An application on the test's database, closed after the test."""
    from mainspring.app import Mainspring

    app = Mainspring(mainspring_url)
    _mainspring_apps.append(app)
    return app


@pytest.fixture
def mainspring_use(
    mainspring_url: str, _mainspring_placed: ExitStack, _mainspring_apps: list[Mainspring]
) -> Callable[[Mainspring], Mainspring]:
    """Puts an application of a module on the test's database, until the end of the test."""
    from mainspring.testing.placed import placed

    def use(app: Mainspring) -> Mainspring:
        _mainspring_placed.enter_context(placed(app, mainspring_url))
        _mainspring_apps.append(app)
        return app

    return use


@pytest.fixture
def _mainspring_placed() -> Iterator[ExitStack]:
    """Applications that go back to where they were; after they were closed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def _mainspring_apps(
    request: pytest.FixtureRequest, mainspring_url: str, _mainspring_placed: ExitStack
) -> list[Mainspring]:
    """Applications that are closed after the test: in its event loop, if it has one."""
    by = "plain"
    if "anyio_backend" in request.fixturenames:
        by = "anyio"
    elif hasattr(request.config.option, "asyncio_mode"):
        by = "asyncio"  # that is pytest-asyncio's option
    apps: list[Mainspring] = request.getfixturevalue(f"_mainspring_apps_{by}")
    return apps


async def _closed_in_the_loop() -> AsyncIterator[list[Mainspring]]:
    apps: list[Mainspring] = []
    yield apps
    for app in apps:
        await app.close()


@pytest.fixture
def _mainspring_apps_plain() -> Iterator[list[Mainspring]]:
    apps: list[Mainspring] = []
    yield apps
    for app in apps:
        app.close_sync()


@pytest.fixture
async def _mainspring_apps_anyio(anyio_backend: object) -> AsyncIterator[list[Mainspring]]:
    async for apps in _closed_in_the_loop():
        yield apps


if find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def _mainspring_apps_asyncio() -> AsyncIterator[list[Mainspring]]:
        async for apps in _closed_in_the_loop():
            yield apps
