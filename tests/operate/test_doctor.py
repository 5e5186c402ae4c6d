"""The doctor: what is wrong is found, and said with a remedy."""

from __future__ import annotations

import contextlib

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.schema import rights
from mainspring.operate import doctor
from mainspring.operate.doctor import Finding
from visits import Visits


def named(found: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in found if finding.name == name]


async def test_a_sound_database_has_no_finding_but_what_tests_switch_off(visits, app):
    found = await app.operator.doctor()

    assert {"fsync", "full_page_writes", "autovacuum"} >= {f.name for f in found if f.level != "ok"}
    assert all(finding.remedy for finding in found if finding.level != "ok")
    levels = [doctor.LEVELS.index(finding.level) for finding in found]
    assert sorted(levels, reverse=True) == levels


async def test_who_holds_dead_rows_back_is_named(database_url, app, monkeypatch):
    monkeypatch.setattr(doctor, "XMIN_SECONDS", 0.0)
    with psycopg.connect(database_url, application_name="report") as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1 from mainspring.queue")

        (finding,) = named(await app.operator.doctor(), "xmin")
        pid = other.info.backend_pid

    assert f"transaction {pid} (report, idle in transaction)" in finding.text
    assert finding.level == "warn"


async def test_a_broken_invariant_is_bad(visits, app):
    visits.offer("a", group="acme")
    visits.change("a", shard=1)

    (finding,) = named(await app.operator.doctor(), "violations")

    assert finding.level == "bad"
    assert "not its route" in finding.text
    visits.query("delete from mainspring.visit")


async def test_lag_and_queues_that_nobody_serves_are_found(visits, app, clock):
    visits.offer("a")
    await clock.advance(120)

    found = await app.operator.doctor()

    assert named(found, "lag")[0].level == "warn"
    assert (
        named(found, "unserved")[0].text
        == "1 visit waits in queue 'ring', and no worker is running"
    )

    visits.join(queues=["other"])
    found = await app.operator.doctor()

    assert (
        named(found, "unserved")[0].text == "1 visit waits in queue 'ring', which no worker knows"
    )


async def test_operations_in_a_pool_without_workers_are_a_finding_with_the_remedy(visits, app):
    visits.offer("1", queue="mainspring.operation@billing")

    (finding,) = named(await app.operator.doctor(), "unserved")

    assert "no worker is in pool 'billing'" in finding.text
    assert "--pool billing" in finding.remedy


async def test_a_pool_of_different_codes_is_told_of(visits, app):
    """T2: it is served; only beside the release before something may wait."""
    for queues in (["a", "b"], ["b", "a"]):
        visits.join(queues=queues)
    assert named(await app.operator.doctor(), "mixed_pool") == []
    visits.join(queues=["a"])

    (finding,) = named(await app.operator.doctor(), "mixed_pool")
    assert finding.level == "ok"
    text = "pool 'default' has 3 workers with different queues; it is cut into 0 bands"
    assert finding.text.startswith(text)

    visits.join(queues=["a"], knows_bands=False)
    (finding,) = named(await app.operator.doctor(), "mixed_pool")
    assert (finding.level, finding.remedy) == ("warn", "replace the workers of the release before")
    assert "1 worker is of the release before" in finding.text
    visits.query("delete from mainspring.worker")


async def test_days_of_history_that_are_missing_are_named(visits, app, clock):
    await clock.advance(86_400 * 30)

    assert named(await app.operator.doctor(), "history_days")[0].level == "warn"


async def test_a_schema_without_a_first_worker_lacks_no_days(mainspring_server):
    """Nobody has worked yet: that is no fault. A worker that could not make them is one."""
    with mainspring_server.database(migrated=False) as url:
        app = Mainspring(url)
        await app.migrate()

        async with app:
            (fresh,) = named(await app.operator.doctor(), "history_days")
            with contextlib.closing(Visits(url)) as visits:
                visits.join()
            (late,) = named(await app.operator.doctor(), "history_days")

    assert (fresh.level, fresh.text) == (
        "ok",
        "history has no days yet: the first worker makes them",
    )
    assert (late.level, late.text.partition(" history_")[0]) == ("warn", "history lacks the days")


async def test_a_missing_schema_is_a_finding(mainspring_server):
    with mainspring_server.database(migrated=False) as url:
        app = Mainspring(url)
        (finding,) = await app.operator.doctor()
        await app.close()

    assert (
        finding.name,
        finding.level,
        finding.remedy,
    ) == ("schema", "bad", "run mainspring migrate")


async def test_a_role_without_rights_is_told_which_it_lacks(visits: Visits, database_url):
    """T11: the rights of an application's role are checked."""
    role = f"clerk_{visits.connection.info.backend_pid}"
    visits.query(f"create role {role} login")
    visits.query(f"grant usage on schema mainspring to {role}")
    visits.query(f"grant select on all tables in schema mainspring to {role}")
    app = Mainspring(database_url.replace("postgres@", f"{role}@", 1))
    try:
        (without,) = named(await app.operator.doctor(), "rights")
        visits.connection.execute(rights.operator(role).encode())
        (with_looks,) = named(await app.operator.doctor(), "rights")
        visits.connection.execute(rights.worker(role).encode())
        (with_all,) = named(await app.operator.doctor(), "rights")
    finally:
        await app.close()
        visits.query(f"drop owned by {role}")
        visits.query(f"drop role {role}")

    assert without.level == "bad"
    assert "EXECUTE on mainspring.enqueue(text, jsonb" in without.text
    assert "mainspring rights enqueue" in without.remedy
    assert with_looks.level == "warn"
    assert "may look but not work: it lacks EXECUTE on mainspring.enqueue(" in with_looks.text
    assert with_looks.text.endswith(" more"), "three are named: a role of another job lacks fifty"
    assert with_all.level == "ok"


@pytest.mark.parametrize(
    ("apart", "level"), [(0.5, "ok"), (-0.5, "ok"), (30, "warn"), (-30, "warn")]
)
def test_clocks_that_are_apart_are_found(apart, level):
    (finding,) = doctor.judge_clock(1000.0 + apart, sent=999.9, received=1000.1)

    assert level == finding.level


def test_a_deadlock_timeout_below_the_engines_lock_timeout_is_found():
    assert doctor._deadlock_timeout(100).level == "warn"
    assert doctor._deadlock_timeout(1000).level == "ok"
    assert doctor._connections(90, 100).level == "warn"
