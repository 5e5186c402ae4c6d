"""The plans of the layer's hot statements: by keys, whatever the statistics say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainspring.db.shared import SharedConnections
from mainspring.entities.runtime import start
from mainspring.entities.source.rows import TableSource
from mainspring.entities.statements import SQL
from mainspring.kernel.port import WorkerPort
from stages import Stages

KEYS = '["7"]'
ITEMS = json.dumps([{"n": 0, "k0": "7", "c0": "x"}])
ONE = {
    "shards": "{1}",
    "keys": KEYS,
    "versions": "{0}",
    "stages": '["look"]',
    "queues": '["listing/look"]',
}


async def plan(stages: Stages, statement: str, *values: Any) -> str:
    connections = SharedConnections(await stages.app.database(), 1)
    try:
        async with connections.line().use() as connection, connection.transaction():
            rows = await connection.fetch(f"explain {statement}", *values)
        return "\n".join(row[0] for row in rows)
    finally:
        await connections.close()


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
async def test_entities_are_found_by_their_key(stages: Stages, filled: bool) -> None:
    """S24: load, comparison, lock and update ride the key's index (trap 35)."""
    listing = stages.kind()

    @listing.stage
    async def look(found: Any) -> Any: ...

    await stages.install()
    if filled:
        stages.query("alter table listing disable trigger user")
        stages.query("insert into listing (id) select n from generate_series(1, 20000) n")
    stages.query("analyze listing")
    database = await stages.app.database()
    connections = SharedConnections(database, 1)
    runtime = await start(database, WorkerPort(connections), [listing], threads=1)
    source = runtime.kinds["listing"].saver._source
    await runtime.close()
    await connections.close()
    assert isinstance(source, TableSource)

    for statement, *values in (
        (source._load, KEYS),
        (source._moved, KEYS, "{1}", "{1}"),
        (source._lock, KEYS),
        (source._update(("note",)), ITEMS),
    ):
        shown = await plan(stages, statement.numbered, *values)
        assert "listing_pkey" in shown, shown
        assert "Seq Scan" not in shown, shown


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("load_states", "state_pkey"),
        ("check_states", "state_pkey"),
        ("write_states", "state_pkey"),
        ("load_due", "visit_pkey"),
    ],
)
async def test_states_and_visits_are_found_by_their_key(
    stages: Stages, name: str, index: str
) -> None:
    statement = SQL[name]
    states = [{"n": 0, "shard": 1, "key": "7", "stage": "look", "version": 1, "schema": 1}]
    values = {**ONE, "kind": "listing", "states": json.dumps(states)}

    shown = await plan(stages, statement.numbered, *statement.arguments(values))

    assert index in shown, shown
    assert "Seq Scan" not in shown, shown
