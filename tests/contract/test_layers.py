"""The contract of layers: one that a user wrote, outside of the package, works like ours."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path

import digests
import psycopg
from digests import Digests, happened

from mainspring import Mainspring
from mainspring.testing import Clock, wait_until
from mainspring.testing.idle import FAST_SETTINGS

HERE = Path(__file__).parent


async def test_a_layer_of_the_user_s_own_is_read_run_and_settled(
    app: Mainspring, clock: Clock
) -> None:
    made: list[Digests] = []

    def make(*given: object) -> Digests:
        made.append(Digests(*given))  # type: ignore[arg-type]
        return made[-1]

    app.add_layer(make)
    database, pool = await app.database(), await app.pool()
    async with app.worker(**FAST_SETTINGS) as worker:
        (layer,) = made
        async with pool.connection(transaction=True) as connection:
            for _ in range(3):
                await happened(database, connection, "orders", timedelta(minutes=5))
            await happened(database, connection, "mails", timedelta(minutes=9))
        await wait_until(lambda: layer.worker.serves("digests", 0))
        await wait_until(lambda: layer.worker.worker_id is not None)
        assert not layer.told

        await clock.advance(timedelta(minutes=6).total_seconds())
        await wait_until(lambda: layer.told["orders"] == 1)
        assert layer.told == {"orders": 1}, "what is not due yet waits"
        await clock.advance(timedelta(minutes=6).total_seconds())
        await wait_until(lambda: layer.told["mails"] == 1)
        await worker.drained()

    assert layer.told == {"orders": 1, "mails": 1}, "three changes of a topic are told of once"
    assert layer.life == ["open", "start", "close"]
    assert layer.tidied == worker.settings.history_days
    [(done,)] = await _rows(
        database.url, "select count(*) from mainspring.history where queue = 'digests'"
    )
    assert done == 2


async def test_a_migration_makes_the_queues_of_added_layers_known(app: Mainspring) -> None:
    app.add_layer(Digests)
    await app.migrate()

    database = await app.database()
    assert await _rows(
        database.url, "select kind from mainspring.queue where name = 'digests'"
    ) == [("digest",)]


def test_it_imports_nothing_behind_the_door() -> None:
    tree = ast.parse(Path(digests.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module and module.startswith("mainspring")}
    assert ours == {"mainspring.kernel", "mainspring.db.database"}


def test_assembling_a_worker_is_one_short_file() -> None:
    assert len((HERE.parents[1] / "src/mainspring/assembly.py").read_text().splitlines()) <= 60


async def _rows(url: str, query: str) -> list[tuple[object, ...]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        return await (await connection.execute(query)).fetchall()
