-- The same as lock_processes, but waits for a structural change: for a task that commits its own SQL.
select p.id::text, p.root::text, p.root_closed, mainspring.now() as now, p.type, p.engine
from unnest(%(ids)s::text::uuid[]) as i(id)
cross join lateral (
  select id, root, root_closed, type, engine
  from mainspring.process
  where id = i.id
    and state = 'open'
  for key share
) p
