"""The listings demo of `make demo`: six stages through a killed worker, a deployment and 180 days.

Users post and edit cars with plain SQL while worker processes run the stages; one worker is killed with
SIGKILL, a new version of the catalogue is deployed and the base crawled, then half a year passes. At the
end every listing is accounted for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.live import Live
from rich.table import Table

from mainspring import Mainspring
from mainspring.testing import Clock

from . import service
from .catalogue import Catalogue
from .stages import EXPOSURE, declare
from .world import MemoryWorld, predict

LISTINGS = 200
EXAMPLES = Path(__file__).parents[1]
_FACTS = """
select count(*) as listings,
  count(*) filter (where predicted_price is not null) as "for sale, priced",
  count(*) filter (where not photos @? '$[*] ? (!exists(@.angle) || @.angle == null)') as photographed,
  count(*) filter (where catalogue = 2) as evolved,
  count(*) filter (where status = 'expired') as expired,
  (select count(*) from mainspring.visit where queue like 'listing%%' and due_at <= mainspring.now()
    and parked_at is null) as due,
  (select count(*) from mainspring.visit where queue like 'listing/%%'
    and due_at > mainspring.now()) as timers,
  (select count(*) from world.mail) as mails,
  (select count(*) from mainspring.worker) as workers
from listing
"""


class Demo:
    """The workers, and what the database says."""

    def __init__(self, url: str, live: Live, patience: float) -> None:
        self.url = url
        self.patience = patience  # seconds in which nothing may have moved
        self.news: list[str] = []
        self.facts: dict[str, int] = {}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.wrong_prices = LISTINGS  # until they are looked at
        self._live = live

    def start_worker(self, catalogue: int = 1) -> None:
        """A worker process with the code of that version of the catalogue."""
        code = "from listings.app import app; app.run(concurrency=20, lease=2.0, grace=5.0)"
        environment = {
            **os.environ,
            "MAINSPRING_URL": self.url,
            "LISTINGS_CATALOGUE": str(catalogue),
        }
        self.workers.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=EXAMPLES,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait(20)
        self.workers.clear()

    def kill_workers(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()

    def query(self, text: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(text, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Show the facts until a condition holds, or nothing moves any more."""
        moved_at, before = time.monotonic(), self.facts
        while time.monotonic() - moved_at < self.patience:
            self.look()
            if condition():
                return True
            if self.facts != before:
                moved_at, before = time.monotonic(), self.facts
            time.sleep(0.1)
        return False

    def look(self) -> None:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(_FACTS)
            row = cursor.fetchone()
            assert row is not None
            assert cursor.description is not None
        self.facts = dict(zip((c.name for c in cursor.description), row, strict=True))
        self._live.update(self.table())

    def table(self) -> Table:
        table = Table(title="Listings demo", title_justify="left", min_width=60)
        table.add_column("entities and stages")
        table.add_column("", justify="right")
        for name, value in self.facts.items():
            table.add_row(name, str(value))
        for line in self.news:
            table.add_row(f"[bold]{line}[/bold]", "")
        return table


def play(console: Console, url: str, *, patience: float) -> int:
    """The whole story; 0 if every listing is as it must be."""
    began = time.monotonic()
    with psycopg.connect(url) as connection:
        service.create_tables(connection)
    prepare(url)
    console.print(f"\n{LISTINGS} cars are posted while two workers run six stages on them")
    with Live(Table(), console=console, refresh_per_second=8) as live:
        demo = Demo(url, live, patience)
        try:
            complete = act(demo)
        finally:
            demo.kill_workers()
    console.print()
    return account(console, demo, complete, time.monotonic() - began)


def prepare(url: str) -> None:
    """Install the schema and the triggers, as `mainspring migrate listings.app:app` does."""
    app = Mainspring(url)
    declare(app, MemoryWorld(), Catalogue(1))
    app.migrate_sync()
    app.close_sync()


def act(demo: Demo) -> bool:
    """Users edit, a worker dies, a version is deployed, half a year passes."""
    demo.start_worker()
    demo.start_worker()
    with psycopg.connect(demo.url) as connection:
        ids = service.post(connection, LISTINGS)
    demo.wait(lambda: demo.facts["for sale, priced"] > LISTINGS // 4)
    demo.workers[0].send_signal(signal.SIGKILL)
    demo.news.append("worker 1 killed with SIGKILL; a new one takes its place")
    demo.start_worker()
    for n, id in enumerate(ids[:60]):  # users do not wait for the stages
        with psycopg.connect(demo.url) as connection:
            service.drive(connection, [id], 1000)
            service.add_photo(connection, id, f"https://pics.example/late/{n}")
            service.look_at(connection, ids)
    rested = demo.wait(lambda: demo.facts["photographed"] == LISTINGS and not demo.facts["due"])
    demo.stop_workers()
    demo.news.append("catalogue 2 is deployed, and the base is crawled")
    demo.start_worker(catalogue=2)
    demo.start_worker(catalogue=2)
    asyncio.run(crawl(demo.url))
    evolved = demo.wait(lambda: demo.facts["evolved"] == LISTINGS and not demo.facts["due"])
    demo.wrong_prices = wrong_prices(demo)
    demo.news.append("180 days pass")
    Clock(demo.url).advance_sync(EXPOSURE)
    expired = demo.wait(lambda: demo.facts["mails"] == LISTINGS and not demo.facts["due"])
    demo.stop_workers()
    return rested and evolved and expired


async def crawl(url: str) -> None:
    async with Mainspring(url) as app:
        await declare(app, MemoryWorld(), Catalogue(2)).crawl(source="demo")


def wrong_prices(demo: Demo) -> int:
    """Listings whose predicted price does not belong to their fields: an update was lost."""
    rows = demo.query("select category, year, mileage_km, predicted_price from listing")
    return sum(price != predict(category, year, km) for category, year, km, price in rows)


def account(console: Console, demo: Demo, complete: bool, seconds: float) -> int:
    """Every listing, accounted for."""
    facts = demo.facts
    (lost_photos,) = demo.query(
        "select (2 * %s + 60 - coalesce(sum(jsonb_array_length(photos)), 0))::int from listing",
        LISTINGS,
    )[0]
    (unsorted,) = demo.query(
        "select count(*) from listing where photos <> (select jsonb_agg(p order by array_position("
        "array['front', 'side', 'back', 'interior', 'detail'], p ->> 'angle'), p ->> 'url')"
        " from jsonb_array_elements(photos) p)"
    )[0]
    (violations,) = demo.query("select count(*) from mainspring.violation")[0]
    (parked,) = demo.query("select count(*) from mainspring.visit where parked_at is not null")[0]
    wrong = demo.wrong_prices
    table = Table(title="Every listing accounted for", title_justify="left", min_width=60)
    table.add_column("")
    table.add_column("listings", justify="right")
    for name, count in (
        ("posted", facts["listings"]),
        ("brought to the new catalogue", facts["evolved"]),
        ("taken down after 180 days, their owners told", facts["mails"]),
        ("with a price of other data than their own", wrong),
        ("photos lost or out of order", lost_photos + unsorted),
        ("parked", parked),
        ("broken invariants", violations),
    ):
        table.add_row(name, str(count))
    console.print(table)
    console.print(f"{seconds:.1f} s")
    if not complete:
        console.print(
            f"given up: nothing has moved for {demo.patience:g} s, and {facts['due']} visits are still due "
            "(they wait in the database; nothing is lost)"
        )
    faults = (wrong, lost_photos, unsorted, parked, violations)
    return 0 if complete and not any(faults) and facts["expired"] == LISTINGS else 1
