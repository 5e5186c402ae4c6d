"""A crawl goes on through whatever ends, stops or overtakes the worker that does it (S18)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import crawl_app
import psycopg
import pytest
from psycopg import sql
from scene import BURIED, Scene, stop

from draws import fast_first
from mainspring import Mainspring
from mainspring.embedded.server import EmbeddedServer

slow = pytest.mark.slow
HOUSES = 300
_LEFT = "select count(*) from mainspring.visit where queue like 'house%%' and parked_at is null"
_OPERATION = "select state::text, done, total, failed from mainspring.operation where id = %s"
_DONE = "select done from mainspring.operation where id = %s"
# How often each house was saved by either stage, of those that were there all along.
_SAVED = """
select h.id, h.seen, (s.body #>> '{}')::integer as kept from house h
left join mainspring.state s on s.kind = 'house' and s.key = h.id::text and s.stage = 'Keep'
where h.title = '' order by h.id
"""


class Crawled(Scene):
    """A scene with houses, and a crawl over them."""

    place = "crawl_app:app"

    def begin(self, **order: Any) -> int:
        """Houses that every stage has seen long ago, and a crawl that nobody does yet."""
        self.sql(crawl_app.TABLE)
        app, _ = crawl_app.make(self.url)
        app.migrate_sync()
        app.close_sync()
        self.sql("insert into house (id) select 10 * n from generate_series(1, %s) n", HOUSES)
        self.sql("delete from mainspring.visit")
        begun = self.order(lambda app: app.operator.entities.crawl("house", source="ann", **order))
        self.id: int = begun.id
        return self.id

    def order(self, call: Callable[[Mainspring], Awaitable[Any]]) -> Any:
        """Have an operator's call done."""

        async def do() -> Any:
            async with Mainspring(self.url) as app:
                return await call(app)

        return asyncio.run(do())

    def done(self) -> int:
        return int(self.sql(_DONE, self.id)[0][0])

    def under_way(self, least: int = 3 * crawl_app.PAGE) -> None:
        """Wait until it is amid its work."""
        self.wait(lambda: self.done() >= least, "the crawl is under way")
        assert self.done() < HOUSES, "too late: the crawl is over"

    def rest(self, timeout: float = 30.0) -> None:
        self.wait(
            lambda: self.sql(_OPERATION, self.id)[0][0] != "running", "the crawl ends", timeout
        )
        self.wait(lambda: self.sql(_LEFT) == [(0,)], "all is at rest", timeout)

    def asked(self) -> set[int]:
        return {int(line) for line in (self.folder / "asked").read_text().split()}

    def crawled(self, *, of: int = HOUSES) -> None:
        """The crawl is over: every house that was there all along was saved once by every stage."""
        self.rest()
        assert self.sql(_OPERATION, self.id) == [("done", of, HOUSES, 0)]
        saved = self.sql(_SAVED)
        assert saved == [(id, 1, 1) for id, _, _ in saved]
        assert {id for id, _, _ in saved} <= self.asked()
        assert self.sql("select * from mainspring.violation") == []


@pytest.fixture
def scene(mainspring_url: str, tmp_path: Path) -> Iterator[Crawled]:
    with Crawled(mainspring_url, tmp_path) as scene:
        yield scene


@pytest.fixture
def own_scene(
    own_server: EmbeddedServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Crawled]:
    """A scene on a server that a test may stop."""
    own_server.start()
    name = f"scene_{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        create = sql.SQL("create database {} template template").format(sql.Identifier(name))
        connection.execute(create)
    with Crawled(own_server.url(name), tmp_path) as scene:
        yield scene


# While a page is written, between two pages, and while the crawl's visits run and are settled.
STEPS = [
    "operation.stepping:4",
    "operation.stepped:4",
    "run.ended:200",
    "settle.sending:10",
    "operation.stepping:1",
    "run.started:100",
    "settle.answered:10",
    "page.read:6",
]


@pytest.mark.parametrize("step", fast_first(STEPS, 2))
def test_a_crawl_whose_worker_is_killed_goes_on_where_it_stood(scene: Crawled, step: str) -> None:
    """S18: no page is left out, none is offered twice."""
    scene.begin()
    victim = scene.worker(die_at=step)
    scene.worker(gate="heir")

    victim.wait_dead()
    scene.open("heir")

    scene.crawled()


@slow
@pytest.mark.parametrize("step", fast_first(["operation.stepped:4", "operation.stepping:4"], 1))
def test_two_workers_and_one_dies_amid_a_page(scene: Crawled, step: str) -> None:
    """S18: the other one does its share of the visits meanwhile."""
    scene.begin()
    workers = [scene.worker(die_at=step), scene.worker(die_at=step)]
    scene.worker(gate="heir")

    scene.wait(lambda: any(w.process.poll() is not None for w in workers), "one has died")
    scene.open("heir")

    scene.crawled()


@pytest.mark.parametrize("fault", [pytest.param("stop", marks=slow), "crash"])
def test_a_crawl_goes_on_when_the_server_is_back(
    own_scene: Crawled, own_server: EmbeddedServer, fault: str
) -> None:
    """S18: what a crash takes of a page it takes with the place where the crawl stands."""
    scene = own_scene
    scene.begin()
    scene.worker()
    scene.worker()
    scene.under_way()

    if fault == "stop":
        own_server.stop(fast_seconds=5)
    else:
        own_server.kill()
    own_server.start()

    scene.crawled()


@pytest.mark.parametrize(
    "step",
    [
        "operation.stepped:4",
        pytest.param("operation.stepping:4", marks=slow),
        pytest.param("run.ended:200", marks=slow),
        pytest.param("settle.sending:10", marks=slow),
    ],
)
def test_a_worker_that_is_suspended_amid_a_crawl_changes_nothing_after(
    scene: Crawled, step: str
) -> None:
    """S18: with a page in its open transaction, or behind one; of two the second does nothing."""
    scene.begin()
    victim = scene.worker(fence="cancel", environment={"CRASH_STOP_AT": step})
    scene.worker(gate="heir")
    status = Path(f"/proc/{victim.process.pid}/status")
    scene.wait(lambda: "State:\tT" in status.read_text(), "it has suspended itself")
    before = scene.worker_ids()
    stood = scene.done()

    scene.open("heir")
    scene.wait(lambda: not scene.worker_ids() & before, "it is declared dead", BURIED)
    if step != "operation.stepping:4":  # there the page is locked until it goes on
        scene.wait(lambda: scene.done() > stood, "the heir goes on")
    victim.send(signal.SIGCONT)

    scene.crawled()
    stop(victim)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=slow), True])
def test_a_crawl_that_is_paused_rests_and_goes_on(scene: Crawled, killed: bool) -> None:
    """S18: whoever is there then goes on where it stood."""
    id = scene.begin()
    victim = scene.worker()
    other = scene.worker()
    scene.under_way()

    scene.order(lambda app: app.operator.pause_operation(id))
    paused = scene.sql(_OPERATION, id)
    if killed:
        victim.send(signal.SIGKILL)
    scene.wait(lambda: scene.sql(_LEFT) == [(0,)], "what was offered is done")
    assert scene.sql(_OPERATION, id) == paused
    scene.joined(other)
    scene.order(lambda app: app.operator.resume_operation(id))

    scene.crawled()


def test_a_cancelled_crawl_offers_nothing_more(scene: Crawled) -> None:
    """S18: what it has offered is done, and that is all."""
    id = scene.begin()
    scene.worker()
    scene.worker()
    scene.under_way()

    scene.order(lambda app: app.operator.cancel_operation(id))
    cancelled = scene.sql(_OPERATION, id)

    scene.rest()
    assert scene.sql(_OPERATION, id) == cancelled
    saved = [(seen, kept) for _, seen, kept in scene.sql(_SAVED)]
    done = cancelled[0][1]
    assert (cancelled[0][0], saved) == (
        "cancelled",
        [(1, 1)] * done + [(0, None)] * (HOUSES - done),
    )


def test_a_crawl_of_a_table_that_is_written_meanwhile_leaves_out_nothing_that_stays(
    scene: Crawled,
) -> None:
    """S18: rows come before and behind its place and go, that of its place too; its worker dies."""
    id = scene.begin()
    victim = scene.worker()
    scene.worker(gate="heir")
    place = "select (position #>> '{}')::bigint from mainspring.operation where id = %s"
    rounds = 0
    gone: set[int] = set()
    while scene.sql(_OPERATION, id)[0][0] == "running":
        rounds += 1
        at = scene.sql(place, id)[0][0]
        if at is not None:
            gone |= {r[0] for r in scene.sql("delete from house where id = %s returning id", at)}
        near = at or 0
        scene.sql(
            "insert into house (id, title) values (%s, 'x'), (%s, 'x') on conflict do nothing",
            near - 3,
            near + 3,
        )
        scene.sql(  # one that changes its key is one that went and another that came
            "update house h set id = id - 7 where id = %s"
            " and not exists (select from house o where o.id = h.id - 7)",
            near + 3,
        )
        if rounds == 3:
            victim.send(signal.SIGKILL)
            scene.open("heir")

    scene.rest()
    state, done, total, failed = scene.sql(_OPERATION, id)[0]
    assert (state, total, failed) == ("done", HOUSES, 0)
    assert done >= HOUSES - len(gone)
    stayed = scene.sql(_SAVED)
    assert len(stayed) == HOUSES - len(gone) < HOUSES
    assert stayed == [(id, 1, 1) for id, _, _ in stayed]
    assert scene.sql("select * from house where title = 'x' and seen = 0") == []
    assert {row[0] for row in scene.sql("select id from house")} <= scene.asked()
    assert scene.sql("select * from mainspring.violation") == []
