-- Past runs of all queues by time, newest first, before a position, of a span that the caller widens until a page is full.
-- Locks nothing. Rides history_ended and history_bundle_ended: reads what ended in the span.
-- Runs of a bundle are done, and have neither error nor group.
select h.day, h.run, h.id, h.queue, h.key, h.grp as "group", h.priority, h.attempt, h.outcome, h.superseded, h.worker_id, h.created_at, h.due_at,
  h.started_at, h.ended_at, h.duration_ms, h.error_type, h.error, h.payload::text as payload, h.result::text as result
from (
  (
    select h.day, h.run, h.id, h.queue, h.key, h.grp, h.priority, h.attempt, h.outcome::text as outcome, h.superseded, h.worker_id,
      h.created_at, h.due_at, h.started_at, h.ended_at, h.duration_ms, h.error_type, h.error, h.payload, h.result
    from mainspring.history_run h
    where h.ended_at >= coalesce(%(since)s::timestamptz, '-infinity')
      and h.ended_at <= coalesce(%(until)s::timestamptz, 'infinity')
      and h.ended_at <= coalesce(%(before_at)s::timestamptz, 'infinity')
      and (%(before_at)s::timestamptz is null or (h.ended_at, h.run) < (%(before_at)s::timestamptz, %(before_run)s::bigint))
      and (%(outcomes)s::text[] is null or h.outcome::text = any(%(outcomes)s::text[]))
      and (%(error)s::text is null or strpos(lower(h.error), lower(%(error)s::text)) > 0)
      and (%(grp)s::text is null or h.grp = %(grp)s::text)
      and (%(error_type)s::text is null or h.error_type = %(error_type)s::text)
    order by h.ended_at desc, h.run desc
    limit %(most)s::integer
  )
  union all
  (
    select p.day, r.run, r.id, p.queue, r.id::text, null, p.priority, 1, 'done', false, p.worker_id,
      r.created_at, r.due_at, r.started_at, r.ended_at, r.duration_ms, null, null, r.payload, null
    from mainspring.history_bundle p
    cross join lateral mainspring.runs_of(p) r
    where (%(outcomes)s::text[] is null or 'done' = any(%(outcomes)s::text[]))
      and coalesce(%(error)s::text, %(grp)s::text, %(error_type)s::text) is null
      and p.last_end >= coalesce(%(since)s::timestamptz, '-infinity')
      and p.first_end <= least(coalesce(%(until)s::timestamptz, 'infinity'), coalesce(%(before_at)s::timestamptz, 'infinity'))
      and r.ended_at >= coalesce(%(since)s::timestamptz, '-infinity')
      and r.ended_at <= coalesce(%(until)s::timestamptz, 'infinity')
      and (%(before_at)s::timestamptz is null or (r.ended_at, r.run) < (%(before_at)s::timestamptz, %(before_run)s::bigint))
    order by r.ended_at desc, r.run desc
    limit %(most)s::integer
  )
) h
order by h.ended_at desc, h.run desc
limit %(most)s::integer
