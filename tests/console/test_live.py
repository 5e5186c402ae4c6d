"""Pages that are open: through a restart of the database, and what many of them cost it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from browser import browsing
from console_plant import declare
from console_server import ConsoleServer
from playwright.async_api import Page

from mainspring import Mainspring
from mainspring.embedded.server import EmbeddedServer
from mainspring.testing import run_until_idle, wait_until

TABS = 20
LOOKS = 3
# A page may be asked whether it is hidden, and told that it is: a browser without a screen shows all.
HIDE = """() => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# Three looks of the server, as the stream tells of them.
WATCH = """looks => new Promise(done => {
  const place = document.getElementById("live");
  let seen = new Set();
  const tabs = new BroadcastChannel("mainspring /console");
  const see = (at) => { seen.add(at); if (seen.size > looks) { tabs.close(); done(); } };
  tabs.onmessage = (event) => see(event.data.figures?.at);
})"""


@pytest.fixture(scope="module")
def database() -> Iterator[EmbeddedServer]:
    """A server of these tests' own, for they stop it."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-console-"))
    server = EmbeddedServer(folder / "m", settings={"fsync": "off", "shared_buffers": "32MB"})
    server.start()
    server.create_database()
    yield server
    server.stop(fast_seconds=2)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def shop(database: EmbeddedServer) -> AsyncIterator[Mainspring]:
    """An application that has a process and parked tasks."""
    app = Mainspring(database.url())
    declare(app)
    await app.migrate()
    await app.tasks["charge"].enqueue("0")
    await app.processes["order"].options(id="o-1").start(1)
    await run_until_idle(app)
    yield app
    await app.close()


async def _parked(app: Mainspring) -> int:
    return await app.operator.count_parked()


async def test_open_pages_recover_from_a_restart_of_the_database(
    database: EmbeddedServer, shop: Mainspring, tmp_path: Path
) -> None:
    """The overview, a process, and a page that was asked for meanwhile: nobody loads them anew."""
    expected = "503"  # a page that is asked for meanwhile
    with ConsoleServer(database.url(), tmp_path) as server:
        async with browsing(expected=expected) as page:
            await page.goto(server.link)
            await page.locator("#live", has_text="live").wait_for()
            process, late = await page.context.new_page(), await page.context.new_page()
            await process.goto(f"{server.root}/processes/one?id=o-1")
            await process.locator("#live", has_text="live").wait_for()
            database.stop(fast_seconds=2)
            await page.locator("#live", has_text="the database does not answer").wait_for()
            await process.locator("#live", has_text="no answer").wait_for()
            await late.goto(f"{server.root}/queues")
            await late.get_by_text("The database does not answer.").wait_for()
            database.start()
            await shop.operator.processes.signal("o-1", "approved", True)
            await shop.tasks["charge"].enqueue("again")
            await run_until_idle(shop)
            count = await _parked(shop)
            await page.get_by_role("link", name=f"Look at {count}").wait_for()
            await page.locator("#live", has_text="live").wait_for()
            await process.get_by_text("finished").first.wait_for()
            await late.get_by_role("heading", name="Queues").wait_for()


async def _transactions(url: str) -> int:
    """What clients have begun in this database, this question left out."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute(
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        ).fetchone()
        assert row
        return int(row[0])


async def _is_quiet(url: str) -> bool:
    """Whether nobody asks this database anything, but the server each 2 s whether it is there."""
    before = await _transactions(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_sleep(3)")
    return await _transactions(url) - before < 6


async def _cost(url: str, page: Page) -> float:
    """Transactions a look."""
    before = await _transactions(url)
    await page.evaluate(WATCH, LOOKS)
    return (await _transactions(url) - before) / LOOKS


async def test_twenty_tabs_cost_the_database_what_one_does(
    database: EmbeddedServer, shop: Mainspring, tmp_path: Path
) -> None:
    """They share one snapshot, and in one browser one stream. Hidden, they cost nothing."""
    await shop.close()
    with ConsoleServer(database.url(), tmp_path) as server:
        async with browsing() as page:
            await page.goto(server.link)
            other = await page.context.new_page()
            await other.goto(f"{server.root}/parked")  # hears of it, and has no stream
            alone = await _cost(database.url(), other)
            tabs = [page, other]
            for n in range(TABS - 2):
                tabs.append(await page.context.new_page())
                await tabs[-1].goto(
                    f"{server.root}{('/', '/queues', '/workers', '/parked')[n % 4]}"
                )
            together = await _cost(database.url(), other)
            assert together < 2 * alone + 5
            for tab in tabs:
                await tab.evaluate(HIDE)
            await wait_until(partial(_is_quiet, database.url()), timeout=60)
