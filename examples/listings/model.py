"""What a listing is. `schema.sql` has its table; the stages see it as this."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo: where the owner has it, where we keep it once it is fetched, what it shows."""

    url: str
    stored: str | None = None
    angle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A car for sale."""

    id: int
    owner: str
    status: str = "active"
    published_at: datetime
    title: str
    category: str
    catalogue: int = 1
    year: int
    mileage_km: int
    price: int
    predicted_price: int | None = None
    photos: list[Photo] = field(default_factory=list)
    video_url: str | None = None
    video_ok: bool | None = None
    version: int = 1
