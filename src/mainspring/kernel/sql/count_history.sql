-- How many past runs of a queue (or of all) fit. Rides history_time; reads every row of the span.
select count(*) as count
from mainspring.queue q
join mainspring.history h on h.queue = q.name
where (%(queue)s::text is null or q.name = %(queue)s::text)
  and (%(keys)s::text[] is null or h.key = any(%(keys)s::text[]))
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
