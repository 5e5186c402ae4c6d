-- Past runs by queue and time, newest first, before a position. Locks nothing.
-- Rides history_time and the indexes of bundles. Without a queue search_all.sql does it.
-- Runs of a bundle are done, and have neither error nor group; where a field is asked for, every bundle of the span is opened.
select h.day, h.run, h.id, h.queue, h.key, h.grp as "group", h.priority, h.attempt, h.outcome, h.superseded, h.worker_id, h.created_at, h.due_at,
  h.started_at, h.ended_at, h.duration_ms, h.error_type, h.error, h.payload::text as payload, h.result::text as result
from mainspring.queue q
cross join (
  select coalesce(%(since)s::timestamptz, '-infinity') as since,
    least(coalesce(%(until)s::timestamptz, 'infinity'), coalesce(%(before_at)s::timestamptz, 'infinity')) as until
) span
cross join lateral (
  (
    select h.day, h.run, h.id, h.queue, h.key, h.grp, h.priority, h.attempt, h.outcome::text as outcome, h.superseded, h.worker_id,
      h.created_at, h.due_at, h.started_at, h.ended_at, h.duration_ms, h.error_type, h.error, h.payload, h.result
    from mainspring.history_run h
    where h.queue = q.name
      and h.ended_at >= span.since
      and h.ended_at <= span.until
      and (%(before_at)s::timestamptz is null or (h.ended_at, h.run) < (%(before_at)s::timestamptz, %(before_run)s::bigint))
      and (%(outcomes)s::text[] is null or h.outcome::text = any(%(outcomes)s::text[]))
      and (%(error)s::text is null or strpos(lower(h.error), lower(%(error)s::text)) > 0)
      and (%(grp)s::text is null or h.grp = %(grp)s::text)
      and (cardinality(%(fields)s::text[]) = 0 or not exists (
        select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (h.payload ->> f.name) is distinct from f.text))
      and (%(error_type)s::text is null or h.error_type = %(error_type)s::text)
    order by h.ended_at desc, h.run desc
    limit %(most)s::integer
  )
  union all
  (
    select p.day, r.run, r.id, p.queue, r.id::text, null, p.priority, 1, 'done', false, p.worker_id,
      r.created_at, r.due_at, r.started_at, r.ended_at, r.duration_ms, null, null, r.payload, null
    from mainspring.bundles_of(q.name, span.since, span.until,
      case when cardinality(%(fields)s::text[]) = 0 then %(most)s::integer end) p
    cross join lateral mainspring.runs_of(p) r
    where (%(outcomes)s::text[] is null or 'done' = any(%(outcomes)s::text[]))
      and coalesce(%(error)s::text, %(grp)s::text, %(error_type)s::text) is null
      and r.ended_at >= span.since
      and r.ended_at <= span.until
      and (%(before_at)s::timestamptz is null or (r.ended_at, r.run) < (%(before_at)s::timestamptz, %(before_run)s::bigint))
      and (cardinality(%(fields)s::text[]) = 0 or not exists (
        select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (r.payload ->> f.name) is distinct from f.text))
    order by r.ended_at desc, r.run desc
    limit %(most)s::integer
  )
) h
where q.name = %(queue)s::text
order by h.ended_at desc, h.run desc
limit %(most)s::integer
