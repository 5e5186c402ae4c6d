"""Fixtures for pytest: a database of its own for every test, an application on it, a clock.

`mainspring_server` is started once a session (and once per xdist worker) when a test first asks;
`mainspring_url` is a fresh database in it; `mainspring_app` a `Mainspring` on that, closed after
the test; `mainspring_clock` moves its time. Sessions that use none of them start nothing.

It is a package of its own because pytest imports it at every start, in projects that test other
things too: Mainspring itself is imported when a fixture is first asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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


if find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def mainspring_app(mainspring_url: str) -> AsyncIterator[Mainspring]:
        """An application on the test's database, closed after the test."""
        from mainspring.app import Mainspring

        async with Mainspring(mainspring_url) as app:
            yield app

else:

    @pytest.fixture
    def mainspring_app(mainspring_url: str) -> Iterator[Mainspring]:
        """An application on the test's database, closed after the test."""
        from mainspring.app import Mainspring

        app = Mainspring(mainspring_url)
        yield app
        app.close_sync()
