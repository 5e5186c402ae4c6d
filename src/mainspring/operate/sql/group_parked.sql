-- Parked visits counted by queue, type of error and what is alike, the most first. Rides visit_alike, and reads nothing but that. Those
-- whose type is not in their row (a worker of the release before parked them, or their workers died) are read themselves: of these the
-- pattern of a type is matched once for each beginning of a text, not for each row. An example of each group: its last one's.
-- Sent after ride_indexes.sql.
with found as materialized (
  select v.queue, v.error_type, v.fingerprint, count(*) as count, min(v.parked_at) as first_at, max(v.parked_at) as last_at, null as example
  from mainspring.visit v
  where v.parked_at is not null and v.error_type is not null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
    and (%(queue)s::text is null or v.queue = %(queue)s::text)
    and (%(error_type)s::text is null or v.error_type = %(error_type)s::text)
    and (%(fingerprint)s::text is null or v.fingerprint = %(fingerprint)s::text)
  group by v.error_type, v.queue, v.fingerprint
  union all
  select g.queue, t.error_type, null, sum(g.count)::bigint, min(g.first_at), max(g.last_at), left(min(g.example), 500)
  from (
    select v.queue, case when strpos(v.error, ':') > 0 then split_part(v.error, ':', 1) end as head,
      v.crashes > 0 as has_crashed, count(*) as count, min(v.parked_at) as first_at, max(v.parked_at) as last_at,
      min(v.error) as example
    from mainspring.visit v
    where v.parked_at is not null and v.error_type is null and %(fingerprint)s::text is null
      and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
      and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
      and (%(queue)s::text is null or v.queue = %(queue)s::text)
    group by v.queue, head, has_crashed
  ) g
  cross join lateral (
    select coalesce(substring(g.head || ':' from '^([^:[:space:]]+):'), case when g.has_crashed then 'WorkerDied' else 'Unknown' end)
      as error_type
  ) t
  where %(error_type)s::text is null or t.error_type = %(error_type)s::text
  group by g.queue, t.error_type
)
select f.queue, f.error_type, f.count, f.first_at, f.last_at, coalesce(f.example, e.error) as example, f.fingerprint
from (select * from found order by count desc, queue, error_type, fingerprint limit %(most)s::integer) f
left join lateral (
  select left(v.error, 500) as error
  from mainspring.visit v
  where v.error_type = f.error_type and v.queue = f.queue and v.fingerprint = f.fingerprint and v.parked_at = f.last_at
  limit 1
) e on true
order by f.count desc, f.queue, f.error_type, f.fingerprint
