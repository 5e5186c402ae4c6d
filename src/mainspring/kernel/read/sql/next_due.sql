-- Seconds until the earliest visit of these levels in my shards becomes due that a read as of `since` did not see, but for the known keys
-- (queue, chr(31), key): whoever settles them sees what is left;
-- below zero for one that has come due meanwhile; null if there is none.
-- A reader sleeps no longer than this, so timers are on time without a poll. Rides visit_due.
-- Walks over at most 200 visits of others in a level: if none of mine is among them it answers for the last of them,
-- and the reader looks again then.
select extract(epoch from min(next.due_at) - mainspring.clock())::double precision as seconds
from unnest(%(queues)s::text[]) as q(queue)
cross join generate_series(0, 9) as p(priority)
cross join lateral (
  select coalesce(min(v.due_at) filter (where v.mine), case when count(*) = 200 then max(v.due_at) end) as due_at
  from (
    select v.due_at, %(shards)s::integer[] is null or v.shard = any(%(shards)s::integer[]) as mine
    from mainspring.visit v
    where v.queue = q.queue
      and v.priority = p.priority
      and v.due_at > least(%(since)s::timestamptz, mainspring.now())
      and v.pass is null
      and v.parked_at is null
      and v.queue || chr(31) || v.key <> all(%(known_keys)s::text[])
    order by v.due_at
    limit case when %(shards)s::integer[] is null then 1 else 200 end
  ) v
) next
