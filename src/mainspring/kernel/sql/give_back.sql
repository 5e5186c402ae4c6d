-- Give visits back that were held for a pull whose caller went before he had the answer: as they were, at once. Only where the
-- hold is still the one that was made: since then it may have been answered again, or a beat may have moved it.
-- Locks the rows in (shard, key, queue) order; wakes who waits for them. Answers the visits: those that were
-- called off are to be ended in the same transaction (end_called_off).
with mine as materialized (
  select v.shard, v.key, v.queue
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(passes)s::bigint[], %(held_untils)s::timestamptz[])
    as i(shard, key, queue, pass, held_until)
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  where v.pass = i.pass and v.held_until = i.held_until
  order by v.shard, v.key, v.queue
  for update of v
),
freed as (
  update mainspring.visit v
  set pass = null, holder = null, started_at = null, held_until = null, changed_at = mainspring.now()
  from mine m
  where v.shard = m.shard and v.key = m.key and v.queue = m.queue
  returning v.shard, v.key, v.queue, v.due_at, v.called_off
),
hint as materialized (
  select mainspring.wake(queue, min(due_at)) from freed group by queue
)
select shard, key, queue, called_off is not null as called_off, (select count(*) from hint) as hints from freed
