-- Move the recovery time of held visits on: their actors give a sign of life. Only of those that still hold them
-- and were not called off: their actors are told to stop.
-- Locks in (shard, key, queue) order, skips locked rows. Answers the passes, and until when each is held.
with mine as materialized (
  select v.shard, v.key, v.queue, i.work_timeout
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(passes)s::bigint[],
      %(work_timeouts)s::double precision[]) as i(shard, key, queue, pass, work_timeout)
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue and v.pass = i.pass and v.called_off is null
  order by v.shard, v.key, v.queue
  for update of v skip locked
)
update mainspring.visit v
set held_until = mainspring.now() + make_interval(secs => m.work_timeout)
from mine m
where v.shard = m.shard and v.key = m.key and v.queue = m.queue
returning v.pass as run, v.held_until
