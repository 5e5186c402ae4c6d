-- How many past runs of a queue (or of all) fit. Rides history_time and history_bundle_end; reads every row of the span, and
-- opens bundles only where not all of their runs count. Those of a key are counted by count_key.sql.
select coalesce(sum(c.count), 0)::bigint as count
from mainspring.queue q
cross join (
  select coalesce(%(since)s::timestamptz, '-infinity') as since, coalesce(%(until)s::timestamptz, 'infinity') as until,
    cardinality(%(fields)s::text[]) > 0 as each
) span
cross join lateral (
  select count(*) as count
  from mainspring.history_run h
  where h.queue = q.name
    and not h.superseded
    and h.ended_at >= span.since
    and h.ended_at <= span.until
    and (%(outcomes)s::text[] is null or h.outcome::text = any(%(outcomes)s::text[]))
    and (%(error)s::text is null or strpos(lower(h.error), lower(%(error)s::text)) > 0)
    and (%(error_type)s::text is null or h.error_type = %(error_type)s::text)
    and (%(grp)s::text is null or h.grp = %(grp)s::text)
    and (%(searchable)s::text[] is null or h.searchable @> %(searchable)s::text[])
    and (cardinality(%(fields)s::text[]) = 0 or not exists (
      select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (h.payload ->> f.name) is distinct from f.text))
  union all
  select sum(n.count)
  from mainspring.bundles_of(q.name, span.since, span.until, null) p
  cross join lateral (
    select p.size as count
    where not span.each and p.first_end >= span.since and p.last_end <= span.until
    union all
    select count(*)
    from mainspring.runs_of(p) r
    where (span.each or p.first_end < span.since or p.last_end > span.until)
      and r.ended_at >= span.since
      and r.ended_at <= span.until
      and (cardinality(%(fields)s::text[]) = 0 or not exists (
        select from unnest(%(fields)s::text[], %(texts)s::text[]) as f(name, text) where (r.payload ->> f.name) is distinct from f.text))
  ) n
  where (%(queue)s::text is not null or q.name = any(array(select mainspring.bundled_queues())))
    and (%(outcomes)s::text[] is null or 'done' = any(%(outcomes)s::text[]))
    and coalesce(%(error)s::text, %(error_type)s::text, %(grp)s::text) is null and %(searchable)s::text[] is null
) c
where %(queue)s::text is null or q.name = %(queue)s::text
