-- Lock processes in the shared mode of decisions, in the order of the ids, and skip those that a structural change has
-- or asks for. What is not answered is not open, or to be tried again soon.
-- Rides the primary key, one process at a time: in a join the index of open processes would look cheaper at times.
select p.id::text, p.root::text, p.root_closed, mainspring.now() as now, p.type, p.engine
from unnest(%(ids)s::text::uuid[]) as i(id)
cross join lateral (
  select id, root, root_closed, type, engine
  from mainspring.process
  where id = i.id
    and state = 'open'
    and (closing_at is null or closing_at < mainspring.now() - interval '5 seconds')
  for key share skip locked
) p
