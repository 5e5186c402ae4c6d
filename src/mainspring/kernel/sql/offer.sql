-- Offer visits: add each, or merge it into the one that is there. Always writes: the new version is what tells a run
-- under way that something happened meanwhile. The earliest time wins (but an offer never shortens a backoff), the
-- higher priority wins, payloads are united. A parked visit stays parked and is marked.
-- Upserts in (shard, key, queue) order. Answers one row a visit.
with item as (
  select i.shard, i.key, i.queue, i.id, i.grp, i.priority, i.version, i.payload,
    greatest(coalesce(i.due_at, mainspring.now()), mainspring.now()) as due_at, mainspring.now() as now
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(ids)s::uuid[], %(groups)s::text[],
    %(priorities)s::smallint[], %(due_ats)s::timestamptz[], %(versions)s::bigint[], %(payloads)s::text[])
    as i(shard, key, queue, id, grp, priority, due_at, version, payload)
  order by i.shard, i.key, i.queue
),
offered as (
  insert into mainspring.visit as v (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
  select shard, key, queue, id, grp, priority, due_at, version, payload::jsonb, now, now
  from item
  on conflict (shard, key, queue) do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.queue, v.key, v.id, v.due_at, (v.xmax = 0) as is_new
),
hint as materialized (
  select mainspring.wake(queue, min(due_at)) from offered group by queue
)
select queue, key, id, due_at, is_new, (select count(*) from hint) as hints
from offered
