-- Parked visits by filter, newest first, before a position. Locks nothing. Sent after walk_in_order.sql.
-- Rides visit_parked: its queues are walked one by one, of each a page is read, and the pages are merged.
with recursive name as (
  (select queue from mainspring.visit where parked_at is not null order by queue limit 1)
  union all
  select (
    select v.queue from mainspring.visit v where v.parked_at is not null and v.queue > n.queue order by v.queue limit 1)
  from name n
  where n.queue is not null
)
select v.shard, v.key, v.queue, v.id, v.grp as "group", v.priority, v.attempt, v.crashes, v.parked_at, v.offered_while_parked,
  v.error_type, v.error, v.payload, v.created_at, v.fingerprint
from name n
cross join lateral (
  select v.shard, v.key, v.queue, v.id, v.grp, v.priority, greatest(1, v.attempt) as attempt, v.crashes, v.parked_at, v.offered_while_parked,
    t.error_type, v.error, v.payload::text as payload, v.created_at, v.fingerprint
  from mainspring.visit v
  cross join lateral (
    select coalesce(v.error_type, substring(v.error from '^([^:[:space:]]+):'), case when v.crashes > 0 then 'WorkerDied' else 'Unknown' end)
      as error_type
  ) t
  where v.queue = n.queue
    and v.parked_at is not null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= least(coalesce(%(until)s::timestamptz, 'infinity'), coalesce(%(before_at)s::timestamptz, 'infinity'))
    and (%(before_at)s::timestamptz is null
      or (v.parked_at, v.queue, v.key) < (%(before_at)s::timestamptz, %(before_queue)s::text, %(before_key)s::text))
    and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
    and (%(grp)s::text is null or v.grp = %(grp)s::text)
    and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
    and (%(fingerprint)s::text is null or v.fingerprint = %(fingerprint)s::text)
    and (%(error_type)s::text is null or t.error_type = %(error_type)s::text)
  order by v.parked_at desc, v.key desc
  limit %(most)s::integer
) v
where %(queue)s::text is null or n.queue = %(queue)s::text
order by v.parked_at desc, v.queue desc, v.key desc
limit %(most)s::integer
