-- Insert visits whose keys are free; one whose key is taken is left as it is and not answered. Sorted by key.
with item as (
  select i.shard, i.key, i.queue, i.id, i.grp, i.priority, i.version, i.payload, i.expires_at,
    greatest(coalesce(i.due_at, mainspring.now()), mainspring.now()) as due_at, mainspring.now() as now
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(ids)s::uuid[], %(groups)s::text[],
    %(priorities)s::smallint[], %(due_ats)s::timestamptz[], %(expires_ats)s::timestamptz[], %(versions)s::bigint[],
    %(payloads)s::text[])
    as i(shard, key, queue, id, grp, priority, due_at, expires_at, version, payload)
  order by i.shard, i.key, i.queue
),
fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
  select shard, key, queue, id, grp, priority, due_at, expires_at, version, payload::jsonb, now, now
  from item
  on conflict (shard, key, queue) do nothing
  returning queue, key, id, due_at
),
hint as materialized (
  select mainspring.wake(queue, min(due_at)) from fresh group by queue
)
select id, (select count(*) from hint) as hints
from fresh
