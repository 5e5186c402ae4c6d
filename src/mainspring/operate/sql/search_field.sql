-- Past runs of one queue whose declared fields have these values, newest first, before a position. Locks nothing.
-- Rides history_searchable; reads every row that has the values, so they should be rare ones.
select h.day, h.run, h.id, h.queue, h.key, h.grp as "group", h.priority, h.attempt, h.outcome::text as outcome, h.superseded, h.worker_id,
  h.created_at, h.due_at, h.started_at, h.ended_at, h.duration_ms, h.error_type, h.error, h.payload::text as payload,
  h.result::text as result
from mainspring.history_run h
where h.searchable is not null
  and h.searchable @> %(searchable)s::text[]
  and h.queue = %(queue)s::text
  and (%(error_type)s::text is null or h.error_type = %(error_type)s::text)
  and h.ended_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and h.ended_at <= least(coalesce(%(until)s::timestamptz, 'infinity'), coalesce(%(before_at)s::timestamptz, 'infinity'))
  and (%(before_at)s::timestamptz is null or (h.ended_at, h.run) < (%(before_at)s::timestamptz, %(before_run)s::bigint))
  and (%(outcomes)s::text[] is null or h.outcome::text = any(%(outcomes)s::text[]))
  and (%(error)s::text is null or strpos(lower(h.error), lower(%(error)s::text)) > 0)
  and (%(grp)s::text is null or h.grp = %(grp)s::text)
  and (cardinality(%(fields)s::text[]) = 0 or not exists (
    select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (h.payload ->> f.name) is distinct from f.text))
order by h.ended_at desc, h.run desc
limit %(most)s::integer
