-- Admit firings that wait: their runs are offered. Locks reactive_task rows by name, skipping those that others have locked, and
-- upserts visits (offer_batch). A task that is not answered was locked, or its firing is over.
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
),
offered as materialized (
  select mainspring.offer_batch(array_agg(shard), array_agg(task), array_agg(queue), array_agg(id), array_agg(priority::integer),
    array_agg(mainspring.now()), array_agg(payload), %(token)s::bigint)
  from wanted
  having count(*) > 0
)
select task, (select count(*) from offered) as hints from admitted
