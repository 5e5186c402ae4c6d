"""S27: the six stages of the listings example, each alone and all together, without a database."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from listings.catalogue import Catalogue
from listings.model import Listing, Photo
from listings.stages import EXPOSURE, PRICE_HOLDS, declare
from listings.world import ANGLES, MemoryWorld, VideoSiteDown, predict
from mainspring import Kind, Mainspring
from mainspring.testing import Simulation, check_confluence, check_stages, orders

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SOON = timedelta(seconds=10)


def kind(world: MemoryWorld | None = None, catalogue: int = 1) -> Kind:
    app = Mainspring("postgresql://nowhere/nothing")
    found: Kind = declare(app, world or MemoryWorld(), Catalogue(catalogue))
    return found


def car(**given: Any) -> Listing:
    values: dict[str, Any] = {
        "id": 1,
        "owner": "ann",
        "published_at": START,
        "title": "a car",
        "category": "estate",
        "year": 2020,
        "mileage_km": 50_000,
        "price": 9_000,
    }
    return Listing(**values | given)


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()


@pytest.fixture
def simulation(world: MemoryWorld) -> Simulation:
    return Simulation(kind(world), start=START, hooks=True)


def test_a_listing_is_taken_down_after_180_days_and_its_owner_told_once(simulation, world):
    """S27, S4: the timer is the visit itself."""
    began = time.monotonic()
    id = simulation.put(car(video_url="https://video.example/1"))

    simulation.advance(EXPOSURE - timedelta(seconds=1))
    before = simulation.entity(id).status
    simulation.advance(timedelta(seconds=1))

    assert (before, simulation.entity(id).status) == ("active", "expired")
    assert [to for to, _ in world.sent.values()] == ["ann"]
    assert time.monotonic() - began < 1


def test_a_withdrawn_listing_is_not_taken_down(simulation, world):
    """S27"""
    id = simulation.put(car())
    simulation.run()

    simulation.change(id, status="withdrawn")
    simulation.advance(EXPOSURE * 2)

    assert simulation.entity(id).status == "withdrawn"
    assert world.sent == {}


def test_an_active_listing_that_is_deleted_sends_nothing_to_its_owner(simulation, world):
    """S7, S27: trap: `saved` heard of the delete, and the owner was told of 180 days."""
    id = simulation.put(car(photos=[Photo("a")], video_url="https://video.example/1"))
    simulation.advance(SOON)

    simulation.delete(id)

    assert world.sent == {}


def test_photos_are_ordered_after_the_save_and_by_no_process(world):
    """S7, S27: `process` may be called again at will, so it changes nothing outside."""
    simulation = Simulation(kind(world), start=START)  # without hooks
    simulation.put(car(photos=[Photo("a")]))

    simulation.advance(SOON)

    assert (world.ordered_photos, world.sent) == (set(), {})


def test_a_new_catalogue_reaches_old_listings_by_a_crawl(world):
    """S27, S18"""
    simulation = Simulation(kind(world, catalogue=2), start=START)
    old = simulation.put(car(catalogue=2, category="sedan"))
    simulation.run()
    steps = len(simulation.steps)
    simulation._entities[old].value = car(catalogue=1, category="off-road")  # from before

    simulation.run()
    unseen = simulation.entity(old)
    simulation.crawl()
    simulation.run()

    assert unseen.category == "off-road"
    assert (simulation.entity(old).category, simulation.entity(old).catalogue) == ("suv", 2)
    assert len(simulation.steps) > steps


def test_a_price_is_predicted_again_when_its_reasons_change_or_a_month_has_passed(
    simulation, world
):
    """S27, S17: a change of the title or the price asks the model nothing."""
    id = simulation.put(car())
    simulation.run()
    assert simulation.entity(id).predicted_price == predict("estate", 2020, 50_000)
    assert world.predictions == 1

    simulation.change(id, title="a better car", price=8_000)
    simulation.run()
    assert world.predictions == 1

    simulation.change(id, mileage_km=60_000)
    simulation.run()
    assert simulation.entity(id).predicted_price == predict("estate", 2020, 60_000)
    assert world.predictions == 2

    simulation.advance(PRICE_HOLDS)
    assert world.predictions == 3


def test_photos_are_fetched_and_then_sorted_by_angle(simulation):
    """S27: two stages write the same field and know nothing of each other."""
    photos = [Photo(f"https://pics.example/{n}") for n in range(8)]
    id = simulation.put(car(photos=photos))

    simulation.advance(SOON)

    found = simulation.entity(id).photos
    assert {p.url for p in found} == {p.url for p in photos}
    assert all(p.stored for p in found)
    ranks = [ANGLES.index(p.angle) for p in found]
    assert ranks == sorted(ranks)


def test_a_video_is_looked_for_every_day_and_taken_off_after_three_misses(simulation, world):
    """S27, S5: the misses are counted in the stage's own state."""
    url = "https://video.example/1"
    id = simulation.put(car(video_url=url))
    simulation.run()
    assert simulation.entity(id).video_ok is True

    world.lost_videos.add(url)
    simulation.advance(2 * DAY)
    assert simulation.entity(id).video_ok is True
    assert simulation.state("CheckVideo", id).misses == 2

    simulation.advance(DAY)
    assert simulation.entity(id).video_ok is False

    world.lost_videos.clear()
    simulation.advance(DAY)
    assert simulation.entity(id).video_ok is True


def test_a_site_that_is_down_is_an_error_and_not_a_missing_video(simulation, world):
    """S27: the engine tries again; the stage has decided nothing."""
    world.video_site_is_down = True
    id = simulation.put(car(video_url="https://video.example/1"))

    with pytest.raises(VideoSiteDown) as failed:
        simulation.run()

    assert "stage 'CheckVideo'" in failed.value.__notes__[0]
    assert simulation.entity(id).video_ok is None


def test_the_six_stages_fit_together():
    """S27: in twenty orders, unasked, and visited early."""
    fresh = lambda: kind(catalogue=2)  # noqa: E731
    cars = [
        car(id=1, photos=[Photo("a"), Photo("b"), Photo("c")], video_url="https://video.example/1"),
        car(id=2, status="withdrawn", video_ok=True),
        car(id=3, published_at=START - EXPOSURE),
    ]

    check_stages(fresh, cars, after=SOON, start=START, hooks=True)


@settings(max_examples=50, deadline=None)
@given(
    order=orders(kind()),
    category=st.sampled_from(["estate", "cabrio", "sedan"]),
    status=st.sampled_from(["active", "withdrawn", "expired"]),
    urls=st.lists(st.sampled_from("abcdef"), max_size=4, unique=True),
    video=st.none() | st.just("https://video.example/1"),
    age=st.integers(0, 200),
)
def test_the_order_of_stages_does_not_matter(order, category, status, urls, video, age):
    """S27: the shipped strategy draws orders."""
    listing = car(
        category=category,
        status=status,
        photos=[Photo(url) for url in urls],
        video_url=video,
        published_at=START - timedelta(days=age),
    )

    fresh = lambda: kind(catalogue=2)  # noqa: E731
    check_confluence(fresh, [listing], order, after=SOON, start=START, hooks=True)
