-- The oldest runs of a queue that ended so many seconds ago, some at a time; answers how many rows. Rides history_time and
-- history_bundle_end. A bundle goes when its last run is old. What another upkeep is dropping is left to it.
with old as materialized (
  select h.key, h.run, h.day
  from mainspring.history_run h
  where h.queue = %(queue)s::text and h.ended_at < mainspring.now() - make_interval(secs => %(keep)s::double precision)
  order by h.ended_at
  limit %(most)s::integer
  for update skip locked
),
runs as (
  delete from mainspring.history_run h using old o where h.key = o.key and h.run = o.run and h.day = o.day returning 1
),
aged as materialized (
  select b.tableoid, b.ctid
  from mainspring.history_bundle b
  where b.queue = %(queue)s::text and b.last_end < mainspring.now() - make_interval(secs => %(keep)s::double precision)
  order by b.last_end
  limit %(most_bundles)s::integer
  for update skip locked
),
bundles as (
  delete from mainspring.history_bundle b using aged a where b.tableoid = a.tableoid and b.ctid = a.ctid returning 1
)
select (select count(*) from runs)::integer as runs, (select count(*) from bundles)::integer as bundles
