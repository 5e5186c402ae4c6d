-- Parked visits counted by queue and type of error, the most first. Rides visit_parked; reads every row that fits.
select v.queue, t.error_type, count(*) as count, min(v.parked_at) as first_at, max(v.parked_at) as last_at,
  left(min(v.error), 500) as example
from mainspring.visit v
cross join lateral (
  select coalesce(substring(v.error from '^([^:[:space:]]+):'), case when v.crashes > 0 then 'WorkerDied' else 'Unknown' end)
    as error_type
) t
where v.parked_at is not null
  and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
  and (%(queue)s::text is null or v.queue = %(queue)s::text)
  and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
  and (%(grp)s::text is null or v.grp = %(grp)s::text)
  and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
  and (%(error_type)s::text is null or t.error_type = %(error_type)s::text)
group by v.queue, t.error_type
order by count desc, v.queue, t.error_type
