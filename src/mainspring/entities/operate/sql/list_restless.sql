-- Stages that ask again and again for a visit at once, by entities whose next visit is put off for it: how many, and one of them.
-- Such a visit is due within half a minute. Locks nothing. Rides visit_due, for the visits of that half minute.
-- By a path, not by a cast: a payload of a stranger's insert may have anything there, and would end the whole report.
select s.kind, s.name as stage, count(*)::integer as entities, min(v.key) as one
from mainspring.stage s
cross join generate_series(0, 9) as p(priority)
cross join lateral (
  select v.key
  from mainspring.visit v
  where v.queue = s.kind || '/' || s.name and v.priority = p.priority and v.pass is null and v.parked_at is null
    and v.due_at between mainspring.now() and mainspring.now() + interval '30 seconds'
    and jsonb_path_exists(v.payload, '$.chain.hops ? (@ > $free)', jsonb_build_object('free', %(free)s::integer))
  limit 1000
) v
where s.retired_at is null
group by s.kind, s.name
order by s.kind, s.name
