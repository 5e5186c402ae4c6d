-- As group_parked.sql, where a condition is on what the index has not: the rows that fit are read themselves.
select g.queue, g.error_type, count(*) as count, min(g.parked_at) as first_at, max(g.parked_at) as last_at,
  left(min(g.error), 500) as example, g.fingerprint
from (
  select v.queue, v.fingerprint, v.parked_at, v.error, coalesce(v.error_type, substring(v.error from '^([^:[:space:]]+):'),
    case when v.crashes > 0 then 'WorkerDied' else 'Unknown' end) as error_type
  from mainspring.visit v
  where v.parked_at is not null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
    and (%(queue)s::text is null or v.queue = %(queue)s::text)
    and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
    and (%(grp)s::text is null or v.grp = %(grp)s::text)
    and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
    and (%(fingerprint)s::text is null or v.fingerprint = %(fingerprint)s::text)
) g
where %(error_type)s::text is null or g.error_type = %(error_type)s::text
group by g.queue, g.error_type, g.fingerprint
order by count desc, g.queue, g.error_type, g.fingerprint
limit %(most)s::integer
