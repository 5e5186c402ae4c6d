"""Two runs of one stage and entity, where there is no state yet: neither overwrites the other's (S5, S11).

The entity is not touched, so nothing but the state's own version, 0, can tell the second from the first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import first_app
import psycopg
import pytest
from scene import BURIED, Scene, stop

from draws import fast_first
from warm import WorkerProcess

slow = pytest.mark.slow
KINDS = ["house", "shelf"]
# Every event that was ever committed, and a gate in the middle of a save: it holds the entity's row, if
# there is one, has written the state and goes no further while somebody has the lock.
SETUP = """
create table audit (number bigint, saves integer);
create function audit_event() returns trigger language plpgsql as $$
begin
  insert into public.audit values (new.number, jsonb_array_length(new.body -> 'state'));
  return new;
end $$;
create trigger audit after insert on mainspring.event for each row execute function audit_event();
create function wait_at_gate() returns trigger language plpgsql as $$
begin
  while not pg_try_advisory_xact_lock_shared(42) loop
    perform pg_sleep(0.01);
  end loop;
  return new;
end $$;
create trigger gate after insert on mainspring.state for each row execute function wait_at_gate();
"""
_AT_GATE = """
select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'
"""
_STATE = "select version, body, changed_at from mainspring.state"
_SET = "select mainspring.set_state(%s, '1', 'First', 0, '[\"outside\"]')"


class Taken(Scene):
    """One entity without a state, whose stage is due."""

    place = "first_app:app"

    def begin(self, kind: str) -> None:
        self.kind = kind
        self.sql(first_app.TABLE)
        app = first_app.make(self.url)
        app.migrate_sync()
        app.close_sync()
        self.sql(SETUP)
        self.sql("insert into house (id) values (1)")
        self.sql("delete from mainspring.visit")
        self.sql(
            "select mainspring.offer_visits(%s, array['1'], array['{}'::jsonb])", f"{kind}/First"
        )

    def lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    def first(self, **environment: str) -> WorkerProcess:
        return self.worker(fence="cancel", environment=environment)

    def suspend(self, victim: WorkerProcess) -> None:
        """Suspend a worker, and have the heir take its shards over."""
        before = self.worker_ids()
        victim.send(signal.SIGSTOP)
        self.open("heir")
        self.wait(lambda: not self.worker_ids() & before, "it is declared dead", BURIED)

    def set_state(self) -> bool:
        return bool(self.sql(_SET, self.kind)[0][0])

    def state(self) -> list[str]:
        rows = self.sql(_STATE)
        assert len(rows) <= 1
        return list(rows[0][1]) if rows else []

    def check(self, **_: Any) -> None:
        """Each save found what the one before had written, and each was told of once."""
        left = "select count(*) from mainspring.visit where queue not like 'mainspring%%'"
        self.wait(lambda: self.sql(left) == [(0,)], "all is at rest")
        events = self.sql("select number, saves from audit order by number")
        assert [saves for _, saves in events] == list(range(1, len(self.state()) + 1))
        told = [tuple(map(int, line.split())) for line in self.lines("saved")]
        assert sorted(set(told)) == events
        assert self.sql("select * from mainspring.violation") == []


@pytest.fixture
def scene(mainspring_url: str, tmp_path: Path) -> Iterator[Taken]:
    with Taken(mainspring_url, tmp_path) as scene:
        yield scene


@pytest.mark.parametrize("kind", fast_first(KINDS, 1))
def test_a_late_first_state_does_not_overwrite_the_heirs(scene: Taken, kind: str) -> None:
    """S5: its run began when there was none."""
    scene.begin(kind)
    victim = scene.first(CRASH_LASTS="1")
    scene.worker(gate="heir")
    scene.wait(lambda: scene.lines("started"), "the first runs")
    scene.suspend(victim)
    scene.check()
    left = scene.sql(_STATE)

    victim.send(signal.SIGCONT)

    scene.wait(lambda: scene.lines("late"), "the late result is handed in")
    scene.wait(lambda: len(scene.worker_ids()) == 2, "it is back under a new id")
    stop(victim)  # which ends when every result has been answered
    scene.check()
    assert (len(left), scene.sql(_STATE)) == (1, left)
    assert len(scene.lines("saved")) == 1


@pytest.mark.parametrize("kind", fast_first(KINDS, 1))
def test_a_first_state_whose_save_is_half_done_is_overtaken_by_none(
    scene: Taken, kind: str
) -> None:
    """S5, S13: the heir runs beside an open transaction that may still commit."""
    scene.begin(kind)
    with psycopg.connect(scene.url, autocommit=True) as gate:
        gate.execute("select pg_advisory_lock(42)")
        victim = scene.first()
        scene.worker(gate="heir")
        scene.wait(lambda: scene.sql(_AT_GATE) == [(1,)], "the save is under way")
        scene.suspend(victim)
        scene.wait(lambda: len(set(scene.lines("started"))) == 2, "the heir runs it too")
        gate.execute("select pg_advisory_unlock(42)")
    scene.wait(lambda: scene.sql(_AT_GATE) == [(0,)], "the state is written, not committed")

    victim.send(signal.SIGCONT)

    scene.check()
    stop(victim)
    scene.check()
    assert 1 <= len(scene.state()) <= 2


@pytest.mark.parametrize("kind", fast_first(KINDS, 1))
def test_a_state_set_from_outside_beside_a_first_run_is_kept(scene: Taken, kind: str) -> None:
    """S11: neither the late result nor the heir overwrites it; the stage is asked again."""
    scene.begin(kind)
    victim = scene.first(CRASH_LASTS="1")
    scene.worker(gate="heir")
    scene.wait(lambda: scene.lines("started"), "the first runs")
    victim.send(signal.SIGSTOP)
    assert scene.set_state()
    assert not scene.set_state(), "there is one now"
    scene.suspend(victim)
    scene.check()

    victim.send(signal.SIGCONT)

    scene.wait(lambda: scene.lines("late"), "the late result is handed in")
    scene.wait(lambda: len(scene.worker_ids()) == 2, "it is back under a new id")
    stop(victim)
    scene.check()
    assert scene.state()[0] == "outside"
    assert len(scene.state()) >= 2


@pytest.mark.parametrize("kind", fast_first(KINDS, 1))
def test_a_state_set_from_outside_waits_for_a_save_that_is_half_done(
    scene: Taken, kind: str
) -> None:
    """S11: and finds that there is a state by then."""
    scene.begin(kind)
    with psycopg.connect(scene.url, autocommit=True) as gate, ThreadPoolExecutor(1) as outsider:
        gate.execute("select pg_advisory_lock(42)")
        victim = scene.first()
        scene.wait(lambda: scene.sql(_AT_GATE) == [(1,)], "the save is under way")
        victim.send(signal.SIGSTOP)
        answer = outsider.submit(scene.set_state)
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        scene.wait(lambda: scene.sql(waits) == [(1,)], "the outsider waits")
        gate.execute("select pg_advisory_unlock(42)")
        scene.wait(lambda: scene.sql(_AT_GATE) == [(0,)], "the state is written, not committed")
        assert not answer.done()
        victim.send(signal.SIGCONT)
        assert answer.result(20) is False

    scene.check()
    assert scene.state() == [str(victim.process.pid)]


@pytest.mark.parametrize("kind", fast_first(KINDS, 1))
def test_a_first_state_waits_for_one_that_is_being_set_from_outside(
    scene: Taken, kind: str
) -> None:
    """S11: the run is done again with the state that came."""
    scene.begin(kind)
    with psycopg.connect(scene.url) as outsider:
        victim = scene.first(CRASH_LASTS="1")
        scene.worker(gate="heir")
        scene.wait(lambda: scene.lines("started"), "the first runs")
        assert outsider.execute(_SET, (kind,)).fetchone() == (True,)
        scene.suspend(victim)
        scene.wait(lambda: len(set(scene.lines("started"))) == 2, "the heir runs it")
        victim.send(signal.SIGCONT)
        scene.wait(lambda: scene.lines("late"), "the late result is handed in")
        outsider.commit()

    scene.check()
    stop(victim)
    scene.check()
    assert scene.state()[0] == "outside"
    assert len(scene.state()) >= 2
