"""What users of the site do: plain SQL, no word of stages. The triggers on the table see it all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from .world import SCHEMA

CATEGORIES = ("sedan", "estate", "off-road", "cabrio")


def create_tables(connection: psycopg.Connection[Any]) -> None:
    """The service's own tables, and those of the simulated world."""
    connection.execute((Path(__file__).parent / "schema.sql").read_text())  # type: ignore[arg-type]
    connection.execute(SCHEMA)


def post(connection: psycopg.Connection[Any], count: int, *, owner: str = "ann") -> list[int]:
    """Put listings up, each with two photos, every third with a video."""
    rows = connection.execute(
        """
        insert into listing (owner, published_at, title, category, year, mileage_km, price,
          photos, video_url)
        select %(owner)s, mainspring.now(), 'car ' || n, (%(categories)s::text[])[1 + n %% 4],
          2005 + n %% 20, 1000 * n, 5000 + n,
          jsonb_build_array(
            jsonb_build_object('url', format('https://pics.example/%%s/a', n)),
            jsonb_build_object('url', format('https://pics.example/%%s/b', n))),
          case when n %% 3 = 0 then format('https://video.example/%%s', n) end
        from generate_series(1, %(count)s) n
        returning id
        """,
        {"owner": owner, "categories": list(CATEGORIES), "count": count},
    ).fetchall()
    return [id for (id,) in rows]


def drive(connection: psycopg.Connection[Any], ids: Sequence[int], km: int) -> None:
    """The owners correct the mileage: it was some kilometres more."""
    connection.execute(
        "update listing set mileage_km = mileage_km + %s where id = any(%s)", (km, list(ids))
    )


def add_photo(connection: psycopg.Connection[Any], id: int, url: str) -> None:
    """An owner adds a photo, in the middle of whatever the stages do with the others."""
    connection.execute(
        "update listing set photos = photos || %s where id = %s", (Jsonb([{"url": url}]), id)
    )


def look_at(connection: psycopg.Connection[Any], ids: Sequence[int]) -> None:
    """Somebody looks: a counter rises, which no stage cares about."""
    connection.execute("update listing set views = views + 1 where id = any(%s)", (list(ids),))


def withdraw(connection: psycopg.Connection[Any], id: int) -> None:
    """The car is sold."""
    connection.execute("update listing set status = 'withdrawn' where id = %s", (id,))
