-- Some open processes whose look is due for long, by what was last known: note when their look is due now; one that has
-- none counts from now on. Answers those without, and how many there were. Locks process rows in a mode that decisions do
-- not mind and skips those that somebody has, so two sweeps at once share the work. Rides process_recovery, and the
-- primary key of visit.
with due as materialized (
  select p.id
  from mainspring.process p
  where p.state = 'open' and coalesce(p.look_at, p.created_at) < mainspring.now() - make_interval(secs => %(grace)s::double precision)
  order by coalesce(p.look_at, p.created_at)
  limit %(limit)s::integer
  for no key update skip locked
),
swept as (
  update mainspring.process p
  set look_at = greatest(mainspring.now(), l.due_at)
  from due d
  left join lateral (
    select min(v.due_at) as due_at from mainspring.visit v
    where v.key = 'look/' || d.id::text and left(v.queue, 18) = 'mainspring.process'
  ) l on true
  where p.id = d.id
  returning p.id, p.root, l.due_at is null as is_lost
)
select count(*)::integer as swept, coalesce(array_agg(id::text order by id) filter (where is_lost), '{}') as lost,
  coalesce(array_agg(root::text order by id) filter (where is_lost), '{}') as roots
from swept
