-- How many past runs of one key (as it may be stored) fit. Rides the primary key of runs and history_bundle_key.
select count(*) as count
from (
  select h.queue, h.outcome, h.superseded, h.ended_at, h.error_type, h.error, h.grp, h.searchable, h.payload
  from mainspring.history_run h
  where h.key = any(%(keys)s::text[])
  union all
  select p.queue, 'done', false, r.ended_at, null, null, null, null, r.payload
  from unnest(%(keys)s::text[]) as k(key)
  cross join lateral mainspring.bundles_with(k.key) p
  cross join lateral mainspring.runs_of(p) r
  where r.id::text = k.key
) h
where (%(queue)s::text is null or h.queue = %(queue)s::text)
  and not h.superseded
  and h.ended_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and h.ended_at <= coalesce(%(until)s::timestamptz, 'infinity')
  and (%(outcomes)s::text[] is null or h.outcome::text = any(%(outcomes)s::text[]))
  and (%(error)s::text is null or strpos(lower(h.error), lower(%(error)s::text)) > 0)
  and (%(error_type)s::text is null or h.error_type = %(error_type)s::text)
  and (%(grp)s::text is null or h.grp = %(grp)s::text)
  and (%(searchable)s::text[] is null or h.searchable @> %(searchable)s::text[])
  and (cardinality(%(fields)s::text[]) = 0 or not exists (
    select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (h.payload ->> f.name) is distinct from f.text))
