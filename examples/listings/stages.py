"""The six stages of a listing, and how they are declared.

Each does one thing and knows nothing of the others. `should_process` and `process` only look;
what must happen outside happens in `saved`, after the save.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mainspring import Mainspring, RetryPolicy, Saved, Untouched, Update, now

from .catalogue import Catalogue
from .model import Listing, Photo
from .world import ANGLES, World

EXPOSURE = timedelta(days=180)
PRICE_HOLDS = timedelta(days=30)
VIDEO_EVERY = timedelta(days=1)
PHOTO_PATIENCE = timedelta(seconds=2)
MISSES_ALLOWED = 3


class Expire:
    """Takes a listing down after 180 days of exposure, and tells its owner."""

    def __init__(self, world: World) -> None:
        self._world = world

    def should_process(self, listing: Listing, state: None) -> bool | datetime:
        return listing.status == "active" and listing.published_at + EXPOSURE

    async def process(self, listing: Listing, state: None) -> Untouched | Update:
        if listing.status != "active":
            return Untouched()
        end = listing.published_at + EXPOSURE
        return Untouched(visit_at=end) if now() < end else Update(status="expired")

    async def saved(self, event: Saved) -> None:
        text = f"your listing {event.id} was shown for {EXPOSURE.days} days and is now closed"
        await self._world.send(event.idempotency_key, event.entity.owner, text)


class Evolve:
    """Brings a listing to the current version of the catalogue.

    A new version comes with the code, and no listing changes because of it: a crawl of the base
    (`mainspring entities crawl listing --after-deploy`) asks this stage about every one.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def should_process(self, listing: Listing, state: None) -> bool:
        return listing.catalogue < self._catalogue.version

    def process(self, listing: Listing, state: None) -> Untouched | Update:
        if not self.should_process(listing, state):
            return Untouched()  # asked when in doubt: it looks again for itself
        return Update(
            category=self._catalogue.translate(listing.category, listing.catalogue),
            catalogue=self._catalogue.version,
        )


@dataclass(frozen=True, slots=True)
class PriceState:
    """What the last prediction was made from, and until when it holds."""

    category: str
    year: int
    mileage_km: int
    until: datetime


class PredictPrice:
    """Adds the price that the model expects; asks the model again after a month.

    A listing that is closed has none: else what a closed one has would depend on what came first,
    the prediction or the closing.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def should_process(self, listing: Listing, state: PriceState | None) -> bool | datetime:
        if listing.status != "active":
            return listing.predicted_price is not None or state is not None
        return state.until if _is_fresh(listing, state) and state else True

    async def process(self, listing: Listing, state: PriceState | None) -> Untouched | Update:
        if listing.status != "active":
            return Update(predicted_price=None, state=None)
        if state and _is_fresh(listing, state):
            return Untouched(visit_at=state.until)
        price = await self._world.predict_price(listing.category, listing.year, listing.mileage_km)
        until = now() + PRICE_HOLDS
        made = PriceState(listing.category, listing.year, listing.mileage_km, until)
        return Update(predicted_price=price, state=made, visit_at=until)


def _is_fresh(listing: Listing, state: PriceState | None) -> bool:
    if state is None or state.until <= now():
        return False
    used = (state.category, state.year, state.mileage_km)
    return used == (listing.category, listing.year, listing.mileage_km)


class SortPhotos:
    """Finds out what each fetched photo shows, and puts the best angles first."""

    def __init__(self, world: World) -> None:
        self._world = world

    def should_process(self, listing: Listing, state: None) -> bool:
        fetched = [photo for photo in listing.photos if photo.stored is not None]
        return any(p.angle is None for p in fetched) or listing.photos != _sorted(listing.photos)

    async def process(self, listing: Listing, state: None) -> Untouched | Update:
        photos = [await self._seen(photo) for photo in listing.photos]
        return Update(photos=_sorted(photos))  # the same as before is no update

    async def _seen(self, photo: Photo) -> Photo:
        if photo.stored is None or photo.angle is not None:
            return photo
        return replace(photo, angle=await self._world.recognise_angle(photo.stored))


def _sorted(photos: list[Photo]) -> list[Photo]:
    """By angle; those that are not recognised yet come last, and equals are told apart by address."""
    rank = {angle: n for n, angle in enumerate(ANGLES)}
    return sorted(photos, key=lambda p: (rank.get(p.angle or "", len(ANGLES)), p.url))


@dataclass(frozen=True, slots=True)
class VideoState:
    """How the last look at a video went."""

    url: str
    looked_at: datetime
    misses: int = 0


class CheckVideo:
    """Looks once a day whether the video is still there; three misses in a row take it off."""

    def __init__(self, world: World) -> None:
        self._world = world

    def should_process(self, listing: Listing, state: VideoState | None) -> bool | datetime:
        if listing.status != "active" or listing.video_url is None:
            return listing.video_ok is not None or state is not None  # of a video that is gone
        if state is None or state.url != listing.video_url:
            return True
        return state.looked_at + VIDEO_EVERY

    async def process(self, listing: Listing, state: VideoState | None) -> Untouched | Update:
        url = listing.video_url
        if listing.status != "active" or url is None:
            return Update(video_ok=None, state=None)
        if state is None or state.url != url:
            state = VideoState(url, looked_at=now() - VIDEO_EVERY)
        due = state.looked_at + VIDEO_EVERY
        if now() < due:
            return Untouched(visit_at=due)  # somebody else's wish: the timer is stated anew
        up = await self._world.video_is_up(url)  # raises when the site is down: tried again
        misses = 0 if up else state.misses + 1
        seen = VideoState(url, looked_at=now(), misses=misses)
        ok = misses < MISSES_ALLOWED
        return Update(video_ok=ok, state=seen, visit_at=now() + VIDEO_EVERY)


@dataclass(frozen=True, slots=True)
class PhotoState:
    """The photos that are on order."""

    ordered: tuple[str, ...]


class FetchPhotos:
    """Has new photos fetched by the photo service, and notes where they are kept.

    The order is an effect: `process` saves which photos it wants, and `saved` orders them.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def should_process(self, listing: Listing, state: PhotoState | None) -> bool:
        return state is not None or any(photo.stored is None for photo in listing.photos)

    async def process(self, listing: Listing, state: PhotoState | None) -> Untouched | Update:
        photos = [await self._looked_for(photo) for photo in listing.photos]
        missing = tuple(sorted(photo.url for photo in photos if photo.stored is None))
        if not missing:
            return Update(photos=photos, state=None)
        if state is not None and set(missing) <= set(state.ordered):
            return Update(photos=photos, visit_in=PHOTO_PATIENCE)
        return Update(photos=photos, state=PhotoState(missing), visit_in=PHOTO_PATIENCE)

    async def _looked_for(self, photo: Photo) -> Photo:
        if photo.stored is not None:
            return photo
        return replace(photo, stored=await self._world.find_photo(photo.url))

    async def saved(self, event: Saved) -> None:
        for url in event.state.ordered if event.state else ():
            await self._world.order_photo(url)


def declare(app: Mainspring, world: World, catalogue: Catalogue) -> Any:
    """The kind `listing` with its six stages."""
    listing = app.entities(
        "listing",
        table="public.listing",
        key="id",
        version="version",
        model=Listing,
        ignore=["views"],  # counted at every look, and no stage's business
    )
    patient = RetryPolicy(attempts=20, first=1.0, most=600.0)
    listing.stage(reads=["status", "published_at"], writes=["status"])(Expire(world))
    listing.stage(reads=["category", "catalogue"], writes=["category", "catalogue"])(
        Evolve(catalogue)
    )
    listing.stage(
        reads=["status", "category", "year", "mileage_km", "predicted_price"],
        interest=["status", "category", "year", "mileage_km"],
        writes=["predicted_price"],
        state=PriceState,
        rate=500,
    )(PredictPrice(world))
    listing.stage(reads=["photos"], writes=["photos"])(SortPhotos(world))
    listing.stage(
        reads=["status", "video_url", "video_ok"],
        interest=["status", "video_url"],
        writes=["video_ok"],
        state=VideoState,
        retry=patient,
    )(CheckVideo(world))
    listing.stage(reads=["photos"], writes=["photos"], state=PhotoState, parallel=8, retry=patient)(
        FetchPhotos(world)
    )
    return listing
