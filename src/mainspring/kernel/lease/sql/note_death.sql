-- Note how a worker died that was just declared dead: none of its runs is to blame if it was cut off from the database; and
-- if others fell silent at the same time (within a quarter of the lease time, a beat being a fifth), only those that had
-- just begun. One and the same run cannot be older than the time between two deaths that it causes.
-- Forgets deaths of long ago, with what was blamed on them. Locks nothing else. Few rows: reads all of both tables.
with old as (
  delete from mainspring.death where beat_at < mainspring.now() - interval '30 days'
),
dead as (
  select %(worker_id)s::uuid as id, %(beat_at)s::timestamptz as beat_at,
    make_interval(secs => %(lease)s::double precision / 4) as span
),
several as (
  select exists (select from mainspring.death d where d.worker_id <> x.id and d.beat_at between x.beat_at - x.span and x.beat_at + x.span)
    or exists (
      select from mainspring.worker w
      where w.id <> x.id and w.beat_at between x.beat_at - x.span and x.beat_at + x.span
        and w.beat_at < mainspring.now() - 2 * x.span
    ) as found
  from dead x
)
insert into mainspring.death as d (worker_id, beat_at, blames_since)
select x.id, x.beat_at, case when %(fenced)s::boolean then 'infinity' when s.found then x.beat_at - x.span else '-infinity' end
from dead x, several s
on conflict (worker_id) do nothing
