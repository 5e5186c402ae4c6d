-- After the database's clock was stepped back: a visit that was due when it was last written is due now, and a retry waits
-- its backoff from now on. What was asked for at a later time keeps that time.
-- Looks at visits up to the step and an hour ahead, whoever owns their shards; a second call finds nothing more.
-- Locks in (shard, key, queue) order and skips what others have locked. Rides visit_due.
with late as materialized (
  select v.shard, v.key, v.queue
  from unnest(%(queues)s::text[]) as q(queue)
  cross join generate_series(0, 9) as p(priority)
  cross join lateral (
    select v.shard, v.key, v.queue
    from mainspring.visit v
    where v.queue = q.queue
      and v.priority = p.priority
      and v.due_at > mainspring.now()
      and v.due_at < mainspring.now() + make_interval(secs => %(seconds)s::double precision + 3600)
      and v.pass is null
      and v.parked_at is null
      and v.changed_at > mainspring.now()
      and (v.due_at <= v.changed_at or v.attempt > 0)
  ) v
),
locked as materialized (
  select v.shard, v.key, v.queue
  from late l
  join mainspring.visit v on v.shard = l.shard and v.key = l.key and v.queue = l.queue
  where v.pass is null
    and v.parked_at is null
    and v.changed_at > mainspring.now()
  order by v.shard, v.key, v.queue
  for update of v skip locked
)
update mainspring.visit v
set due_at = mainspring.now() + greatest(v.due_at - v.changed_at, interval '0'), changed_at = mainspring.now()
from locked l
where v.shard = l.shard and v.key = l.key and v.queue = l.queue
returning v.key
