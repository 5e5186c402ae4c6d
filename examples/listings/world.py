"""The world outside the service, simulated: slow, sometimes down, and not ours to roll back.

`World` says what the stages need of it. `MemoryWorld` is for tests; `TableWorld` keeps the same
things in tables, so that several worker processes live in one world.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Protocol

import psycopg
from psycopg_pool import AsyncConnectionPool

ANGLES = ("front", "side", "back", "interior", "detail")


class VideoSiteDown(Exception):
    """The video site does not answer."""


class World(Protocol):
    """Everything that stages ask of the outside; only `send` and `order_photo` change anything there,
    and only `saved` hooks call these."""

    async def predict_price(self, category: str, year: int, mileage_km: int) -> int:
        """What the price model says."""
        ...

    async def find_photo(self, url: str) -> str | None:
        """Where the photo service keeps a picture; None while it has none."""
        ...

    async def order_photo(self, url: str) -> None:
        """Have the photo service fetch a picture; ordering it again is free and changes nothing."""
        ...

    async def recognise_angle(self, stored: str) -> str:
        """Which side of the car a stored picture shows."""
        ...

    async def video_is_up(self, url: str) -> bool:
        """Whether a video can still be seen."""
        ...

    async def send(self, key: str, to: str, text: str) -> None:
        """Send a message; one with a key that was sent before is not sent again."""
        ...


def predict(category: str, year: int, mileage_km: int) -> int:
    """The price model: new, little driven and open cars are dear."""
    dear = 1.5 if category in ("cabrio", "convertible") else 1.0
    return round(max(500.0, (30_000 - (2026 - year) * 1_500 - mileage_km / 12) * dear))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


@dataclass
class MemoryWorld:
    """A world in memory; a test sets what it wants of it."""

    lost_videos: set[str] = field(default_factory=set)
    video_site_is_down: bool = False
    ordered_photos: set[str] = field(default_factory=set)
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)  # key -> (to, text)
    predictions: int = 0

    async def predict_price(self, category: str, year: int, mileage_km: int) -> int:
        self.predictions += 1
        return predict(category, year, mileage_km)

    async def find_photo(self, url: str) -> str | None:
        return f"store/{_number(url):08x}" if url in self.ordered_photos else None

    async def order_photo(self, url: str) -> None:
        self.ordered_photos.add(url)

    async def recognise_angle(self, stored: str) -> str:
        return ANGLES[_number(stored) % len(ANGLES)]

    async def video_is_up(self, url: str) -> bool:
        if self.video_site_is_down:
            raise VideoSiteDown(f"no answer for {url}")
        return url not in self.lost_videos

    async def send(self, key: str, to: str, text: str) -> None:
        self.sent.setdefault(key, (to, text))


SCHEMA = """
create schema if not exists world;
create table if not exists world.ordered_photo (url text primary key);
create table if not exists world.lost_video (url text primary key);
create table if not exists world.mail (
  key text primary key, recipient text not null, text text not null, deliveries integer not null default 1
);
"""


class TableWorld:
    """The same world in tables of a database (MAINSPRING_URL unless another is given)."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection] | None = None

    async def _rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        if self._pool is None:
            address = self._url or os.environ["MAINSPRING_URL"]
            self._pool = AsyncConnectionPool(
                address, min_size=0, max_size=4, open=False, kwargs={"autocommit": True}
            )
            await self._pool.open()
        async with self._pool.connection() as connection:
            cursor = await connection.execute(query, values)  # type: ignore[arg-type]
            return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Close its connections."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def predict_price(self, category: str, year: int, mileage_km: int) -> int:
        return predict(category, year, mileage_km)

    async def find_photo(self, url: str) -> str | None:
        ordered = "select 1 from world.ordered_photo where url = %s"
        return f"store/{_number(url):08x}" if await self._rows(ordered, url) else None

    async def order_photo(self, url: str) -> None:
        order = "insert into world.ordered_photo values (%s) on conflict do nothing"
        await self._rows(order, url)

    async def recognise_angle(self, stored: str) -> str:
        return ANGLES[_number(stored) % len(ANGLES)]

    async def video_is_up(self, url: str) -> bool:
        return not await self._rows("select 1 from world.lost_video where url = %s", url)

    async def send(self, key: str, to: str, text: str) -> None:
        await self._rows(
            "insert into world.mail as m values (%s, %s, %s)"
            " on conflict (key) do update set deliveries = m.deliveries + 1",
            *(key, to, text),
        )
