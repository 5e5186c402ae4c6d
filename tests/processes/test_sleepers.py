"""Processes that sleep cost nothing while they do."""

from __future__ import annotations

import time

from process_scene import Scene

SLEEPERS = """
with made as materialized (
  select mainspring.uuid7() as process, mainspring.uuid7() as task from generate_series(1, 2000)
),
p as (
  insert into mainspring.process (id, type, key, root, start)
  select process, 'order', process::text, task, '{}' from made
),
t as (
  insert into mainspring.task (process_id, id, promise, actor, state, args)
  select process, task, task, '@sleep', 'external', '{"seconds": 86400}' from made
),
x as (
  insert into mainspring.external (task, process_id, kind, due_at)
  select task, process, 'timer', now() + interval '1 day' from made
)
insert into mainspring.visit (shard, key, queue, id, version, due_at, payload)
select mainspring.shard(process::text, shard_count),
  kind || case kind when 'timer/' then task else process end, 'mainspring.process', mainspring.uuid7(),
  mainspring.token(), now() + interval '1 day', jsonb_build_object('@', process)
from made, mainspring.install, (values ('timer/'), ('look/')) as k(kind)
"""
READ = """
select coalesce(sum(idx_tup_fetch), 0) + coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables
where schemaname = 'mainspring' and relname in ('visit', 'process', 'task_other', 'external')
"""
OTHERS = """
select 1 from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


def read(scene: Scene) -> int:
    """Rows that were read so far, by connections that have ended."""
    deadline = time.monotonic() + 20
    while scene.query(OTHERS):
        assert time.monotonic() < deadline, "a connection is left"
        time.sleep(0.01)
    return int(scene.query(READ)[0][0])


async def test_a_worker_reads_nothing_of_processes_that_sleep(scene: Scene) -> None:
    """P5: neither their timers nor their looks are read before they are due."""
    scene.query(SLEEPERS)
    scene.query("vacuum analyze")
    before = read(scene)

    await scene.run()

    assert read(scene) - before < 100
