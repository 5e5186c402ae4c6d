-- How many parked visits fit. Rides visit_alike; reads the rows themselves where a condition is on what that has not, and those that
-- have no type of their own (see group_parked.sql).
select (
  select count(*)
  from mainspring.visit v
  where v.parked_at is not null and v.error_type is not null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
    and (%(queue)s::text is null or v.queue = %(queue)s::text)
    and (%(error_type)s::text is null or v.error_type = %(error_type)s::text)
    and (%(fingerprint)s::text is null or v.fingerprint = %(fingerprint)s::text)
    and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
    and (%(grp)s::text is null or v.grp = %(grp)s::text)
    and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
) + (
  select count(*)
  from mainspring.visit v
  where v.parked_at is not null and v.error_type is null and %(fingerprint)s::text is null
    and v.parked_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and v.parked_at <= coalesce(%(until)s::timestamptz, 'infinity')
    and (%(queue)s::text is null or v.queue = %(queue)s::text)
    and (%(keys)s::text[] is null or v.key = any(%(keys)s::text[]))
    and (%(grp)s::text is null or v.grp = %(grp)s::text)
    and (%(error)s::text is null or strpos(lower(v.error), lower(%(error)s::text)) > 0)
    and (%(error_type)s::text is null or coalesce(substring(v.error from '^([^:[:space:]]+):'),
      case when v.crashes > 0 then 'WorkerDied' else 'Unknown' end) = %(error_type)s::text)
) as count
