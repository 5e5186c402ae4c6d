-- Parked visits counted by queue and type of error, the most first. Rides visit_parked; reads every row that fits.
-- The pattern of a type is matched once for each beginning of a text, not for each row: at 100,000 that is most of the time.
select g.queue, t.error_type, sum(g.count)::bigint as count, min(g.first_at) as first_at, max(g.last_at) as last_at,
  left(min(g.example), 500) as example
from (
  select v.queue, case when strpos(v.error, ':') > 0 then split_part(v.error, ':', 1) end as head,
    v.crashes > 0 as has_crashed, count(*) as count, min(v.parked_at) as first_at, max(v.parked_at) as last_at,
    min(v.error) as example
  from mainspring.visit v
  where v.parked_at is not null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
    and (%(queue)s::text is null or v.queue = %(queue)s::text)
    and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
    and (%(grp)s::text is null or v.grp = %(grp)s::text)
    and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
  group by v.queue, head, has_crashed
) g
cross join lateral (
  select coalesce(substring(g.head || ':' from '^([^:[:space:]]+):'), case when g.has_crashed then 'WorkerDied' else 'Unknown' end)
    as error_type
) t
where %(error_type)s::text is null or t.error_type = %(error_type)s::text
group by g.queue, t.error_type
order by count desc, g.queue, t.error_type
