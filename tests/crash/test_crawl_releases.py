"""A crawl for new code, while processes of the old release are alive."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import editions_app
import pytest
from scene import Scene

from mainspring import Mainspring

HOUSES = 200
OLD = "select count(*) from house where edition < 2"


class Editions(Scene):
    place = "editions_app:app"


@pytest.mark.timeout(240)
def test_a_crawl_for_a_deploy_is_answered_for_by_the_new_code_alone(
    mainspring_url: str, tmp_path: Path
) -> None:
    """S18, S26: the old worker has half of the base, and would say no for it."""

    async def order() -> int:
        async with Mainspring(mainspring_url) as app:
            begun = await app.operator.entities.crawl("house", source="ann", after_deploy=True)
            assert begun.id is not None
            return begun.id

    with Editions(mainspring_url, tmp_path) as scene:
        scene.sql(editions_app.TABLE)
        app = editions_app.make(mainspring_url)
        app.migrate_sync()
        app.close_sync()
        scene.sql("insert into house (id) select n from generate_series(1, %s) n", HOUSES)
        old = scene.worker(environment={"EDITION": "1"})
        scene.joined(old)
        scene.wait(
            lambda: not scene.sql("select 1 from mainspring.visit where queue = 'house'"), "rest"
        )
        id = asyncio.run(order())
        new = scene.worker(environment={"EDITION": "2"})
        scene.joined(old, new)
        why = "select error from mainspring.visit where queue like 'mainspring.operation%%'"
        scene.wait(
            lambda: "workers from before the deploy still run" in str(scene.sql(why)), "it waits"
        )
        assert scene.sql(OLD) == [(HOUSES,)]
        old.send(signal.SIGTERM)
        old.wait()
        done = "select done from mainspring.operation where id = %s and state = 'done'"
        scene.wait(lambda: bool(scene.sql(done, id)), "the crawl is over", 60)
        scene.wait(lambda: scene.sql(OLD) == [(0,)], "every house has the new edition", 60)
