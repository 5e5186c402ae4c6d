-- Admit firings that wait: their runs are offered. Locks reactive_task rows by name, skipping those that others have locked, and
-- upserts visits in (shard, key, queue) order. A task that is not answered was locked, or its firing is over.
with mine as materialized (
  select t.task, i.firing, i.id
  from unnest(%(tasks)s::text[], %(firings)s::bigint[], %(ids)s::uuid[]) as i(task, firing, id)
  join mainspring.reactive_task t on t.task = i.task
  where t.firing = i.firing and t.admitted_at is null
  order by t.task
  for update of t skip locked
),
admitted as (
  update mainspring.reactive_task t
  set admitted_at = mainspring.clock()
  from mine m
  where t.task = m.task
  returning t.task, t.pool, t.priority, m.firing, m.id
),
wanted as (
  select mainspring.shard(a.task, s.shard_count) as shard, a.task, 'mainspring.run.' || a.pool as queue, a.id, a.priority,
    jsonb_build_object('firing', a.firing::text) as payload
  from admitted a cross join mainspring.install s
  order by 1, 2, 3
),
offered as (
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select shard, task, queue, id, priority, mainspring.now(), %(token)s::bigint + row_number() over (), payload, mainspring.now(), mainspring.now()
  from wanted
  on conflict (shard, key, queue) do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.queue, v.due_at
),
hint as materialized (
  select mainspring.wake(queue, min(due_at)) from offered group by queue
)
select task, (select count(*) from hint) as hints from admitted
