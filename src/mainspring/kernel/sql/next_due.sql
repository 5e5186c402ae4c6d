-- Seconds until the earliest future visit of these levels in my shards becomes due; null if there is none.
-- A reader sleeps no longer than this, so timers are on time without a poll. Rides visit_due.
select extract(epoch from min(next.due_at) - mainspring.clock())::double precision as seconds
from unnest(%(queues)s::text[]) as q(queue)
cross join generate_series(0, 9) as p(priority)
cross join lateral (
  select v.due_at
  from mainspring.visit v
  where v.queue = q.queue
    and v.priority = p.priority
    and v.due_at > mainspring.now()
    and v.pass is null
    and v.parked_at is null
    and (%(shards)s::integer[] is null or v.shard = any(%(shards)s::integer[]))
  order by v.due_at
  limit 1
) next
