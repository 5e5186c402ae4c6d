"""Outboxes filled by hand: what a save would have written, without a stage."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from mainspring.db.database import Database
from mainspring.ids import new_ids, shard_of, token

SHARDS = Database("").shard_count


class Outbox:
    """Events, deliveries and relay visits of kind `box`."""

    def __init__(self, url: str, *consumers: str, sinks: tuple[str, ...] = ()) -> None:
        self.url = url
        self.names = [*consumers, *sinks]
        self.query(
            "insert into mainspring.kind (name, source, keys, key_types)"
            " values ('box', 'public.box', '{id}', '{pg_catalog.int8}') on conflict do nothing"
        )
        for name in self.names:
            declared = {"sink": True} if name in sinks else {"stage": name}
            self.query(
                "insert into mainspring.consumer (kind, name, declared) values ('box', %s, %s)",
                name,
                Jsonb(declared),
            )

    def query(self, text: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def save(self, key: str, *, stage: str = "Stage", **fields: Any) -> int:
        """What a stage's save leaves behind: an event, its deliveries and the relay visits."""
        shard = shard_of(key, SHARDS)
        body = json.dumps({"entity": {"id": int(key), **fields}, "state": None, "changed": {}})
        with psycopg.connect(self.url) as connection:
            row = connection.execute(
                "insert into mainspring.event (shard, kind, key, stage, what, body, entity_version)"
                " values (%s, 'box', %s, %s, 'saved', %s, 1) returning number",
                (shard, key, stage, body),
            ).fetchone()
            assert row is not None
            for name in self.names:
                connection.execute(
                    "insert into mainspring.delivery values (%s, 'box', %s, %s, %s)",
                    (shard, key, name, row[0]),
                )
                connection.execute(
                    "insert into mainspring.visit (shard, key, queue, id, priority, due_at, version,"
                    " payload, created_at, changed_at) values (%s, %s, %s, %s, 5, mainspring.now(),"
                    " %s, '{}', mainspring.now(), mainspring.now())"
                    " on conflict (shard, key, queue) do update set version = excluded.version",
                    (shard, key, f"box!{name}", new_ids(1)[0], token()),
                )
        number: int = row[0]
        return number

    @property
    def left(self) -> tuple[int, int, int]:
        """Events, deliveries and relay visits that are still there."""
        (row,) = self.query(
            "select (select count(*) from mainspring.event), (select count(*) from mainspring.delivery),"
            " (select count(*) from mainspring.visit where queue like 'box!%%')"
        )
        return (row[0], row[1], row[2])
