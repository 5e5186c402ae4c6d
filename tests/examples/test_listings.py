"""S27: the listings example on a real database, with a worker, triggers and a clock that moves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from listings import service
from listings.catalogue import Catalogue
from listings.stages import EXPOSURE, declare
from listings.world import ANGLES, TableWorld, predict
from mainspring import Mainspring
from mainspring.testing import Clock, run_until_idle, wait_until


class Site:
    """The service's database, its application, and the questions of a visitor."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        service.create_tables(self.connection)
        self.world = TableWorld(url)

    def application(self, catalogue: int = 1) -> tuple[Mainspring, Any]:
        app = Mainspring(self.url)
        return app, declare(app, self.world, Catalogue(catalogue))

    def listing(self, id: int) -> dict[str, Any]:
        return self.query("select * from listing where id = %s", id)[0]

    def query(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    @property
    def fetched(self) -> bool:
        left = (
            "select 1 from listing where photos @? '$[*] ? (!exists(@.angle) || @.angle == null)'"
        )
        return not self.query(left)


@pytest.fixture
def site(mainspring_url: str) -> Iterator[Site]:
    found = Site(mainspring_url)
    yield found
    found.connection.close()


@pytest.fixture
async def app(site: Site) -> Any:
    app, _ = site.application()
    async with app:
        await app.migrate()
        yield app
    await site.world.close()


def rows_post(site: Site, count: int) -> list[int]:
    with psycopg.connect(site.url) as connection:
        return service.post(connection, count)


async def settle(app: Mainspring, site: Site) -> None:
    """Until nothing is due and every photo has come."""
    async with app.worker(lease=1.0, poll=0.05) as worker:
        await wait_until(lambda: site.fetched, 20)
        await worker.drained()


async def test_listings_come_to_rest_with_price_photos_and_video(site, app):
    """S27"""
    ids = rows_post(site, 30)

    await settle(app, site)

    for id in ids:
        row = site.listing(id)
        assert row["predicted_price"] == predict(row["category"], row["year"], row["mileage_km"])
        ranks = [ANGLES.index(photo["angle"]) for photo in row["photos"]]
        assert ranks == sorted(ranks)
        assert all(photo["stored"] for photo in row["photos"])
        assert row["video_ok"] is (True if row["video_url"] else None)
    timers = site.query("select queue, count(*) as n from mainspring.visit group by 1 order by 1")
    assert [tuple(row.values()) for row in timers] == [
        ("listing/CheckVideo", 10),
        ("listing/Expire", 30),
        ("listing/PredictPrice", 30),
    ]


async def test_a_listing_expires_after_180_days_and_the_mail_is_sent_once(site, app):
    """S27"""
    clock = Clock(site.url)
    (id, sold) = rows_post(site, 2)
    await settle(app, site)
    with psycopg.connect(site.url) as connection:
        service.withdraw(connection, sold)

    await clock.advance(EXPOSURE)
    await run_until_idle(app)

    assert site.listing(id)["status"] == "expired"
    assert site.listing(id)["predicted_price"] is None
    assert site.listing(sold)["status"] == "withdrawn"
    (mail,) = site.query("select recipient, text, deliveries from world.mail")
    assert (mail["recipient"], mail["deliveries"]) == ("ann", 1)
    assert f"listing {id} " in mail["text"]
    assert site.query("select 1 from mainspring.event") == []


async def test_views_wake_no_stage_and_a_correction_wakes_one(site, app):
    """S27, S17: counted at every look, and no stage's business."""
    (id,) = rows_post(site, 1)
    await settle(app, site)
    runs = "select queue from mainspring.history where queue like 'listing%%' and key = %s"
    before = len(site.query(runs, str(id)))

    with psycopg.connect(site.url) as connection:
        service.look_at(connection, [id])
    assert site.query("select 1 from mainspring.visit where queue = 'listing'") == []
    with psycopg.connect(site.url) as connection:
        service.drive(connection, [id], 12_000)
    await run_until_idle(app)

    ran = [row["queue"] for row in site.query(f"{runs} order by ended_at", str(id))][before:]
    assert set(ran) == {"listing", "listing/PredictPrice"}
    row = site.listing(id)
    assert row["predicted_price"] == predict(row["category"], row["year"], row["mileage_km"])


async def test_a_new_catalogue_comes_with_the_code_and_a_crawl(site, app):
    """S27, S18"""
    ids = rows_post(site, 12)
    await settle(app, site)
    deployed, listing = site.application(catalogue=2)

    async with deployed:
        await listing.crawl()
        await run_until_idle(deployed)

    found = {site.listing(id)["category"] for id in ids}
    assert found == {"sedan", "wagon", "suv", "convertible"}
    assert {site.listing(id)["catalogue"] for id in ids} == {2}
    for id in ids:
        row = site.listing(id)
        assert row["predicted_price"] == predict(row["category"], row["year"], row["mileage_km"])


async def test_a_video_that_is_gone_is_taken_off_on_the_third_day(site, app):
    """S27"""
    clock = Clock(site.url)
    ids = rows_post(site, 3)
    await settle(app, site)
    url = site.listing(ids[2])["video_url"]
    site.query("insert into world.lost_video values (%s)", url)

    seen = []
    for _ in range(3):
        await clock.advance(timedelta(days=1))
        await run_until_idle(app)
        seen.append(site.listing(ids[2])["video_ok"])

    assert seen == [True, True, False]


async def test_a_photo_added_in_the_middle_is_fetched_and_sorted_too(site, app):
    """S27, S6: nobody's photo is lost, whoever writes the list meanwhile."""
    ids = rows_post(site, 5)
    async with app.worker(lease=1.0, poll=0.05) as worker:
        for n in range(4):
            for id in ids:
                with psycopg.connect(site.url) as connection:
                    service.add_photo(connection, id, f"https://pics.example/{id}/more{n}")
        await wait_until(lambda: site.fetched, 20)
        await worker.drained()

    for id in ids:
        photos = site.listing(id)["photos"]
        assert len(photos) == len({photo["url"] for photo in photos}) == 6
        ranks = [ANGLES.index(photo["angle"]) for photo in photos]
        assert ranks == sorted(ranks)
