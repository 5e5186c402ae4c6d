"""The hot statements ride their indexes, at 100,000 visits and with dead rows among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import mainspring.db.schema
from mainspring import Mainspring
from mainspring.ids import shard_mask
from mainspring.jobs.statements import SQL as JOBS_SQL
from mainspring.kernel.outcome import Again, Done
from mainspring.kernel.read.reader import READS_IN_ORDER
from mainspring.kernel.settle.batches import done_values, settle_values
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import EARLIEST, LATEST
from mainspring.testing import TestServer
from visits import Visits, queue

# A table of which half is dead: what a long transaction leaves to readers.
FILL = """
insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload)
select mainspring.shard('key ' || n, 1024), 'key ' || n, 'ring', gen_random_uuid(), null, 5,
  now() - make_interval(secs => n * 0.001), n, '{}'
from generate_series(1, 100000) n
"""
# Timers that are all another worker's.
TIMERS = """
insert into mainspring.visit (shard, key, queue, id, priority, due_at, version, payload)
select 7, 'timer ' || n, 'timer', gen_random_uuid(), 5, now() + make_interval(secs => 3600 + n), n, '{}'
from generate_series(1, 20000) n
"""
HISTORY = """
insert into mainspring.history_run (day, run, id, queue, key, priority, attempt, outcome, worker_id,
  created_at, due_at, started_at, ended_at, duration_ms, payload)
select (now() at time zone 'UTC')::date, n, gen_random_uuid(), 'ring', 'past ' || n, 5, 1, 'done',
  gen_random_uuid(), now(), now(), now(), now(), 1, '{}'
from generate_series(1, 20000) n
"""


@pytest.fixture(scope="module")
def visits(mainspring_server: TestServer) -> Iterator[Visits]:
    with mainspring_server.database() as url:
        found = Visits(url)
        found.register(queue())
        found.query(FILL)
        found.query("delete from mainspring.visit where version %% 2 = 0")
        found.query(TIMERS)
        found.query(HISTORY)
        found.query("analyze mainspring.visit, mainspring.history")
        yield found
        found.close()


@pytest.fixture(params=["generic", "custom"])
def mode(request, visits: Visits) -> None:
    """Prepared statements get a generic plan sooner or later: both must be good."""
    visits.query(f"set plan_cache_mode = force_{request.param}_plan")


def plan_of(visits: Visits, text: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """All nodes of the plan, executed and undone."""
    with visits.connection.transaction(force_rollback=True):
        cursor = visits.connection.execute(
            f"explain (analyze, buffers, format json) {text}", values, prepare=True
        )
        row = cursor.fetchone()
    found = row["QUERY PLAN"]
    found = json.loads(found) if isinstance(found, str) else found
    return list(_walk(found[0]["Plan"]))


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


def assert_rides_indexes(nodes: list[dict[str, Any]], *indexes: str) -> None:
    scanned = {
        node["Relation Name"]
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node.get("Actual Rows", 0) > 0
    }
    big = {name for name in scanned if name.startswith(("visit", "history"))}
    assert not big, f"a sequential scan of {big}"
    used = {node.get("Index Name") for node in nodes}
    assert set(indexes) <= used, f"used {used}"


def touched(nodes: list[dict[str, Any]]) -> int:
    """Pages that the whole statement read or hit."""
    return nodes[0].get("Shared Hit Blocks", 0) + nodes[0].get("Shared Read Blocks", 0)


@pytest.mark.usefixtures("mode")
class TestPlans:
    def read(
        self, visits: Visits, shards: list[int] | None, queue: str = "ring"
    ) -> list[dict[str, Any]]:
        worker_id = visits.join()
        values = {
            "queues": [queue] * 10,
            "priorities": list(range(10)),
            "after_due": [EARLIEST] * 10,
            "after_key": [""] * 10,
            "upto_due": [LATEST] * 10,
            "upto_key": [""] * 10,
            "most": [100] * 10,
            "shards": None if shards is None else shard_mask(shards, 1024),
            "behind": [],
            "worker_id": worker_id,
        }
        return plan_of(visits, SQL["read_due"].text, values)

    def test_a_page_is_read_by_visit_due(self, visits: Visits) -> None:
        nodes = self.read(visits, None)

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 2000

    def test_a_page_of_some_shards_is_read_by_visit_due(self, visits: Visits) -> None:
        nodes = self.read(visits, list(range(512)))

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 4000

    def test_a_read_does_not_walk_over_the_timers_of_the_future(self, visits: Visits) -> None:
        nodes = self.read(visits, None, "timer")

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 100

    def test_what_waits_is_counted_up_to_its_bound_by_visit_due(self, visits: Visits) -> None:
        visits.query("update mainspring.queue set waiting_max = 100")
        nodes = plan_of(visits, JOBS_SQL["mark_full"].text, {})
        visits.query("update mainspring.queue set waiting_max = null, is_full = false")

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 500

    def test_a_group_is_read_by_visit_group(self, visits: Visits) -> None:
        values = {
            "queues": ["ring"],
            "groups": ["g"],
            "most": [32],
            "worker_id": visits.join(),
        }

        assert_rides_indexes(plan_of(visits, SQL["read_group"].text, values), "visit_group")

    @pytest.mark.parametrize("outcome", [Done(), Again(after=60)])
    def test_a_settle_searches_each_visit_once(self, visits: Visits, outcome) -> None:
        runs = [visits.start(f"key {n}") for n in range(1, 200, 2)]
        runs.sort(key=lambda run: (run.visit.shard, run.visit.key))
        for run in runs:
            run.outcome = outcome

        nodes = plan_of(visits, SQL["settle"].text, settle_values(runs, uuid4()))

        assert_rides_indexes(nodes, "visit_pkey")
        searched = [node for node in nodes if node.get("Index Name") == "visit_pkey"]
        assert sum(node["Actual Loops"] for node in searched) == len(runs)

    def test_what_is_done_is_settled_without_a_search(self, visits: Visits) -> None:
        runs = [visits.start(f"key {n}") for n in range(1, 200, 2)]
        for run in runs:
            run.outcome = Done()

        nodes = plan_of(visits, SQL["settle_done"].text, done_values(runs, uuid4()))

        on_visits = [n["Node Type"] for n in nodes if n.get("Relation Name") == "visit"]
        assert sorted(on_visits) == ["ModifyTable", "Tid Scan"]
        assert touched(nodes) < 15 * len(runs)

    def test_a_hold_rides_the_primary_key(self, visits: Visits) -> None:
        run = visits.start("key 1")
        values = {
            "shards": [run.visit.shard],
            "keys": ["key 1"],
            "queues": ["ring"],
            "versions": [run.visit.version],
            "runs": [run.token],
            "started": [run.started],
            "work_timeouts": [None],
            "worker_id": visits.join(),
        }

        nodes = plan_of(visits, SQL["hold"].text, values)

        assert_rides_indexes(nodes, "visit_pkey")
        assert touched(nodes) < 100

    def test_an_insert_touches_few_pages(self, visits: Visits) -> None:
        values = {
            "shard": 1,
            "key": "fresh",
            "queue": "ring",
            "id": uuid4(),
            "grp": None,
            "priority": 5,
            "due_at": None,
            "delay": None,
            "expires_at": None,
            "version": 1,
            "payload": "{}",
        }

        nodes = plan_of(visits, SQL["insert_one"].text, values)

        assert_rides_indexes(nodes)
        assert touched(nodes) < 100

    def test_the_next_due_time_is_found_by_visit_due(self, visits: Visits) -> None:
        values = {
            "queues": ["ring"],
            "shards": None,
            "since": visits.now(),
            "known_keys": ["ring\x1fx"],
        }

        nodes = plan_of(visits, SQL["next_due"].text, values)

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 200

    def test_timers_of_other_workers_are_not_all_walked_over(self, visits: Visits) -> None:
        values = {"queues": ["timer"], "shards": [5, 6], "since": visits.now(), "known_keys": []}

        nodes = plan_of(visits, SQL["next_due"].text, values)

        assert_rides_indexes(nodes, "visit_due")
        assert touched(nodes) < 500

    def test_a_thousand_shards_are_given_without_a_quadratic_join(self, visits: Visits) -> None:
        """It runs within a lease time, on the way to a stop."""
        worker_id = visits.join()
        visits.call("make_leases", pool="default")
        shards = sorted(visits.take(worker_id))
        epoch = visits.value("select max(epoch) from mainspring.lease where worker_id is not null")
        values = {
            "pool": "default",
            "worker_id": worker_id,
            "shards": shards,
            "epochs": [epoch] * len(shards),
            "offered_to": None,
            "epoch": 1,
        }

        nodes = plan_of(visits, SQL["give_leases"].text, values)
        visits.declare_dead(worker_id)

        assert len(shards) == 1024
        assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= 1024

    def test_the_shards_of_a_new_pool_are_taken_without_a_quadratic_join(
        self, visits: Visits
    ) -> None:
        """It runs within a lease time, with no statistics of the pool."""
        worker_id = visits.join()
        visits.call("make_leases", pool="new")
        values = {"pool": "new", "worker_id": worker_id, "most": 1024, "epoch": 1}

        nodes = plan_of(visits, SQL["take_leases"].text, values)
        visits.declare_dead(worker_id)

        assert max(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= 2048

    def test_a_recut_rides_the_leases_primary_key(self, visits: Visits) -> None:
        """T2: it locks and writes what it names, and others wait no longer than that takes."""
        visits.call("make_leases", pool="default")
        shards = list(range(256))
        band = "default\x1fband"
        written = {
            "pools": [band] * 256,
            "shards": shards,
            "owners": [None] * 256,
            "suspects": [None] * 256,
            "epoch": 1,
        }
        plan_of(visits, SQL["write_leases"].text, written)
        some = {"pool": "default", "shards": shards}

        for name in ("lock_shards", "lock_bands", "list_bands"):
            nodes = plan_of(visits, SQL[name].text, some)
            assert_rides_indexes(nodes, "lease_pkey")
            assert touched(nodes) < 3000
        nodes = plan_of(visits, SQL["drop_leases"].text, {"pool": band, "shards": shards})
        assert_rides_indexes(nodes, "lease_pkey")
        visits.query("delete from mainspring.lease where pool = %s", band)

    def test_tasks_are_pulled_along_visit_due(self, visits: Visits) -> None:
        """P3: whoever pulls reads what it takes, not the backlog."""
        values = {"queues": ["ring"], "most": [10], "mark": "@", "until": "x"}

        nodes = plan_of(visits, SQL["pull_visits"].text, values)

        assert_rides_indexes(nodes, "visit_due")
        scans = [node for node in nodes if node.get("Index Name") == "visit_due"]
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 10

    def test_whether_anything_is_due_is_found_by_visit_due(self, visits: Visits) -> None:
        nodes = plan_of(visits, SQL["any_due"].text, {"queues": ["ring"]})

        assert_rides_indexes(nodes, "visit_due")

    def test_a_call_is_looked_up_by_its_key(self, visits: Visits) -> None:
        """By result_of, whose statement is planned here as it stands in the function."""
        folder = Path(mainspring.db.schema.__file__).parent / "functions"
        body = (folder / "result_of.sql").read_text().partition("return query\n")[2]
        text = body.partition(";\nend")[0]
        for name, value in (
            ("visit_key", "%(key)s::text"),
            ("result_of.task", "%(queue)s::text"),
            ("result_of.id", "%(id)s::uuid"),
        ):
            text = text.replace(name, value)

        values = {"key": "past 7", "queue": "ring", "id": uuid4()}
        plan_of(visits, text, values)  # the first call reads the catalogue too
        nodes = plan_of(visits, text, values)

        assert_rides_indexes(nodes, "visit_pkey")
        assert touched(nodes) < 200

    def test_what_is_held_is_found_by_visit_held(self, visits: Visits) -> None:
        nodes = plan_of(visits, SQL["read_held"].text, {"shards": list(range(1024))})

        assert_rides_indexes(nodes, "visit_held")

    def test_a_recovery_rides_visit_held(self, visits: Visits) -> None:
        values = {"shards": list(range(1024)), "orphaned": [1], "overdue": []}

        nodes = plan_of(visits, SQL["recover"].text, values)

        assert_rides_indexes(nodes, "visit_held")


# What statistics can know of a table that is another by now: an empty one, or one before a mass delete.
SOME = FILL.replace("100000", "30000")
STALE = {
    "of an empty table": ("analyze mainspring.visit", SOME),
    "of before a mass delete": (
        SOME.replace("'ring'", "'gone'"),
        "analyze mainspring.visit",
        "delete from mainspring.visit",
        SOME,
    ),
}


@pytest.fixture(scope="module", params=STALE)
def stale(request: pytest.FixtureRequest, mainspring_server: TestServer) -> Iterator[Visits]:
    """A backlog that the statistics know nothing of, seen by the reader's connection."""
    with mainspring_server.database() as url:
        found = Visits(url)
        found.register(queue())
        found.query("alter table mainspring.visit set (autovacuum_enabled = off)")
        for statement in STALE[request.param]:
            found.query(statement)
        for name, value in READS_IN_ORDER.items():
            found.query(f"set {name} = {value}")
        yield found
        found.close()


@pytest.mark.parametrize("mode", ["generic", "custom"])
@pytest.mark.parametrize("shards", [None, range(512)])
def test_a_page_is_read_by_visit_due_whatever_the_statistics_say(
    stale: Visits, mode: str, shards: range | None
) -> None:
    """With them every index looks alike: the reader's own settings let only the one in order through."""
    stale.query(f"set plan_cache_mode = force_{mode}_plan")

    nodes = TestPlans().read(stale, None if shards is None else list(shards))

    assert_rides_indexes(nodes, "visit_due")
    assert "Sort" not in {node["Node Type"] for node in nodes}
    assert touched(nodes) < 4000


@pytest.mark.parametrize("mode", ["generic", "custom"])
def test_the_readers_other_looks_are_short_whatever_the_statistics_say(
    stale: Visits, mode: str
) -> None:
    """The next timer, whether anything is due, and a group."""
    stale.query(f"set plan_cache_mode = force_{mode}_plan")
    since = {"shards": None, "since": stale.now(), "known_keys": []}
    looks = {
        "next_due": {"queues": ["ring"], **since},
        "any_due": {"queues": ["ring"]},
        "read_group": {
            "queues": ["ring"],
            "groups": ["g"],
            "most": [32],
            "worker_id": stale.join(),
        },
    }

    for name, values in looks.items():
        nodes = plan_of(stale, SQL[name].text, values)
        index = "visit_group" if name == "read_group" else "visit_due"
        assert_rides_indexes(nodes, index)
        assert touched(nodes) < 500, name


async def test_the_readers_connection_has_the_settings_that_pin_its_plans(app: Mainspring) -> None:
    """Opened anew, as after an outage."""
    async with app.worker() as worker:
        pass

    async with worker.reader._line.use() as connection:
        found = {
            name: await connection.fetchval("select current_setting($1)", name)
            for name in READS_IN_ORDER
        }
    await worker.port.close()

    assert found == READS_IN_ORDER
